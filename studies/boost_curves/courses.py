"""Let every learner go through the visits of every seed, and measure what could be reached."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from studies.boost_curves.learners import CHANGED_VISITS, DEFAULT, LEARNERS, WORLDS
from studies.boost_curves.lines import CELL, lines_of
from studies.boost_curves.records import ALL, Reached, Way
from studies.held_out import CHECKPOINTS, EARLY, run_course
from studies.side_by_side import side_by_side
from zoosim.arena.backends.local import default_jobs
from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.parameters import shown
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds

BOTH = "both"


class Task(NamedTuple):
    """A course to be played: a learner in the shop of a seed under some laws, scored at checkpoints."""

    who: str
    laws: str
    seed: int
    checkpoints: tuple[int, ...]


def measure(
    *,
    seeds: Any = "1000:1020",
    visits: Any = 10_000,
    laws: Any = BOTH,
    jobs: Any = None,
    progress: Progress = lambda line: None,
) -> list[Reached | Way]:
    """Measure lines and learners over so many `visits` of each seed, 1,000 at most with the laws changed.

    `laws` are "default", "changed" or "both". What is finished is kept on disk, so a run that was stopped goes on.
    Raises `ConfigError`.
    """
    worlds, last = _worlds(laws), check_whole("boost-curves: visits", visits, 1, 1_000_000)
    n_jobs = check_whole("boost-curves: jobs", default_jobs() if jobs is None else jobs, 1, 1_024)
    shops = [(world, seed) for world in worlds for seed in parse_seeds(seeds)]
    courses = [Task(who, *shop, checkpoints_of(shop[0], last)) for shop in shops for who in LEARNERS]
    told = Told(len(shops) + len(courses), progress)
    lines = side_by_side(_lines, shops, jobs=n_jobs, done=lambda shop, rows: told.lines(*shop, rows))
    ways = side_by_side(_course, courses, jobs=n_jobs, done=told.course)
    return [row for rows in (*lines, *ways) for row in rows]


def checkpoints_of(laws: str, visits: int) -> tuple[int, ...]:
    """Return after how many visits a learner is scored that meets so many, fewer with the laws changed."""
    last = visits if laws == DEFAULT else min(visits, CHANGED_VISITS)
    return (*(checkpoint for checkpoint in CHECKPOINTS if checkpoint < last), last)


def _worlds(laws: Any) -> tuple[str, ...]:
    if laws not in (BOTH, *WORLDS):
        expected = f"expected {', '.join(WORLDS)} or {BOTH}"
        raise ConfigError(f"boost-curves: laws: got {shown(laws)}, {expected}")
    return tuple(WORLDS) if laws == BOTH else (laws,)


def _lines(shop: tuple[str, int]) -> list[Reached | Way]:
    return [*lines_of(*shop)]


def _course(task: Task) -> list[Reached | Way]:
    """Play a course, unless it is on disk."""
    who, laws, seed, checkpoints = task
    course = run_course(LEARNERS[who].entry(who), WORLDS[laws], seed, checkpoints)
    rows = [Reached(who, laws, seed, row.visits, row.segment, row.reward, row.optimum) for row in course.scores]
    earned = course.earned if checkpoints[-1] >= EARLY[1] else None
    return [*rows, Way(who, laws, seed, earned, course.decision_ms, course.learning_ms)]


class Told:
    """Tells of what is finished, and counts it."""

    def __init__(self, of: int, progress: Progress) -> None:
        """Count up to `of`."""
        self.count, self.of, self.progress = 0, of, progress

    def lines(self, laws: str, seed: int, rows: Sequence[Reached | Way]) -> None:
        """Tell of a seed's lines."""
        self._tell(laws, seed, CELL, rows)

    def course(self, task: Task, rows: Sequence[Reached | Way]) -> None:
        """Tell of a learner's course."""
        self._tell(task.laws, task.seed, task.who, rows)

    def _tell(self, laws: str, seed: int, who: str, rows: Sequence[Reached | Way]) -> None:
        shares = [row.share for row in rows if isinstance(row, Reached) and (row.who, row.segment) == (who, ALL)]
        words = f"{who} {100 * shares[-1]:.1f}% of the optimum"
        self.count += 1
        self.progress(f"{self.count} of {self.of}, seed {seed}, laws {laws}: {words}")
