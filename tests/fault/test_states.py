"""Nothing that stands in a saved state or its file goes wrong in silence, and nothing of it crashes compiled code.

A mutated state is refused in one line, and the policy is then exactly as it was; or it could be a state, and the policy
goes on with it, by probabilities that are some and numbers that are finite. A file of which a bit is another, or whose
end is gone, is refused in one line that names it.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import ROOT, Ended, new_process, run_zoosim
from tests.fault.mutations import bit_flips, truncations
from tests.fault.states import SUBJECTS
from tests.worlds.fitted.test_world import made_log
from zoosim.core.errors import DataError
from zoosim.core.files import cache_folder
from zoosim.core.packed import read_packed, write_packed
from zoosim.fitting.fit import fit_shop
from zoosim.policies.checks.shop import SMALL
from zoosim.policies.model import PACKING as MODEL
from zoosim.policies.model import load_model
from zoosim.policies.persistence import load_policy, packed_policy, save_policy
from zoosim.policies.registry import find_class
from zoosim.serving.snapshots import PACKING as SNAPSHOT
from zoosim.worlds.fitted.file import load_world, save_world

MOST_MEGABYTES = 1_000
BOUNDS = {"NUMBA_BOUNDSCHECK": "1", "ZOOSIM_CACHE": str(cache_folder() / "bounds-checked")}
"""Compiled code then raises an IndexError for each place that is not there; it is kept apart from other code."""


GROUPS = [list(SUBJECTS)[start::8] for start in range(8)]


def bounds_checked(*words: str) -> Ended:
    """Run Python with compiled code that checks each place it reads or writes."""
    return new_process([sys.executable, *words], env=os.environ | BOUNDS)


def outcomes(what: str, names: Sequence[str], count: int, *, is_bounded: bool = False) -> Counter[str]:
    """Run mutations in processes of their own, past those that crash; return how often which outcome came.

    If `is_bounded`, compiled code checks each place that it reads or writes.
    """
    tally: Counter[str] = Counter()
    first = 0
    while first < count:
        words = ["-m", "tests.fault.states", what, ",".join(names), str(count), str(first)]
        ran = bounds_checked(*words) if is_bounded else run_zoosim(*words, cwd=ROOT)
        case: list[Any] = [first - 1, "before the first case"]
        subject = names[0]
        for line in map(json.loads, ran.out.splitlines()):
            if isinstance(line, list):
                case = line
            elif isinstance(line, str):
                tally[line if line in ("refused", "taken") else f"{subject} {case}: {line}"] += 1
            elif "subject" in line:
                subject = line["subject"]
                assert line["sound"], f"{subject}: an untouched state is not taken over"
            else:
                assert line["megabytes"] < MOST_MEGABYTES
                return tally
        tally[f"{subject} {case}: crashed with {ran.code}: {ran.err[-500:]}"] += 1
        assert case[0] >= first, ran.err[-2_000:]
        first = case[0] + 1 if len(names) == 1 else count
    return tally


def is_harmless(tally: Counter[str]) -> bool:
    print(dict(tally))
    return set(tally) <= {"refused", "taken"} and tally["refused"] > 0


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_a_mutated_state_or_file_is_refused_or_could_be_one(names: list[str]) -> None:
    assert is_harmless(outcomes("states,files", names, 4))


BEYOND = """
import numpy as np
from zoosim.core.jit import bind, jit
inner = jit(lambda array, i: array[i])
bind(lambda array, i: inner(array, i), "outer", inner=inner)(np.zeros(2), 5)
"""
"""Reads beyond an array, in a compiled part of compiled code."""


@pytest.mark.slow
def test_compiled_code_finds_every_place_that_a_state_points_to() -> None:
    assert "IndexError" in bounds_checked("-c", BEYOND).err
    assert is_harmless(outcomes("states", ["linucb"], 60, is_bounded=True))


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_thousand_mutated_states_are_refused_or_could_be_some(name: str) -> None:
    assert is_harmless(outcomes("states", [name], 1_000))


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("name", SUBJECTS)
def test_many_mutated_files_are_refused_or_could_be_some(name: str) -> None:
    assert is_harmless(outcomes("files", [name], 300))


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("name", SUBJECTS)
def test_compiled_code_finds_every_place_that_any_state_points_to(name: str) -> None:
    assert is_harmless(outcomes("states", [name], 200, is_bounded=True))


def saved(kind: str, folder: Path) -> tuple[Path, Callable[[Path], object]]:
    """Return a file of a kind, and the function that reads such files."""
    policy = find_class("linucb")(SMALL.spec, np.random.default_rng(0))
    if kind == "policy":
        return save_policy(policy, folder / "policy.npz"), load_policy
    if kind == "world":
        return save_world(fit_shop(made_log()).shop, folder / "shop.world"), load_world
    packing = MODEL if kind == "model" else SNAPSHOT
    write_packed(folder / kind, packing, *packed_policy(policy))
    return folder / kind, load_model if kind == "model" else lambda path: read_packed(path, SNAPSHOT)


def refused(kind: str, folder: Path, every: int) -> int:
    """Damage a file, and count in how many ways it was refused: all, or this fails."""
    path, load = saved(kind, folder)
    content = path.read_bytes()
    damages = chain(bit_flips(content, 10_000, 0), truncations(content, 500, 0))
    count = 0
    for words, damaged in islice(damages, 0, None, every):
        path.write_bytes(damaged)
        with pytest.raises(DataError) as error:
            load(path)
        assert str(error.value).startswith(f"{path}: "), words
        assert "\n" not in str(error.value), words
        count += 1
    print(f"\n{kind}: {count:,} copies, all detected")
    return count


KINDS = ("policy", "model", "snapshot", "world")


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_refused(kind: str, tmp_path: Path) -> None:
    assert refused(kind, tmp_path, every=50) > 200


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_damaged_files_are_refused(kind: str, tmp_path: Path) -> None:
    assert refused(kind, tmp_path, every=1) > 10_000
