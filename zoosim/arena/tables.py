"""The figures of a run as a table of text, for the terminal and notebooks."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoosim.core.number_format import VISIT, counted, decimals, fixed, per_visit, shared_decimals, with_interval
from zoosim.core.tables import Column, Table, two_lines

if TYPE_CHECKING:
    from zoosim.arena.plan import Plan

PolicyFigures = Mapping[str, Any]
"""A policy's part of summary.json."""

MISSING = "-"
MOST_PHASES = 4
"""Phases that always have a column; more where there is room."""

NOTHING: PolicyFigures = {"mean": None, "low": None, "high": None}


def results_table(plan: "Plan", summary: Mapping[str, Any], ranked: Sequence[str]) -> Table:
    """Return the table of a run, the best policy first.

    The columns stand in order of importance: fraction of oracle, worst seed, failures, what visits earned, the rest.

    Args:
        plan: The run.
        summary: Its figures, as summary.json holds them.
        ranked: Policies that finished a seed, the best first.
    """
    seeds = len(summary["seeds"])
    unit = summary.get("unit", VISIT)
    title = f"{plan.experiment.title}: {counted(seeds, 'seed')}, {counted(plan.steps, unit)} per seed"
    policies = summary["policies"]
    names = [*ranked, *(name for name in policies if name not in ranked)]
    columns = [Column("policy", names, is_text=True, is_essential=True)]
    return Table(title, [*columns, *_columns(plan, [policies[name] for name in names], unit)])


def phases_table(plan: "Plan", summary: Mapping[str, Any], ranked: Sequence[str]) -> Table | None:
    """Return what visits earned between shocks, a column each; None where there is one phase alone.

    Args:
        plan: The run.
        summary: Its figures, as summary.json holds them.
        ranked: Policies that finished a seed, the best first.
    """
    if not plan.shocks or len(plan.phases) < 2 or not ranked:
        return None
    scale = plan.any_world.reward_scale
    columns = [Column("policy", list(ranked), is_text=True, is_essential=True)]
    for number, (start, stop) in enumerate(plan.phases):
        earned = [summary["policies"][name]["phases"][number][scale.key] for name in ranked]
        cells = _values(_in_percent(earned) if scale.is_share else earned)
        columns.append(Column(f"{start:,} to\n{stop - 1:,}", cells, is_essential=number < MOST_PHASES))
    return Table(f"{scale.name}{', %' if scale.is_share else ''} by phase, in visits", columns)


def _columns(plan: "Plan", policies: Sequence[PolicyFigures], counted_by: str) -> list[Column]:
    """Return the columns of figures, the most important first, with one cell per policy."""
    fractions = _in_percent([figures["oracle_fraction"] for figures in policies])
    places = _places(fractions)
    worst, deviations = (
        [fixed(figures[key], place, missing=MISSING) for figures, place in zip(fractions, places, strict=True)]
        for key in ("min", "sd")
    )
    columns = [
        Column("% of\noracle", _values(fractions), is_essential=True),
        Column("95%\ninterval", _intervals(fractions), is_text=True, is_essential=True, stacks=True),
        Column("worst\nseed", worst, is_essential=True),
    ]
    return [*columns, *_other_columns(plan, policies, counted_by), Column("sd", deviations)]


def _other_columns(plan: "Plan", policies: Sequence[PolicyFigures], counted_by: str) -> list[Column]:
    """Return the columns that are left out where there is no room."""
    columns = []
    if any(figures["failed"] for figures in policies):
        columns.append(Column("failed\nseeds", [str(len(figures["failed"]) or "") for figures in policies]))
    reward = plan.any_world.reward_scale
    unit = two_lines(per_visit(reward.name, counted_by))
    columns.append(Column(unit, _values([figures.get(reward.key, NOTHING) for figures in policies])))
    if plan.experiment.tail and len(plan.phases) > 1:
        columns += _tail_columns(plan, policies)
    columns += _recovery_columns(plan, policies)
    for measure in plan.any_world.reported_measures:
        if measure.column:
            intervals = [figures.get(measure.key, NOTHING) for figures in policies]
            columns.append(Column(measure.column, _values(_in_percent(intervals) if measure.is_share else intervals)))
    return columns


def _tail_columns(plan: "Plan", policies: Sequence[PolicyFigures]) -> list[Column]:
    """Return what the last visits brought: clicks, in worlds with other rewards the fraction of oracle."""
    reward = plan.any_world.reward_scale
    start, stop = plan.phases[-1]
    last = f"last {stop - start:,}"
    phases = [figures["phases"][-1] if figures["phases"] else {} for figures in policies]
    if reward.is_share:
        intervals = [phase.get(reward.key, NOTHING) for phase in phases]
        what = reward.word
    else:
        intervals = _in_percent([phase.get("oracle_fraction", NOTHING) for phase in phases])
        what = "% of oracle"
    return [
        Column(f"{what},\n{last}", _values(intervals)),
        Column(f"95% interval,\n{last}", _intervals(intervals), is_text=True),
    ]


def _recovery_columns(plan: "Plan", policies: Sequence[PolicyFigures]) -> list[Column]:
    names = plan.shock_names
    steps = [f"{shock.step:,}" for shock in plan.shocks]
    return [
        Column(f"back after\n{label}", [_recovery(figures["recovery_steps"].get(name)) for figures in policies])
        for name, label in zip(names, steps or names, strict=True)
    ]


def _recovery(figures: PolicyFigures | None) -> str:
    if not figures or not figures["of"]:
        return MISSING
    median = "never" if figures["median"] is None else f"{figures['median']:,.0f}"
    return f"{median} ({figures['recovered']}/{figures['of']})"


def _in_percent(intervals: Sequence[PolicyFigures]) -> list[PolicyFigures]:
    """Return intervals, and what else is told of a share, in percent."""
    keys = ("mean", "low", "high", "sd", "min")
    return [{key: None if figures.get(key) is None else 100.0 * figures[key] for key in keys} for figures in intervals]


def _places(intervals: Sequence[PolicyFigures]) -> list[int]:
    """Return the decimals of each figure in a column: by its interval; of single seeds such as tell policies apart."""
    shared = shared_decimals(figures["mean"] for figures in intervals)
    return [
        shared if figures["low"] is None else decimals(figures["mean"], figures["low"], figures["high"])
        for figures in intervals
    ]


def _values(intervals: Sequence[PolicyFigures]) -> list[str]:
    places = _places(intervals)
    return [fixed(figures["mean"], place, missing=MISSING) for figures, place in zip(intervals, places, strict=True)]


def _intervals(intervals: Sequence[PolicyFigures]) -> list[str]:
    return [
        MISSING if figures["low"] is None else with_interval(figures["mean"], figures["low"], figures["high"]).interval
        for figures in intervals
    ]
