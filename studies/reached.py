"""Studies that ask how much of the best possible rewards policies reach, in worlds that come back by their seed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from studies.figures import add_interval, rows_figure
from studies.rows import rows_where, values_where
from studies.work import rows_by_task
from studies.writing import told
from zoosim.arena.loop import play
from zoosim.arena.past import fit_policy
from zoosim.arena.plan import Plan
from zoosim.core.array_cache import kept
from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.feedback import FeedbackTiming
from zoosim.core.sources import source_digest
from zoosim.core.statistics import mean_interval
from zoosim.core.types import FloatArray, Progress
from zoosim.experiments.request import parse_seeds
from zoosim.policies.registry import PolicyEntry, make_entry
from zoosim.report.drawing import COLORS
from zoosim.report.sections import Drawing, Page, PageTable
from zoosim.worlds.table import TableWorld

OF_ORACLE, OF_THE_WAY = "% of oracle", "% of the way from random to oracle"
TERMS = {
    OF_ORACLE: "Expected rewards of what was shown, summed from the first visit on, over those of the best choices.",
    OF_THE_WAY: "The same, both less what random choices earn: 0 is as good as random, and rewards may be negative.",
    "intervals": "In brackets, 95% over seeds (Student's t).",
}

MakeWorld = partial[TableWorld]
"""Makes the world of a seed, for so many visits; its arguments say which kind of world that is."""


@dataclass(frozen=True)
class Reached:
    """What a policy reached in the first `visits` of a world.

    `oracle` and `way` in %; `changed` is the share of its decisions, in %, that are not those in the world's twin.
    """

    world: str
    policy: str
    seed: int
    visits: int
    oracle: float
    way: float
    changed: float | None = None


@dataclass(frozen=True)
class ReachedStudy:
    """Worlds by name, who competes by default, and after which numbers of visits it is told what was reached.

    `twins` names worlds in which the same decisions are expected as in another; `measured` is `OF_ORACLE` or
    `OF_THE_WAY`.
    """

    worlds: Mapping[str, MakeWorld]
    policies: tuple[str, ...]
    checkpoints: tuple[int, ...]
    measured: str
    seeds: str = "1000:1020"
    twins: Mapping[str, str] | None = None

    def measure(
        self,
        *,
        seeds: Any = None,
        jobs: Any = None,
        policies: str | None = None,
        worlds: str | None = None,
        steps: int | None = None,
        progress: Progress = lambda line: None,
    ) -> list[Reached]:
        """Let policies meet the worlds of each seed, all or those named, for so many `steps`; commas part names."""
        names = _named("policies", policies) or list(self.policies)
        chosen = _named("worlds", worlds) or list(self.worlds)
        for world in chosen:
            if world not in self.worlds:
                raise ConfigError(f"worlds: got {world!r}, expected some of {', '.join(self.worlds)}")
        most = self.checkpoints[-1]
        n_visits = most if steps is None else check_whole("steps", steps, 1, most)
        for name in names:
            make_entry(name)  # a name that is none is refused before anything runs
        tasks = [(name, seed) for seed in parse_seeds(self.seeds if seeds is None else seeds) for name in names]
        study = replace(self, worlds={world: self.worlds[world] for world in chosen})
        work = partial(_rows_of, study, n_visits)
        return rows_by_task(work, tasks, jobs=jobs, words=lambda task: f"{task[0]}, seed {task[1]}", progress=progress)

    def build_page(self, rows: Sequence[Reached]) -> Page:
        """Write the table of all worlds and policies, the best of each world first, and draw it."""
        field = "oracle" if self.measured == OF_ORACLE else "way"
        worlds = list(dict.fromkeys(row.world for row in rows))
        checkpoints = sorted({row.visits for row in rows})
        n_seeds = len({row.seed for row in rows})
        ordered = [(world, policy) for world in worlds for policy in _ordered(rows, world, field)]
        with_twins = any(row.changed is not None for row in rows)
        heads = ["world", "policy", *(f"after {visits:,}" for visits in checkpoints), "worst seed"]
        cells = []
        for world, policy in ordered:
            means = [
                told(values_where(rows, field, world=world, policy=policy, visits=visits), 1) for visits in checkpoints
            ]
            last = rows_where(rows, world=world, policy=policy, visits=checkpoints[-1])
            worst = min(getattr(row, field) for row in last)
            changed = [row.changed for row in last if row.changed is not None]
            twin = ["" if not changed else f"{np.mean(changed):.2f}"] if with_twins else []
            cells.append([world, policy, *means, f"{worst:.1f}", *twin])
        if with_twins:
            heads.append("other decisions, %")
        table = PageTable(f"{self.measured}, {n_seeds} seeds", heads, cells, n_text=2)
        drawing = Drawing(
            "Who gets how far?",
            f"{self.measured.capitalize()} after {checkpoints[-1]:,} visits, mean and 95% interval over {n_seeds} "
            "seeds; a color for each policy.",
            _figure_of(rows, worlds, checkpoints[-1], field, self.measured),
        )
        leaders = [f"{_ordered(rows, world, field)[0]} ({world})" for world in worlds]
        ((best, count),) = Counter(_ordered(rows, world, field)[0] for world in worlds).most_common(1)
        where = f"in {count} of {len(worlds)} worlds" if len(worlds) > 1 else f"in {worlds[0]}"
        answer = f"Use {best}: it is ahead {where}, by the mean over {n_seeds} seeds."
        return Page(answer, [table], [drawing], TERMS, details=[f"Ahead in the mean: {', '.join(leaders)}."])


def percent_of_oracle(plan: Plan, entry: PolicyEntry, seed: int, feedback: FeedbackTiming | None = None) -> float:
    """Return the share of the oracle's expected rewards, in %, that a policy reaches in a run's world of a seed.

    Args:
        plan: The run.
        entry: The policy.
        seed: Seed of the world and of the policy.
        feedback: When rewards reach the policy; as the world says if not given.
    """
    world = plan.world(seed, entry)
    policy, _ = fit_policy(entry, world, plan.steps, lambda line: None)
    reached = best = 0.0
    timing = world.feedback if feedback is None else feedback
    for block in play(world, policy, plan.steps, feedback=timing):
        reached += float(block.expected_rewards.sum())
        best += float(block.best_rewards.sum())
    return 100.0 * reached / best


def _named(option: str, value: Any) -> list[str]:
    """Return the names in an option, none where it is not given."""
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{option}: got {value!r}, expected names with commas between")
    return value.split(",") if value else []


def _ordered(rows: Sequence[Reached], world: str, field: str) -> list[str]:
    """Return the policies of a world, the best after all visits first."""
    most = max(row.visits for row in rows)
    here = rows_where(rows, world=world, visits=most)
    policies = dict.fromkeys(row.policy for row in here)
    return sorted(policies, key=lambda policy: -float(np.mean(values_where(here, field, policy=policy))))


def _figure_of(rows: Sequence[Reached], worlds: Sequence[str], visits: int, field: str, title: str) -> Any:
    figure = rows_figure(worlds, title)
    policies = list(dict.fromkeys(row.policy for row in rows))
    for place, world in enumerate(worlds):
        for number, policy in enumerate(policies):
            interval = mean_interval(values_where(rows, field, world=world, policy=policy, visits=visits))
            height = place + 0.7 * (number - (len(policies) - 1) / 2) / len(policies)
            hover = f"{policy}, {world}: {interval.mean:.1f}"
            add_interval(figure, interval, height, COLORS[number % len(COLORS)], hover)
    return figure


def _rows_of(study: ReachedStudy, n_visits: int, task: tuple[str, int]) -> list[Reached]:
    name, seed = task
    played = {world: _kept_sums(make, name, seed, n_visits) for world, make in study.worlds.items()}
    rows = []
    for world, sums in played.items():
        twin = (study.twins or {}).get(world)
        changed = None if twin not in played else 100.0 * float(np.mean(sums["actions"] != played[twin]["actions"]))
        for visits in sorted({min(visits, n_visits) for visits in study.checkpoints}):
            reached, best, random = (sums[part][visits - 1] for part in ("reached", "best", "random"))
            of_the_way = 100.0 * (reached - random) / (best - random)
            rows.append(Reached(world, name, seed, visits, 100.0 * reached / best, of_the_way, changed))
    return rows


def _kept_sums(make: MakeWorld, name: str, seed: int, n_visits: int) -> dict[str, FloatArray]:
    """Return what `_sums` does, kept on disk as long as no code changes that it depends on."""
    world = (make.func.__name__, make.args, make.keywords, source_digest(make.func.__module__))
    key = (*world, name, make_entry(name).fingerprint, seed, n_visits)
    return kept("reached", key, ("reached", "best", "random", "actions"), partial(_sums, make, name, seed, n_visits))


def _sums(make: MakeWorld, name: str, seed: int, n_visits: int) -> dict[str, FloatArray]:
    """Return what a policy, the best and random choices earn in expectation, summed up to each visit, and choices."""
    world = make(seed, n_visits)
    policy, _ = fit_policy(make_entry(name), world, n_visits, lambda line: None)
    blocks = list(play(world, policy, n_visits))
    random = np.concatenate([_random_rewards(world, block.start, len(block.actions)) for block in blocks])
    return {
        "reached": np.cumsum(np.concatenate([block.expected_rewards for block in blocks])),
        "best": np.cumsum(np.concatenate([block.best_rewards for block in blocks])),
        "random": np.cumsum(random),
        "actions": np.concatenate([block.actions for block in blocks]).astype(np.int32),
    }


def _random_rewards(world: TableWorld, start: int, count: int) -> FloatArray:
    """Return what a random choice earns in expectation at each of `count` visits, all in one period."""
    visits = world.visits(start, start + count)
    means: FloatArray = visits.table[:, visits.groups[visits.available]].mean(axis=1)
    return means[visits.segments[visits.visitors]]
