"""Advice on what to show visitors: policies trained on a shop's log, rehearsed in a world fitted to it, and judged."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.calls import automatic_progress, public_call
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.extras import needs_extra
from zoosim.core.files import read_text, write_text
from zoosim.core.tabular import TabularResult

if TYPE_CHECKING:
    import polars as pl

    from zoosim.api.contenders import Contenders
    from zoosim.api.runs import RunResult
    from zoosim.core.tables import Table
    from zoosim.core.types import Progress
    from zoosim.fitting import Checks
    from zoosim.logs.log import Log
    from zoosim.off_policy.results import Evaluation
    from zoosim.policies.base import Policy
    from zoosim.rehearsal.advice import Advice, Evidence
    from zoosim.rehearsal.figures import Rehearsal
    from zoosim.rehearsal.shop import Fact, RewardDelay
    from zoosim.worlds.fitted.shop import FittedShop

DEFAULT_OUT = "runs/recommend-{log}"
SEEDS = 10
MOST_VISITS = 20_000
"""Visits rehearsed per seed at most, unless others are asked for."""

LINE_UP = ("adaptive", "mixed-effects", "linear", "linucb", "d-linucb")
"""Policies that compete where none are named."""

WORLD, MODELS, JUDGED, REHEARSAL = "world", "models", "judged", "rehearsal"
"""Folders below that of a recommendation: the fitted world, trained policies, their evaluation, and the run."""

SHOP = "shop.world"


@dataclass(frozen=True, repr=False)
class Recommendation(TabularResult):
    """Advice on what to put in front of visitors, and why.

    Args:
        path: The folder of report.html, summary.json and a folder of each part of the work.
        source: What the log is called.
        reward: The reward that policies learn.
        sentences: What to do, what that is expected to earn over the horizon, and what may go wrong.
        advice: What to do with each policy, the one to take first on top.
        models: The files of trained policies, by their names in the rehearsal; `zoosim serve` takes them.
        facts: What kind of shop it is.
        evidence: What the advice rests on.
        checks: How far to believe the fitted shop; None where none could be fitted.
        horizon: Visits that are planned for.
        visits_a_day: None where the log does not tell.
        seconds: Time of each part of the work.
        command: The words of the command that does all this again.
    """

    path: Path
    source: str
    reward: str
    sentences: Sequence[str]
    advice: "list[Advice]"
    models: Mapping[str, Path]
    facts: "list[Fact]"
    evidence: "Evidence"
    checks: "Checks | None"
    horizon: int
    visits_a_day: float | None
    seconds: dict[str, float]
    command: Sequence[str]

    @property
    def verdict(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)

    @property
    def rehearsal(self) -> "Rehearsal | None":
        """The run of the policies in the fitted shop."""
        return self.evidence.rehearsal

    @property
    def evaluation(self) -> "Evaluation | None":
        """The evaluation by the log of policies that learn from logs."""
        return self.evidence.evaluation

    @property
    def summary(self) -> dict[str, Any]:
        """All figures as plain values for JSON."""
        return {
            "schema_version": 2,
            "log": self.source,
            "horizon": self.horizon,
            "verdict": self.verdict,
            "advice": [each._asdict() for each in self.advice],
            "shop": [fact._asdict() for fact in self.facts],
            "believe_rehearsal": self.evidence.verdict._asdict(),
            "rehearsal": None if self.rehearsal is None else self.rehearsal.plain,
            "models": {name: str(file) for name, file in self.models.items()},
            "by_log": None if self.evaluation is None else self.evaluation.summary,
            "visits_a_day": self.visits_a_day,
            "seconds": {name: round(seconds, 1) for name, seconds in self.seconds.items()},
        }

    def to_polars(self) -> "pl.DataFrame":
        """Return what to do with each policy, and why, a row per policy."""
        import polars as pl

        return pl.DataFrame([each._asdict() for each in self.advice])

    def _headline(self) -> str:
        return self.verdict

    def _tables(self) -> "list[Table]":
        from zoosim.core.tables import table_of_rows

        rows = [(each.policy, each.place, each.reason) for each in self.advice]
        return [table_of_rows(f"Policies for the shop of {self.source}", ("policy", "advice", "why"), rows, n_text=3)]

    def _page(self) -> str:
        return self.page()

    def page(self) -> str:
        """Return the page."""
        from zoosim.report.recommend import build_page
        from zoosim.report.sections import render_sections

        question = f"What should the shop that wrote {self.source} show its visitors?"
        return render_sections("A policy for a shop", question, build_page(self), self.command)


@public_call
def recommend(
    log: "str | os.PathLike[str] | pl.DataFrame | Log",
    *,
    policies: "Sequence[str | type[Policy]] | None" = None,
    horizon: int | None = None,
    seeds: "str | int | Sequence[int]" = SEEDS,
    visits: int | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    progress: "Progress | None" = automatic_progress,
) -> Recommendation:
    """Say what to put in front of a shop's visitors over the next visits, and why.

    Policies are trained on the earlier rows of the shop's log, as `zoosim train` would deploy them; those that learn
    from logs alone are judged by the later rows. All are rehearsed in shops that are drawn given the same log, beside
    what the log's own choices would earn at the same visits: so what is known of the shop is known to the policies,
    and what the log leaves open differs from seed to seed. Where the fitted shop tells nothing, nothing is rehearsed.

    Args:
        log: As in `evaluate`, of products.
        policies: Built-in names, `FILE.py:Class` or classes. Default: adaptive, mixed-effects, linear, linucb and
            d-linucb. `adaptive` also competes untrained.
        horizon: Visits to plan for. Default: a month's, by the times in the log, or as many as it has rows.
        seeds: A count, a range `A:B` or a list; each is another shop that the log allows.
        visits: Visits rehearsed per seed. Default: the horizon, 20,000 at most. Of a longer horizon each policy is
            taken to earn in the other visits what it does in the last fifth of these.
        jobs: Number of processes. Default: one per core.
        out: A folder that gets report.html, summary.json, and folders of the fitted world, the trained policies, the
            run and the evaluation; finished trials in it are not run again. Default: runs/recommend-LOG.
        data: The folder of the Open Bandit Dataset.
        skip_bad: Leave bad rows out instead of refusing the log.
        progress: Called with lines about how far it is. By default they are shown on a terminal and in a notebook;
            None shows nothing.

    Raises:
        ConfigError: an option is invalid, or `out` holds something else.
        DataError: the log is bad.
        PolicyError: a policy cannot be found or made.
    """
    needs_extra("recommend", "lab")
    assert progress is not None  # `public_call` sees to that
    from zoosim.api.contenders import train_contenders
    from zoosim.api.logs import writable_folder
    from zoosim.core.checks import check_whole
    from zoosim.core.number_format import unit_of
    from zoosim.experiments.plan import MAX_STEPS
    from zoosim.experiments.request import parse_seeds
    from zoosim.off_policy.verdict import DO_NOT_USE, Verdict
    from zoosim.rehearsal.advice import Evidence, advise, conclusion
    from zoosim.rehearsal.progress import Stopwatch
    from zoosim.rehearsal.shop import describe_horizon, describe_shop, months_visits, visits_a_day

    numbers = parse_seeds(seeds)
    for name, count in {"horizon": horizon, "visits": visits}.items():
        if count is not None:
            check_whole(name, count, 1, MAX_STEPS)
    named = None if policies is None else _named(policies)
    loaded, delay = _open(log, data, skip_bad)
    named_folder = DEFAULT_OUT.format(log=Path(loaded.source.replace(":", "-")).stem) if out is None else out
    path = writable_folder(named_folder, "advice")
    # Before anything is computed: finished trials in the folder are taken over, and must be of the same shop.
    _check_same_log(path, loaded)
    planned = months_visits(loaded) if horizon is None else horizon

    clock = Stopwatch()
    shop, checks, why_not = _fit(loaded, path / WORLD, progress)
    clock.note("fitting the shop")
    contenders = train_contenders(loaded, _default_line_up() if named is None else named, path / MODELS, progress)
    clock.note("training")
    evaluation = _judge(loaded, contenders, path / JUDGED, progress)
    clock.note("judging by the log")
    believed = Verdict(DO_NOT_USE, (why_not,)) if checks is None else checks.verdict
    result = None
    if believed.word != DO_NOT_USE and contenders.sources:
        steps = min(planned, MOST_VISITS) if visits is None else visits
        result = _rehearse(path, list(contenders.sources.values()), numbers, steps, delay, jobs, progress)
    clock.note("rehearsal")

    evidence = Evidence(
        verdict=believed,
        rehearsal=None if shop is None or result is None else _figures(result, loaded, shop, planned),
        failures=() if result is None else result.failures,
        evaluation=evaluation,
        notes=contenders.notes,
        learners=contenders.learners,
        contenders=tuple(contenders.sources),
    )
    advice = advise(evidence)
    a_day = visits_a_day(loaded)
    asked = {"horizon": horizon, "seeds": seeds, "visits": visits, "data": data, "skip_bad": skip_bad}
    recommendation = Recommendation(
        path=path,
        source=loaded.source,
        reward=loaded.objective,
        sentences=conclusion(advice, evidence, unit_of(loaded.objective), describe_horizon(planned, a_day)),
        advice=advice,
        models=contenders.models,
        facts=describe_shop(loaded, shop, checks, delay, evaluation is not None and evaluation.is_deterministic),
        evidence=evidence,
        checks=checks,
        horizon=planned,
        visits_a_day=a_day,
        seconds=clock.seconds,
        command=_command(loaded.source, named, asked, path),
    )
    _keep_forecasts(recommendation, loaded)
    write_text(path / "summary.json", json.dumps(recommendation.summary, indent=1, allow_nan=False) + "\n")
    write_text(path / "report.html", recommendation.page())
    return recommendation


def _keep_forecasts(recommendation: Recommendation, log: "Log") -> None:
    """Add what the rehearsal forecasts of trained models to the files beside theirs."""
    from zoosim.core.forecasts import add_forecasts, forecasts_path
    from zoosim.core.version import VERSION
    from zoosim.off_policy.forecasts import digest_of
    from zoosim.policies.model import model_digest
    from zoosim.rehearsal.forecasts import forecast_of

    rehearsal = recommendation.rehearsal
    rehearsed = {} if rehearsal is None else rehearsal.values
    basis = {"version": VERSION, "log": log.source[-300:], "log_digest": digest_of(log), "rows": len(log)}
    for name, file in recommendation.models.items():
        values = rehearsed.get(name)
        if values is not None and len(values) > 1:
            made = {**basis, "model": model_digest(file), "verdict": recommendation.evidence.verdict.word}
            forecast = forecast_of(name, recommendation.reward, values, recommendation.horizon, **made)
            add_forecasts(forecasts_path(file), [forecast])


def _named(policies: "Sequence[str | type[Policy]]") -> dict[str, Any]:
    """Return policies by their names; raises `ConfigError` or `PolicyError` for what is no policy over products."""
    from zoosim.action_spaces import find_action_space
    from zoosim.api.models import untrained
    from zoosim.core.action_space import PRODUCTS
    from zoosim.policies.registry import find_class

    if not policies:
        raise ConfigError("policies: got none, expected at least one, such as linucb")
    named = untrained(policies)
    for name, source in named.items():
        if not find_action_space(PRODUCTS).accepts(find_class(source)):
            raise ConfigError(f"policy {name}: chooses no products; leave it out of --policies")
    return named


def _open(log: Any, data: Any, skip_bad: bool) -> "tuple[Log, RewardDelay | None]":
    """Return the log, and how late rewards came where it says when; raises `ConfigError` or `DataError`."""
    from zoosim.api.served import open_log
    from zoosim.core.action_space import PRODUCTS
    from zoosim.logs.load import action_space_of
    from zoosim.rehearsal.shop import measure_delay
    from zoosim.serving.served_log import read_served_log
    from zoosim.serving.store.address import find_log

    address = find_log(log)
    space = action_space_of(log)
    if space.fit_world is None or space.rehearse_instead:
        reason = space.rehearse_instead or f"is a log of {space.name}, expected one of products"
        raise ConfigError(f"recommend: {log} {reason}")
    if address is not None and data is None:
        served = read_served_log(address, action_space=PRODUCTS)
        return served.log, measure_delay(served.log, served.delays)
    return open_log(log, action_space=PRODUCTS, data=data, skip_bad=skip_bad), None


def _check_same_log(path: Path, log: "Log") -> None:
    """Refuse a folder that holds the world of another log."""
    file = path / WORLD / "summary.json"
    if not file.is_file():
        return
    try:
        held = dict(json.loads(read_text(file)))
    except (ValueError, TypeError, RecursionError):
        raise ConfigError(f"--out: {file} is damaged or truncated; delete {path} or name another folder") from None
    now = {"log": log.source, "rows": len(log), "responses": int((log.rewards != 0.0).sum())}
    if any(held.get(name) != value for name, value in now.items()):
        raise ConfigError(
            f"--out: {path} is about another log, or about {log.source} before it grew; name another folder"
        )


def _fit(log: "Log", folder: Path, progress: "Progress") -> "tuple[FittedShop | None, Checks | None, str]":
    """Return the shop of a log and how far to believe it; neither, and why, where the log is too poor for one."""
    from zoosim.api.shops import fit_world

    try:
        # As if each decision were a visitor's only one: what is rehearsed there looks at the next reward alone.
        shop, checks = fit_world(replace(log, lives=None), folder, progress=progress)
    except DataError as error:
        return None, None, str(error)
    return shop, checks, ""


def _default_line_up() -> dict[str, Any]:
    """Return who competes where nobody is named."""
    return {name: name for name in LINE_UP}


def _judge(log: "Log", contenders: "Contenders", folder: Path, progress: "Progress") -> "Evaluation | None":
    """Judge trained policies, as they are, by the rows after those they learned from; None where it cannot.

    Models say themselves which rows of a log they know.
    """
    from zoosim.api.logs import evaluate
    from zoosim.off_policy.propensities.estimate import MULTINOMIAL

    if not contenders.trained or contenders.later is None:
        return None
    model = None if log.has_propensities else MULTINOMIAL
    policies: dict[str, Any] = {name: contenders.sources[name] for name in contenders.models}
    # Models know which rows they were trained on, and `evaluate` sets these aside; bare policies get the later rows
    # alone.
    rows = log if policies else contenders.later
    try:
        return evaluate(rows, policies or contenders.trained, out=folder, propensity_model=model, progress=progress)
    except (ConfigError, DataError, PolicyError) as error:
        progress(f"judging by the log: {error}")
        return None


def _rehearse(
    path: Path,
    policies: Sequence[Any],
    seeds: Sequence[int],
    steps: int,
    delay: "RewardDelay | None",
    jobs: int | None,
    progress: "Progress",
) -> "RunResult":
    """Run policies in the fitted shop, each beginning with what it has learned from the log."""
    from zoosim.api.runs import run
    from zoosim.rehearsal.progress import RunLines

    lines = RunLines(progress, "rehearsing")
    return run(
        str(path / WORLD / SHOP),
        policies=policies,
        seeds=seeds,
        steps=steps,
        settings=[] if delay is None else [f"run.delay={delay.visits}"],
        jobs=jobs,
        out=path / REHEARSAL,
        report=lines.report,
        started=lines.start,
    )


def _figures(result: "RunResult", log: "Log", shop: "FittedShop", horizon: int) -> "Rehearsal | None":
    """Compare what policies earned with what the log's choices would have; None where no seed has all policies."""
    from zoosim.core.arrays import evenly_spread
    from zoosim.rehearsal.figures import rehearsal_figures

    comparison = result.comparison
    if not comparison.shared_seeds:
        return None
    # The rows that the fitted shop kept of the log (`thinned`), so that each choice meets the visitor that it was made
    # for.
    actions = log.in_order().actions[evenly_spread(len(log), shop.n_rows)]
    return rehearsal_figures(result.plan, result.path, comparison.ranked, comparison.shared_seeds, actions, horizon)


def _command(source: str, named: "Mapping[str, Any] | None", options: Mapping[str, Any], path: Path) -> list[str]:
    """Return the words of the command that does all this again."""
    from zoosim.api.logs import typed_options

    policies = (
        None if named is None else [source if isinstance(source, str) else name for name, source in named.items()]
    )
    seeds = None if options["seeds"] == SEEDS else options["seeds"]
    return [
        "zoosim",
        "recommend",
        source,
        *typed_options({"policies": policies, **options, "seeds": seeds, "out": path}),
    ]
