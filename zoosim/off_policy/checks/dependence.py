"""Rows that go together though the log names no users."""

import math

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.off_policy.checks.probe import Probe
from zoosim.off_policy.intervals.clusters import dot
from zoosim.off_policy.verdict import Findings

REPEATED = 0.1
"""Share of rows that repeat another row's features from which on they are a matter."""

HARMLESS = 1.2
"""How much larger the variance of the estimate may be with rows put together by features."""

BLOCKS = (8, 32, 128)
FEWEST_BLOCKS = 20
BLOCK_ERRORS = 4.5
BLOCK_VARIANCE = 1.2
"""Neighbouring rows that are summed up, and how much more such sums may vary than those of independent rows."""


def check_dependence(findings: Findings, probe: Probe, influence: FloatArray) -> None:
    """Compare how much an estimate varies with what it would vary if rows were independent.

    Args:
        findings: Receives the reasons against the log.
        probe: The log.
        influence: Each row's influence on the estimate `(n,)`.
    """
    largest = float(np.abs(influence).max())
    if probe.names_users or not largest:
        return
    influence = influence / largest  # whose fourth powers are summed up, and vanish where rewards are tiny
    if probe.has_measured_numbers and probe.repeated > REPEATED:
        _check_repeated(findings, probe, influence)
    if probe.order is not None:
        _check_blocks(findings, probe.without_cycles(influence)[probe.order])


def _check_repeated(findings: Findings, probe: Probe, influence: FloatArray) -> None:
    """Put rows with the same features together, as visits of a user."""
    together = probe.visitors.sums(influence)
    squares = together**2
    fourth_powers = dot(squares, squares)
    if not fourth_powers:
        return
    growth = float(squares.sum()) / dot(influence, influence)
    groups = float(squares.sum()) ** 2 / fourth_powers
    most_growth = growth + 2.0 * math.sqrt(2.0 / groups)
    if most_growth < HARMLESS:
        return
    observation = f"{100 * probe.repeated:.0f}% of the rows repeat the features of another, as visits of a user do"
    wider = f"if they are, the interval may have to be {math.sqrt(most_growth):.2g} times as wide"
    findings.add(f"{observation}, and the log names no users: {wider}; log user ids", useless=False)


def _check_blocks(findings: Findings, influence: FloatArray) -> None:
    """Sum up neighbouring rows: their sums vary as much as independent rows do, unless these go together."""
    variance = float(influence.var())
    if not variance:
        return
    squares = (influence - influence.mean()) ** 2
    kurtosis = float((squares**2).mean()) / variance**2
    for size in BLOCKS:
        count = len(influence) // size
        if count < FEWEST_BLOCKS:
            break
        sums = influence[: count * size].reshape(count, size).sum(axis=1)
        growth = float(sums.var()) / (size * variance)
        error = math.sqrt((2.0 + kurtosis / size) / count)
        if growth > BLOCK_VARIANCE and growth - 1.0 > BLOCK_ERRORS * error:
            observation = (
                f"rows near each other go together: sums of {size} rows vary {growth:.2g} times as much as they should"
            )
            wider = "the interval takes rows for independent and may be too narrow"
            findings.add(f"{observation}; {wider}; log user ids, or what these rows share", useless=False)
            return
