"""Let policies meet visitors who come back, and time those who know them, with a full memory."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from studies.cache import kept_rows
from studies.own_tastes.world import PRODUCTS, own_tastes
from studies.work import rows_by_task
from zoosim.arena.loop import play
from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown
from zoosim.core.rng import stream
from zoosim.core.types import IntArray, Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.products.visitor_linear import VisitorLinUCB
from zoosim.policies.registry import make_entry

T = TypeVar("T")

COMPARED = ("linucb", "visitor-linucb")
POLICIES = ("random", "linucb", "d-linucb", "visitor-linucb")
OWN = (0.0, 0.5, 1.0)
"""How much visitors differ, in units of the tastes that all share."""

ALL = "all"
COMES = {"1st": (0, 1), "2nd to 4th": (1, 4), "5th to 9th": (4, 9), "10th and later": (9, 10**9), ALL: (0, 10**9)}
"""Visits of a visitor by their number, from 0."""

VISITS = 30_000
KNOWN = (1_000, 100_000)
"""Visitors that a memory is filled with, before single decisions are timed."""

CALLS = 500


@dataclass(frozen=True)
class Reached:
    """The share of the oracle's clicks, in %, that a policy had at visits that are `comes` of their visitor."""

    policy: str
    seed: int
    own: float
    comes: str
    percent: float


@dataclass(frozen=True)
class Filled:
    """What `visitor-linucb` takes when it knows so many visitors by eight visits each.

    `megabytes` of its state; median microseconds of a decision and of an update on one thread.
    """

    visitors: int
    megabytes: float
    decision: float
    update: float


def measure(
    *,
    seeds: Any = "1000:1004",
    jobs: Any = None,
    visits: int = VISITS,
    own: Any = OWN,
    policies: Any = POLICIES,
    progress: Progress = lambda line: None,
) -> list[Reached | Filled]:
    """Let policies serve so many `visits` of each seed and difference, then fill the memory; kept on disk.

    `own` are some of `OWN`, and `policies` some of `POLICIES`, `COMPARED` among them.
    """
    count = check_whole("own-tastes: visits", visits, 100, 100_000_000)
    differences = _chosen("own", own, OWN)
    names = _chosen("policies", policies, POLICIES, COMPARED)
    tasks = [
        (policy, seed, difference) for difference in differences for seed in parse_seeds(seeds) for policy in names
    ]
    work = partial(_kept, count)
    rows: list[Reached | Filled] = []
    rows += rows_by_task(work, tasks, jobs=jobs, words=_words, progress=progress)
    # After all others, in this process alone: nothing else of the study takes the processor meanwhile.
    for visitors in KNOWN:
        progress(f"filling a memory of {visitors:,} visitors")
        rows.append(fill(visitors))
    return rows


def _chosen(label: str, values: Any, known: Sequence[T], needed: Sequence[T] = ()) -> list[T]:
    """Return the `known` values that a list names; raises `ConfigError` for others, and where a needed one lacks."""
    is_list = isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 0
    if not is_list or not all(value in known for value in values) or not all(value in values for value in needed):
        with_needed = f", with {' and '.join(map(str, needed))}" if needed else ""
        expected = f"a list of some of {', '.join(map(str, known))}{with_needed}"
        raise ConfigError(f"own-tastes: {label}: got {shown(values)}, expected {expected}")
    return [value for value in known if value in values]


def _words(task: tuple[str, int, float]) -> str:
    return f"{task[0]}, seed {task[1]}, own tastes {task[2]:g}"


def _kept(visits: int, task: tuple[str, int, float]) -> list[Reached]:
    policy, _, _ = task
    key = (make_entry(policy).fingerprint, *task, visits, COMES)
    return kept_rows("own-tastes", key, Reached, partial(reached_by, *task, visits))


def reached_by(policy: str, seed: int, own: float, visits: int) -> list[Reached]:
    """Let a policy serve `visits` of as many visitors as come ten times each."""
    world = own_tastes(seed, visitors=max(1, visits // 10), own=own)
    spec = world.spec(visits)
    rng = stream(seed, "policy", policy)
    # The same model for all as that of `visitor-linucb`, which forgets as slowly.
    params = {"discount": VisitorLinUCB(spec, rng).discount} if policy == "d-linucb" else {}
    made = make_entry(policy, params=params).make(spec, rng)
    blocks = list(play(world, made, visits))
    reached, best, visitors = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("expected_rewards", "best_rewards", "user_ids")
    )
    numbers = visit_numbers(visitors)
    rows = []
    for comes, (first, stop) in COMES.items():
        here = (numbers >= first) & (numbers < stop)
        if here.any():
            rows.append(Reached(policy, seed, own, comes, float(100.0 * reached[here].sum() / best[here].sum())))
    return rows


def visit_numbers(coming: IntArray) -> IntArray:
    """Return for each visit `(n,)` how often its visitor has come before."""
    order = np.argsort(coming, kind="stable")
    ordered = coming[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[first, len(ordered)])
    numbers = np.empty(len(coming), np.int64)
    numbers[order] = np.arange(len(ordered)) - np.repeat(first, lengths)
    return numbers


def fill(visitors: int) -> Filled:
    """Teach `visitor-linucb` eight visits of each of so many visitors, and time it then."""
    # Each visitor comes eight times in a row, so that all of them fill their places.
    world = own_tastes(0, visitors=visitors, own=1.0)
    policy = VisitorLinUCB(world.spec(8 * visitors), stream(0, "policy"))
    ids = np.repeat(np.arange(visitors), policy.visits)
    actions = stream(0, "shown").integers(PRODUCTS, size=len(ids))
    rewards = stream(0, "clicks").random(len(ids)).round()
    for start in range(0, len(ids), 10_000):
        part = slice(start, start + 10_000)
        candidates = policy.attach_block(world.product_ids, world.products, len(ids[part]))
        policy.teach(candidates, ids[part], world.users[ids[part]], actions[part], rewards[part])
    spans = np.empty((CALLS, 2))
    for call in range(CALLS):
        request = world.context(world.arrive(call))
        began = time.perf_counter()
        action = policy.select_action(request)
        chosen = time.perf_counter()
        policy.update(request, action, 1.0)
        spans[call] = chosen - began, time.perf_counter() - chosen
    held = sum(value.nbytes for value in policy.learned_in_use().values() if isinstance(value, np.ndarray))
    decision, update = (1e6 * np.median(spans, axis=0)).tolist()
    return Filled(visitors, held / 1e6, decision, update)
