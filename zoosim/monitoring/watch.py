"""Dispatch to one of the drift detectors by number, for kernels whose detector is a parameter."""

from zoosim.core.jit import jit
from zoosim.monitoring import adwin, glr, page_hinkley
from zoosim.monitoring.adwin import AdwinState
from zoosim.monitoring.glr import GLRState
from zoosim.monitoring.page_hinkley import PageHinkleyState

DETECTORS = ("adwin", "page-hinkley", "glr")
ADWIN, PAGE_HINKLEY, GLR = range(len(DETECTORS))


@jit
def observe(a: AdwinState, p: PageHinkleyState, g: GLRState, detector: int, i: int, x: float) -> bool:
    """Add x in [0, 1] to number i of the chosen detectors; True when a change is found, and then it starts anew."""
    if detector == PAGE_HINKLEY:
        return page_hinkley.observe(p, i, x)
    if detector == GLR:
        return glr.observe(g, i, x)
    changed = adwin.observe(a, i, x)
    if changed:
        adwin.reset(a, i)
    return changed


@jit
def reset(a: AdwinState, p: PageHinkleyState, g: GLRState, detector: int, i: int) -> None:
    """Make number i of the chosen detectors forget all it has seen."""
    if detector == PAGE_HINKLEY:
        page_hinkley.reset(p, i)
    elif detector == GLR:
        glr.reset(g, i)
    else:
        adwin.reset(a, i)
