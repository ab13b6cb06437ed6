"""Launch challengers of known effects in the shops of the study `launches`, over HTTP and computed."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.launches.courses import clicks_lost, planned_course, ramp_course
from studies.results_file import ResultsFile
from studies.served_launches.service import serve_launch
from zoosim.core.checks import check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.types import Progress
from zoosim.experiments.request import parse_seeds
from zoosim.monitoring.launch import State
from zoosim.monitoring.launch_plan import Plan
from zoosim.playground.visitors import DAYS, Visitors, draw_visitors
from zoosim.rehearsal.launches.course import Course

EFFECTS = (-0.2, 0.1)
"""By what part more of its visitors click than of the champion's."""

SERVED, SAME_DRAWS, COMPUTED, RAMP = "over HTTP", "computed, same draws", "computed", "GrowthBook"
METHODS = (SERVED, SAME_DRAWS, COMPUTED, RAMP)


@dataclass(frozen=True)
class Run:
    """A launch: its last state, the hour of it, visitors until then, clicks lost, and requests without an answer."""

    seed: int
    effect: float
    method: str
    state: str
    hour: float
    visitors: int
    lost: float
    refused: int = 0


def measure(
    *,
    seeds: Any = "1000:1030",
    effects: Any = None,
    days: int = DAYS,
    hours: Any = None,
    results: Any = None,
    progress: Progress = lambda line: None,
) -> list[Run]:
    """Return the launches, one after the other, since a service and its visitors keep two cores busy.

    Args:
        seeds: The shops.
        effects: Those of the challengers, of `EFFECTS`.
        days: Days of each shop.
        hours: Simulated hours after which a launch by plan is left as it is; by default all days.
        results: A file to which launches are appended as they end; those that it holds are not done again.
        progress: Called with a line for each.

    Raises:
        ConfigError: an option is none.
    """
    in_days = check_whole("served-launches: days", days, 2, 365)
    in_hours = check_whole("served-launches: hours", 24 * in_days if hours is None else hours, 1, 24 * in_days)
    file = ResultsFile(results, Run, ["seed", "effect"])
    rows = []
    for seed in parse_seeds(seeds):
        for effect in _effects(effects):
            launches = file.rows(seed, effect)
            if launches is None:
                launches = file.add(_launches(draw_visitors(seed, in_days), effect, seed, in_hours))
            served = launches[0]
            ended = f"{served.state} after {served.hour:.1f} hours, {served.visitors:,} visitors"
            progress(f"seed {seed}, {effect:+.0%}: {ended}")
            rows += launches
    return rows


def _effects(effects: Any) -> list[float]:
    """Return the effects that are asked for; raises `ConfigError`."""
    if effects is None:
        return list(EFFECTS)
    chosen = effects if isinstance(effects, list) else [effects]
    for effect in chosen:
        if effect not in EFFECTS:
            raise ConfigError(f"served-launches: effects: got {effect!r}, expected some of {list(EFFECTS)}")
    return chosen


def cut_course(course: Course, hours: float) -> Course:
    """Return a course as it stands after so many hours; one that is not over by then cannot be told yet."""
    if course.hour <= hours:
        return course
    count = sum(start <= hours for start in course.starts)
    return Course(State.CANNOT_TELL, course.starts[count - 1], course.starts[:count], course.shares[:count])


def _launches(visitors: Visitors, effect: float, seed: int, hours: float) -> list[Run]:
    """Return one launch over HTTP, and how it is computed for the same visitors."""
    plan = Plan.model_validate({})
    served = serve_launch(visitors, effect, seed, hours)
    runs = [
        (SERVED, served.course, served.visitors),
        (SAME_DRAWS, cut_course(planned_course(plan, served.visitors, effect), hours), served.visitors),
        (COMPUTED, cut_course(planned_course(plan, visitors, effect), hours), visitors),
        (RAMP, ramp_course(visitors, effect), visitors),
    ]
    rows = []
    for method, course, those in runs:
        count = int(np.searchsorted(visitors.hour, course.hour))
        lost = clicks_lost(course, those, effect)
        refused = served.refused if method == SERVED else 0
        rows.append(Run(seed, effect, method, str(course.state), course.hour, count, lost, refused))
    return rows
