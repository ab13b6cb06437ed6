"""Launch challengers of known effects in the same shops, by plan and by ramp."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from studies.launches.courses import clicks_lost, planned_course, ramp_course
from studies.work import rows_by_seed
from zoosim.core.checks import check_whole
from zoosim.core.config import build
from zoosim.core.types import Progress
from zoosim.monitoring.launch import State
from zoosim.monitoring.launch_plan import Plan
from zoosim.playground.visitors import DAYS, draw_visitors

EFFECTS = (-0.2, -0.05, 0.0, 0.1, 0.2)
"""By what part more of its visitors click than of the champion's."""

PLAN, RAMP = "plan", "GrowthBook"
METHODS = (PLAN, RAMP)


@dataclass(frozen=True)
class Run:
    """A launch: its last state, the hour of it, clicks lost in all, and the new model's shares, each from when on."""

    seed: int
    effect: float
    method: str
    state: State
    hour: float
    lost: float
    starts: tuple[float, ...]
    shares: tuple[float, ...]


def measure(
    *,
    seeds: Any = "1000:1030",
    jobs: Any = None,
    days: int = DAYS,
    plan: Any = None,
    progress: Progress = lambda line: None,
) -> list[Run]:
    """Return the launches of each challenger in each shop; `plan` holds what differs from the default plan."""
    in_days = check_whole("launches: days", days, 2, 365)
    work = partial(_at_seed, days=in_days, plan=build(Plan, plan or {}, "launches: plan"))
    return rows_by_seed(work, seeds, jobs=jobs, progress=progress)


def _at_seed(seed: int, *, days: int, plan: Plan) -> list[Run]:
    visitors = draw_visitors(seed, days)
    rows = []
    for effect in EFFECTS:
        courses = {PLAN: planned_course(plan, visitors, effect), RAMP: ramp_course(visitors, effect)}
        for method, course in courses.items():
            rows.append(Run(seed, effect, method, *course[:2], clicks_lost(course, visitors, effect), *course[2:]))
    return rows
