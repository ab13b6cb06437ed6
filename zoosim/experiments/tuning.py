"""A tuning: what is tried on which seeds, and the figures, the table and the verdict that come of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoosim.arena.halving import Standing
from zoosim.arena.plan import Plan, type_label
from zoosim.core.errors import ConfigError, PolicyFailure
from zoosim.core.number_format import counted, in_percent, p_value, percent
from zoosim.core.parameters import written
from zoosim.core.statistics import SIGNIFICANT, paired_tests
from zoosim.core.tables import Column, Table
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import RunRequest
from zoosim.experiments.search_space import read_spaces, settings_of
from zoosim.policies.registry import PolicyEntry, make_entry

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Tuning:
    """A checked tuning: the plan, whose seeds are tuned on, all settings, and seeds that tuning never sees.

    `unchanged` gives for the name of each setting the same policy as it was.
    """

    plan: Plan
    settings: tuple[PolicyEntry, ...]
    unchanged: Mapping[str, PolicyEntry]
    judge: tuple[int, ...]

    def setting(self, name: str) -> PolicyEntry:
        """Return a setting by its name."""
        return next(entry for entry in self.settings if entry.name == name)

    def changed(self, name: str) -> dict[str, Any]:
        """Return the parameters of a setting that differ between the settings of its policy."""
        policy = self.unchanged[name].name
        all_params = [entry.params for entry in self.settings if self.unchanged[entry.name].name == policy]
        own = self.setting(name).params
        return {key: own[key] for key in own if len({repr(params[key]) for params in all_params}) > 1}


def make_tuning(request: RunRequest, over: Sequence[str], *, candidates: int | None, judge: Sequence[int]) -> Tuning:
    """Check what is asked for.

    Args:
        request: The run; its policies are those that `over` names.
        over: What is tried, such as `linucb.alpha=0.1,0.2`.
        candidates: Settings to draw per policy, None for the default.
        judge: Seeds that tuning must not see.

    Raises:
        ConfigError, DataError, PolicyError, WorldError: it cannot be.
    """
    spaces = read_spaces(over)
    of_user = {make_entry(source).name for source in request.extra}
    named = [name for name in spaces if name not in of_user]
    plan = make_plan(RunRequest(**{**vars(request), "policies": named}))
    both = sorted(set(plan.seeds) & set(judge))
    if both:
        raise ConfigError(
            f"judge: seed {both[0]} is tuned on, too; name seeds that tuning never sees, such as 1000:1032"
        )
    if plan.experiment.world_seed is None:
        plan.any_world.check_seeds(judge)
    settings: dict[str, PolicyEntry] = {}
    unchanged: dict[str, PolicyEntry] = {}
    for entry in plan.entries:
        tried = settings_of(entry, spaces.get(entry.name, {}), candidates)
        settings |= {each.name: each for each in tried}
        unchanged |= {each.name: entry for each in tried}
    return Tuning(plan, tuple(settings.values()), unchanged, tuple(judge))


def tuning_summary(
    tuning: Tuning,
    standings: Sequence[Standing],
    failures: Mapping[str, PolicyFailure],
    trials: int,
    judged: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the figures of a tuning, as tune.json holds them.

    Args:
        tuning: What was tried.
        standings: How each setting fared, the winner first.
        failures: Of settings that failed, the first failure.
        trials: Number of trials that the tuning took.
        judged: The summary of the run on the other seeds.
    """
    winner = standings[0]
    unchanged = tuning.unchanged[winner.name].name
    figures = {name: judged["policies"][name]["oracle_fraction"] for name in dict.fromkeys((winner.name, unchanged))}
    pairs = [pair for pair in judged["pairs"] if {pair["a"], pair["b"]} == {winner.name, unchanged}]
    return {
        "schema_version": SCHEMA_VERSION,
        "experiment": tuning.plan.experiment.title,
        "steps": tuning.plan.steps,
        "seeds": list(tuning.plan.seeds),
        "judge": list(tuning.judge),
        "settings": len(tuning.settings),
        "trials": trials,
        "winner": {"name": winner.name, "policy": unchanged, "type": type_label(tuning.setting(winner.name))}
        | {"parameters": tuning.setting(winner.name).params, "tuned": tuning.changed(winner.name)},
        "judged": {
            "winner": figures[winner.name],
            "unchanged": figures[unchanged],
            "difference": _of_winner(pairs[0], winner.name) if pairs else None,
        },
        "tried": _tried(tuning, standings, failures),
    }


