"""Small runs to damage, and what is said of a file: that it is damaged, or what it always said."""

from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

import zoosim
from zoosim.core.errors import ZoosimError

POLICIES = ("random", "greedy")
STEPS = 200
SHOP = {"n_products": 6, "n_users": 20}


class Outcome(StrEnum):
    """What came of reading a damaged file; the last two are faults of zoosim."""

    DETECTED = "detected"
    HARMLESS = "harmless"
    SILENT = "silent"
    TRACEBACK = "traceback"


def make_run(out: Path, **changes: Any) -> zoosim.RunResult:
    """Make a run of 2 policies on 2 seeds, or continue one."""
    options: dict[str, Any] = {
        **{"policies": POLICIES, "seeds": 2, "steps": STEPS, "config": {"env": SHOP}, "jobs": 1},
        **changes,
    }
    return zoosim.run("gauntlet", out=out, **options)


def outcome(read: Callable[[], Any], sound: Any, name: str) -> Outcome:
    """Return what came of reading: an error counts as detected if it is one line that names the file."""
    try:
        value = read()
    except ZoosimError as error:
        is_clear = name in str(error) and "\n" not in str(error)
        return Outcome.DETECTED if is_clear else Outcome.TRACEBACK
    except Exception:
        return Outcome.TRACEBACK
    return Outcome.HARMLESS if value == sound else Outcome.SILENT


def count_outcomes(
    path: Path, copies: Iterable[tuple[str, bytes]], read: Callable[[], Any]
) -> tuple[Counter[Outcome], list[str]]:
    """Put each copy in the place of a file, and return how often what came of it, and which copies were not refused."""
    content = path.read_bytes()
    sound = read()
    counts = Counter[Outcome]()
    faults = []
    try:
        for what, damaged in copies:
            path.write_bytes(damaged)
            result = outcome(read, sound, path.name)
            counts[result] += 1
            if result in (Outcome.SILENT, Outcome.TRACEBACK):
                faults.append(what)
    finally:
        path.write_bytes(content)
    return counts, faults
