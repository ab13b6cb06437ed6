"""Modules that workers need: imported once, by the process that they are forked from."""

import gc
from contextlib import suppress

import zoosim.arena.compiled
import zoosim.arena.runner  # noqa: F401

with suppress(ImportError, AttributeError):  # a numba whose inner parts have moved: each worker looks them up
    from numba.core.registry import cpu_target

    cpu_target.target_context.refresh()
    cpu_target.typing_context.refresh()
gc.collect()
gc.freeze()  # so that no worker looks through what was imported here, nor copies it