def _of_winner(pair: Mapping[str, Any], winner: str) -> dict[str, Any]:
    """Return a paired difference as that of the winner minus the other."""
    numbers = {key: pair[key] for key in ("difference", "low", "high", "p")}
    if pair["a"] == winner:
        return numbers
    ends = {"low": numbers["high"], "high": numbers["low"]}
    flipped = {key: None if ends[key] is None else -ends[key] for key in ends}
    return {**numbers, "difference": -numbers["difference"], **flipped}


def _tried(
    tuning: Tuning, standings: Sequence[Standing], failures: Mapping[str, PolicyFailure]
) -> list[dict[str, Any]]:
    """Return a row per setting: its figures, and those of its differences from the winner on the seeds of both."""
    winner = standings[0]
    others = [each for each in standings[1:] if len(each.scores)]
    tests = paired_tests([(each.scores, winner.scores[: len(each.scores)]) for each in others])
    compared = {each.name: test._asdict() for each, test in zip(others, tests, strict=True)}
    nothing = dict.fromkeys(("difference", "low", "high", "p"))
    return [
        {
            "name": each.name,
            "policy": tuning.unchanged[each.name].name,
            "tuned": tuning.changed(each.name),
            "as_it_was": tuning.unchanged[each.name].name == each.name,
            "left": each.left or None,
            "seeds": len(each.scores),
            "oracle_fraction": each.mean if len(each.scores) else None,
            **compared.get(each.name, nothing),
            "failure": str(failures[each.name]) if each.name in failures else None,
        }
        for each in standings
    ]


def tried_table(summary: Mapping[str, Any]) -> Table:
    """Return the table of what was tried, the winner first."""
    rows = summary["tried"]
    title = (
        f"{summary['experiment']}: {counted(summary['settings'], 'setting')} tried in "
        f"{counted(summary['trials'], 'trial')}, {counted(summary['steps'], 'visit')} per seed"
    )
    means = [None if row["oracle_fraction"] is None else 100.0 * row["oracle_fraction"] for row in rows]
    columns = [
        Column("setting", [setting_words(row) for row in rows], is_text=True, is_essential=True),
        Column("% of oracle,\ntuning", ["failed" if m is None else f"{m:.2f}" for m in means], is_essential=True),
        Column("seeds", [str(row["seeds"] or "") for row in rows], is_essential=True),
        Column("points from the winner\n(95% interval)", [_difference(row) for row in rows], is_text=True),
        Column("left after\nround", [str(row["left"] or "") for row in rows]),
    ]
    if any(row["failure"] for row in rows):
        columns.append(Column("failure", [row["failure"] or "" for row in rows], is_text=True))
    return Table(title, columns)


def setting_words(row: Mapping[str, Any]) -> str:
    """Return a setting in words, such as `linucb alpha=0.2`; one as it was is named so."""
    tuned = ", ".join(f"{key}={_written(value)}" for key, value in row["tuned"].items())
    return f"{row['policy']} {tuned}{' (as it was)' if row['as_it_was'] else ''}"


def _written(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else written(value)


def _difference(row: Mapping[str, Any]) -> str:
    """Return a difference in points of percent, with its interval."""
    if row["difference"] is None:
        return ""
    difference = in_percent(row["difference"], row["low"], row["high"], signed=True)
    return difference.value if row["low"] is None else str(difference)


def verdict(summary: Mapping[str, Any]) -> str:
    """Return in words who won, and how it does on the seeds that tuning never saw."""
    winner = summary["winner"]
    reached, difference = summary["judged"]["winner"], summary["judged"]["difference"]
    best = setting_words(summary["tried"][0])
    head = f"{best} won of {counted(summary['settings'], 'setting')} tried on {counted(len(summary['seeds']), 'seed')}."
    others = f"{counted(len(summary['judge']), 'seed')} that tuning never saw"
    if reached["mean"] is None:
        return f"{head} It failed on {others}."
    fraction = f"{percent(reached['mean'])} of oracle"
    if reached["low"] is not None:
        fraction = f"{in_percent(reached['mean'], reached['low'], reached['high'], suffix='%')} of oracle"
    compared = "no other setting did better while tuning"
    if difference is not None:
        compared = f"{_difference(difference)} points from {winner['policy']} as it was, {_told(difference)}"
    tuned = percent(summary["tried"][0]["oracle_fraction"])
    bias = (
        f"The {tuned} that it had while tuning are the highest of {summary['settings']:,} means, and too high by that."
    )
    return f"{head} On {others}: {fraction}, {compared}. {bias}"


def _told(difference: Mapping[str, Any]) -> str:
    """Return whether a difference is more than luck."""
    if difference["p"] is None:
        return "of one seed, which settles nothing"
    p = f"p {p_value(difference['p'])}"
    if difference["p"] >= SIGNIFICANT:
        return f"which may be luck ({p})"
    return f"{'better' if difference['difference'] > 0.0 else 'worse'} ({p})"
