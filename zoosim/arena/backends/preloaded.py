"""What workers need: imported once, by the process that they are forked from."""

import gc

import numba.core.registry

import zoosim.arena.compiled
import zoosim.arena.runner  # noqa: F401

numba.core.registry.cpu_target.target_context.refresh()
numba.core.registry.cpu_target.typing_context.refresh()
gc.collect()
gc.freeze()  # so that no worker looks through what was imported here, nor copies it
