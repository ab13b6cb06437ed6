"""Shocks and the length of a run: which ones fit, and which come too late."""

from collections.abc import Callable, Sequence
from typing import Any

from zoosim.core.errors import ConfigError


def refuse_late(late: Sequence[str], steps: int) -> None:
    """Refuse what the user asked for beyond the end of the run; `late` says what that is."""
    if late:
        raise ConfigError(f"env.{late[0]}, beyond the run of {steps} steps")


def fitting_shocks(shocks: Sequence[Any], steps: int, fits: Callable[[Any], bool]) -> tuple[list[Any], tuple[str, ...]]:
    """Return the shocks that fit the world and the run, and a note on each that does not."""
    kept = []
    notes = []
    for shock in shocks:
        if fits(shock) and shock.step < steps:
            kept.append(shock)
        else:
            reason = f"the run ends at {steps}" if fits(shock) else "it does not fit this world"
            notes.append(f"shock {shock.name!r} at step {shock.step} is dropped: {reason}")
    return kept, tuple(notes)
