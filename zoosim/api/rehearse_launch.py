"""Rehearse a launch before it begins: in shops that the log allows, by its plan and stop rule, with late rewards."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.calls import automatic_progress, public_call
from zoosim.core.extras import needs_extra
from zoosim.core.files import write_text
from zoosim.core.tabular import TabularResult

if TYPE_CHECKING:
    import polars as pl

    from zoosim.api.launch_preparation import Options, Prepared
    from zoosim.core.statistics import Interval
    from zoosim.core.tables import Table
    from zoosim.core.types import Progress
    from zoosim.logs.log import Log
    from zoosim.monitoring.launch_plan import Plan
    from zoosim.policies.base import Policy
    from zoosim.rehearsal.launches.figures import LaunchFigures
    from zoosim.rehearsal.launches.outcome import Outcome
    from zoosim.rehearsal.launches.price import Price
    from zoosim.rehearsal.launches.store import LaunchStore

DEFAULT_OUT = "runs/launch-{log}"
POLICY = "mixed-effects"
LAUNCHES = 200
DAYS = 30.0
BEARABLE = 0.01
EXPLORATION = 0.05

SHOPS_FOR_EXPLORING = 40
"""Shops by which it is said what exploring costs."""

PLAN, SO_FAR = "plan.yaml", "so-far.html"
"""In the folder of a rehearsal: its plan, as `zoosim deploy launch` takes it, and the page after an interruption."""


@dataclass(frozen=True, repr=False)
class LaunchRehearsal(TabularResult):
    """What to expect of a launch.

    Args:
        path: The folder of report.html, summary.json, plan.yaml, launches.jsonl, the fitted world and the model.
        source: What the log is called.
        reward: The reward that the launch is about.
        policy: What is launched.
        model: Its file, as `zoosim deploy launch` takes it; None where it cannot be served.
        plan: The plan.
        days: Days that are planned for.
        bearable: The part of what today's choices earn that the launch may cost without being regretted.
        visits_a_day: Visits that come a day.
        outcomes: The launches that were rehearsed, in the order of their numbers.
        figures: What they say together.
        prices: What it takes to tell changes.
        exploring: What it costs a day that the new model spreads some of its decisions evenly.
        sentences: Whether to launch, what to expect, and the price of knowing.
        believed: How far to believe the fitted shop, `trust` or `weak`.
        command: The words of the command that does all this again.
    """

    path: Path
    source: str
    reward: str
    policy: str
    model: Path | None
    plan: "Plan"
    days: float
    bearable: float
    visits_a_day: float
    outcomes: "Sequence[Outcome]"
    figures: "LaunchFigures"
    prices: "Sequence[Price]"
    exploring: "Interval"
    sentences: Sequence[str]
    believed: str
    command: Sequence[str]

    @property
    def verdict(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)

    @property
    def summary(self) -> dict[str, Any]:
        """All figures as plain values for JSON."""
        return {
            "schema_version": 1,
            "log": self.source,
            "launched": self.policy,
            "model": None if self.model is None else str(self.model),
            "verdict": self.verdict,
            "believe_rehearsal": self.believed,
            "days": self.days,
            "bearable": self.bearable,
            "visits_a_day": self.visits_a_day,
            "figures": self.figures.plain,
            "exploring_a_day": self.exploring._asdict(),
            "prices": [price._asdict() for price in self.prices],
            "plan": self.plan.model_dump(mode="json"),
        }

    def to_polars(self) -> "pl.DataFrame":
        """Return a row per launch that was rehearsed."""
        import polars as pl

        rows = [each._asdict() | {"state": str(each.state), "shares": list(each.shares)} for each in self.outcomes]
        return pl.DataFrame([{**row, "starts": list(row["starts"])} for row in rows])

    def _headline(self) -> str:
        return self.sentences[0]

    def _tables(self) -> "list[Table]":
        from zoosim.report.launch_rehearsal import outcome_table, price_table

        return [outcome_table(self).as_text(), price_table(self).as_text()]

    def _page(self) -> str:
        return self.page()

    def page(self) -> str:
        """Return the page."""
        from zoosim.report.launch_rehearsal import build_page
        from zoosim.report.sections import render_sections

        question = f"Should {self.policy} be launched in the shop that wrote {self.source}?"
        return render_sections("A launch, rehearsed", question, build_page(self), self.command)


@public_call
def rehearse_launch(
    log: "str | os.PathLike[str] | pl.DataFrame | Log",
    policy: "str | os.PathLike[str] | type[Policy]" = POLICY,
    *,
    plan: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    days: float = DAYS,
    launches: int = LAUNCHES,
    visits_a_day: float | None = None,
    bearable: float = BEARABLE,
    exploration: float = EXPLORATION,
    reward_delay: float = 0.0,
    out: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    progress: "Progress | None" = automatic_progress,
) -> LaunchRehearsal:
    """Say how likely a launch is regretted, what it brings or costs, how long it takes, and what knowing costs.

    A model is trained on the shop's log, and a shop is fitted to it. In each of many shops that the log allows the
    model is launched as `zoosim deploy launch` would, beside today's choices: its share grows by the plan, rewards come
    as late as they do, and it ships or is taken back by the rules that move a running service. It stays as it was
    trained. A launch is *regretted* where it costs more than a `bearable` part of what today's choices alone would
    have earned over all `days`.

    Args:
        log: As in `evaluate`, of products.
        policy: What is launched: a built-in name, `FILE.py:Class` or a class, trained on the earlier rows of the log;
            or the file of a model, as `train` writes it.
        plan: The plan of the launch, a YAML file or its fields, of the objective alone. Default: that of `zoosim deploy
            launch`; where rewards are amounts, what a visitor earns is cut where one in a hundred earns more.
        days: Days that are planned for.
        launches: How many launches are rehearsed, each in another shop that the log allows.
        visits_a_day: Visits that come a day. Default: as many as in the log.
        bearable: The part of what today's choices earn that the launch may cost without being regretted.
        exploration: The part of its decisions that the new model spreads evenly, as a service has it.
        reward_delay: Seconds by which rewards come late on average, exponentially. Default: as in the log of a service,
            and else at once.
        out: A folder that gets report.html, summary.json, plan.yaml, the launches, the fitted world and the model;
            launches in it are not played again. Default: runs/launch-LOG.
        data: The folder of the Open Bandit Dataset.
        skip_bad: Leave bad rows out instead of refusing the log.
        progress: Called with lines about how far it is. By default they are shown on a terminal and in a notebook;
            None shows nothing.

    Raises:
        ConfigError: an option is invalid, or `out` holds something else.
        DataError: the log is bad, or no shop can be fitted to it that tells anything.
        PolicyError: the policy cannot be made or trained.
    """
    needs_extra("rehearse-launch", "lab")
    assert progress is not None  # `public_call` sees to that
    from zoosim.api.launch_preparation import identity, open_shop_log, prepare
    from zoosim.api.logs import writable_folder
    from zoosim.core.yaml_text import write_yaml
    from zoosim.rehearsal.launches.prepare import rehearsed_plan
    from zoosim.rehearsal.launches.store import LaunchStore

    options = _checked(launches, days, visits_a_day, bearable, exploration, reward_delay)
    fields, origin = _plan_fields(plan)
    loaded, delays = open_shop_log(log, data, skip_bad, options.reward_delay)
    plan_of_launch = rehearsed_plan(fields, loaded, origin)
    named = DEFAULT_OUT.format(log=Path(loaded.source.replace(":", "-")).stem) if out is None else out
    path = writable_folder(named, "launched")
    source = policy if isinstance(policy, type) else os.fspath(policy)
    store = LaunchStore(path, identity(loaded, source, plan_of_launch, options, delays))
    prepared = prepare(loaded, source, plan_of_launch, options, delays, path, progress)
    write_text(path / PLAN, write_yaml(plan_of_launch.model_dump(mode="json")))
    asked = {
        "plan": None if plan is None or isinstance(plan, Mapping) else os.fspath(plan),
        "days": f"{days:g}" if days != DAYS else None,
        "launches": launches if launches != LAUNCHES else None,
        "visits_a_day": None if visits_a_day is None else f"{visits_a_day:g}",
        "bearable": bearable if bearable != BEARABLE else None,
        "exploration": exploration if exploration != EXPLORATION else None,
        "reward_delay": reward_delay or None,
        "data": data,
        "skip_bad": skip_bad,
        "out": path,
    }
    command = _command(loaded.source, source, asked)
    try:
        _play(prepared, store, options.launches, progress)
    except KeyboardInterrupt:
        if store.outcomes:
            write_text(path / SO_FAR, _rehearsal(prepared, store, options, path, command).page())
        raise
    rehearsal = _rehearsal(prepared, store, options, path, command)
    _write(path, rehearsal)
    store.finish()
    (path / SO_FAR).unlink(missing_ok=True)
    return rehearsal


def _checked(
    launches: int,
    days: float,
    visits_a_day: float | None,
    bearable: float,
    exploration: float,
    reward_delay: float,
) -> "Options":
    from zoosim.api.launch_preparation import Options
    from zoosim.core.checks import check_number, check_whole

    return Options(
        check_whole("launches", launches, 1, 100_000),
        check_number("days", days, 0.1, 3_650),
        None if visits_a_day is None else check_number("visits_a_day", visits_a_day, 1, 10**9),
        check_number("bearable", bearable, 0, 1),
        check_number("exploration", exploration, 0, 1),
        check_number("reward_delay", reward_delay, 0, 10**7),
    )


def _plan_fields(plan: Any) -> tuple[dict[str, Any] | None, str]:
    """Return the fields of a plan, None for the default one, and what messages call it."""
    from zoosim.core.config import read_yaml

    if plan is None:
        return None, "plan"
    if isinstance(plan, Mapping):
        return dict(plan), "plan"
    return read_yaml(Path(plan)), os.fspath(plan)


def _play(prepared: "Prepared", store: "LaunchStore", launches: int, progress: "Progress") -> None:
    """Play the launches that the store lacks."""
    from zoosim.core.countdown import Countdown
    from zoosim.core.rng import stream
    from zoosim.rehearsal.launches.outcome import rehearse_once

    missing = [number for number in range(launches) if number not in store.outcomes]
    countdown = Countdown(progress, "rehearsed", launches, "launches")
    for number in missing:
        earnings = prepared.shop.earnings(number)
        rng = stream(number, "launch")
        store.add(rehearse_once(number, earnings, prepared.traffic, prepared.terms, rng))
        countdown.report(len(store.outcomes))


def _rehearsal(
    prepared: "Prepared", store: "LaunchStore", options: "Options", path: Path, command: Sequence[str]
) -> LaunchRehearsal:
    """Return what the launches say."""
    from zoosim.core.number_format import unit_of
    from zoosim.core.rng import stream
    from zoosim.rehearsal.launches.figures import launch_figures
    from zoosim.rehearsal.launches.outcome import arrivals_of_a_period
    from zoosim.rehearsal.launches.price import price_list
    from zoosim.rehearsal.launches.sentences import Told, conclusion

    outcomes = [store.outcomes[number] for number in sorted(store.outcomes)]
    figures = launch_figures(outcomes, options.bearable)
    traffic = prepared.traffic
    visitors = arrivals_of_a_period(prepared.shop.earnings(0), traffic, prepared.terms, stream(0, "prices"))
    plan = prepared.terms.plan
    a_day = len(visitors.hour) * 24.0 / traffic.period
    prices = price_list(plan, visitors.today, a_day, figures.baseline.mean / options.days)
    told = Told(prepared.policy, unit_of(prepared.log.objective), options.days, options.bearable)
    return LaunchRehearsal(
        path=path,
        source=prepared.log.source,
        reward=prepared.log.objective,
        policy=prepared.policy,
        model=prepared.model,
        plan=plan,
        days=options.days,
        bearable=options.bearable,
        visits_a_day=24.0 * traffic.visits_per_hour,
        outcomes=outcomes,
        figures=figures,
        prices=prices,
        exploring=_exploring(prepared, options.exploration, len(outcomes)),
        sentences=conclusion(figures, told, prices, prepared.checks.verdict),
        believed=prepared.checks.verdict.word,
        command=command,
    )


def _exploring(prepared: "Prepared", exploration: float, launches: int) -> "Interval":
    """Return what it costs a day that a part of the new model's decisions is spread evenly, by some of the shops."""
    from zoosim.core.statistics import Interval
    from zoosim.rehearsal.launches.figures import spread_of

    if exploration in (0.0, 1.0):  # nothing is spread, or nothing is chosen
        return Interval(0.0, 0.0, 0.0)
    costs = []
    for number in range(min(launches, SHOPS_FOR_EXPLORING)):
        mixed = float(prepared.shop.earnings(number).new.mean())
        by_chance = prepared.shop.exploring(number, prepared.by_chance)
        # What is earned is a mixture of choosing and of chance, of which chance alone is known, too.
        per_visit = exploration * (mixed - by_chance) / (1.0 - exploration)
        costs.append(per_visit * 24.0 * prepared.traffic.visits_per_hour)
    return spread_of(costs)


def _command(log: str, source: Any, options: Mapping[str, Any]) -> list[str]:
    """Return the words of the command that does all this again."""
    from zoosim.api.logs import typed_options

    policy = source if isinstance(source, str) else source.__name__
    return ["zoosim", "rehearse-launch", log, *typed_options({"policy": policy, **options})]


def _write(path: Path, rehearsal: LaunchRehearsal) -> None:
    write_text(path / "summary.json", json.dumps(rehearsal.summary, indent=1, allow_nan=False) + "\n")
    write_text(path / "report.html", rehearsal.page())
