"""Which policies are worth trying in a shop: rehearse them in a world fitted to its log, and judge them by the log."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoosim.core.calls import automatic_progress, public_call
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.files import write_text
from zoosim.core.tabular import TabularResult

if TYPE_CHECKING:
    import polars as pl

    from zoosim.api.runs import RunResult
    from zoosim.arena.plan import Plan
    from zoosim.arena.store import TrialKey
    from zoosim.core.tables import Table
    from zoosim.core.types import Progress
    from zoosim.fitting import Checks
    from zoosim.logs.log import Log
    from zoosim.off_policy.results import Evaluation
    from zoosim.policies.base import Policy
    from zoosim.rehearsal.advice import Advice, Evidence
    from zoosim.rehearsal.figures import Rehearsal
    from zoosim.rehearsal.shop import Delay, Fact
    from zoosim.worlds.fitted.shop import FittedShop

DEFAULT_OUT = "runs/recommend-{log}"
SEEDS = 10
MOST_VISITS = 20_000
"""Visits per seed unless others are asked for; fewer where the log has fewer."""
MOST_PAST = 50_000
"""Visits of the past from which policies learn before a rehearsal, at most; else as many as the log has."""

FROM_LOG = ("mixed-effects", "linear")
"""Policies that learn from logs alone, judged by the log and rehearsed beside those that learn online."""

LEAST_PAST = 10

WORLD, JUDGED, REHEARSAL = "world", "judged", "rehearsal"
"""Folders below that of a recommendation, each as its own command writes it."""

SHOP = "shop.world"


@dataclass(frozen=True, repr=False)
class Recommendation(TabularResult):
    """Which policies to try, and why.

    `advice` is by policy, the one to take first on top; `verdict` sums it up. `facts` say what kind of shop it is.
    `rehearsal` is None where the fitted shop is not to be believed, `evaluation` where the log can judge no policy.
    `seconds` are those of each part of the work. `path` holds report.html, summary.json and a folder of each part.
    """

    path: Path
    source: str
    verdict: str
    advice: "list[Advice]"
    facts: "list[Fact]"
    evidence: "Evidence"
    checks: "Checks | None"
    visits_a_day: float | None
    seconds: dict[str, float]
    command: Sequence[str]

    @property
    def rehearsal(self) -> "Rehearsal | None":
        """What policies earned in the fitted shop."""
        return self.evidence.rehearsal

    @property
    def evaluation(self) -> "Evaluation | None":
        """What the log says of policies that learn from logs."""
        return self.evidence.evaluation

    @property
    def summary(self) -> dict[str, Any]:
        """All figures as plain values for JSON."""
        return {
            "schema_version": 1,
            "log": self.source,
            "verdict": self.verdict,
            "advice": [each._asdict() for each in self.advice],
            "shop": [fact._asdict() for fact in self.facts],
            "believe_rehearsal": self.evidence.verdict._asdict(),
            "rehearsal": None if self.rehearsal is None else self.rehearsal.plain,
            "pairs": list(self.evidence.pairs),
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

        question = f"Which policies are worth trying in the shop that wrote {self.source}?"
        return render_sections("Policies for a shop", question, build_page(self), self.command)


@public_call
def recommend(
    log: "str | os.PathLike[str] | pl.DataFrame | Log",
    *,
    policies: "Sequence[str | type[Policy]] | None" = None,
    seeds: "str | int | Sequence[int]" = SEEDS,
    visits: int | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    progress: "Progress" = automatic_progress,
) -> Recommendation:
    """Say which policies are worth trying in the shop that wrote a log, and why.

    A shop is fitted to the log, policies that learn from logs are judged by its later rows, and all are rehearsed in
    the fitted shop, beside what the log's own choices would earn at the same visits. Where that is not enough to tell,
    no policy is named; in a shop that is not to be believed nothing is rehearsed.

    Args:
        log: As in `evaluate`, of products.
        policies: Built-in names, `FILE.py:Class` or classes. Default: the line-up of `zoosim run` in a fitted world,
            and `mixed-effects` and `linear`, which learn from logs alone.
        seeds: A count, a range `A:B` or a list; each is another shop that the log allows.
        visits: Visits per seed. Default: as many as the log has, 20,000 at most.
        jobs: Number of processes. Default: one per core.
        out: A folder that gets report.html, summary.json, and the fitted world, the run and the evaluation in folders
            of their own; finished trials in it are not run again. Default: runs/recommend-LOG.
        data: The folder of the Open Bandit Dataset.
        skip_bad: Leave bad rows out instead of refusing the log.
        progress: Called with lines about how far it is.

    Raises:
        ConfigError: an option is invalid, or `out` holds something else.
        DataError: the log is bad.
        PolicyError: a policy cannot be found or made.
    """
    from zoosim.api.logs import writable_folder
    from zoosim.core.checks import check_whole
    from zoosim.experiments.plan import MAX_STEPS
    from zoosim.experiments.request import parse_seeds
    from zoosim.off_policy.verdict import DO_NOT_USE, Verdict
    from zoosim.rehearsal.advice import Evidence, advise, verdict
    from zoosim.rehearsal.shop import describe_shop, visits_a_day

    numbers = parse_seeds(seeds)
    if visits is not None:
        check_whole("visits", visits, 1, MAX_STEPS)
    named = None if policies is None else _named(policies)
    loaded, delay = _open(log, data, skip_bad)
    named_folder = DEFAULT_OUT.format(log=Path(loaded.source.replace(":", "-")).stem) if out is None else out
    path = writable_folder(named_folder, "advice")
    _check_same_log(path, loaded)

    clock = _Clock()
    shop, checks, why_not = _fit(loaded, path / WORLD, progress)
    clock.note("fitting the shop")
    line_up = _line_up(path / WORLD, shop) if named is None else named
    evaluation, failures = _judge(loaded, line_up, path / JUDGED, progress)
    clock.note("judging by the log")
    believed = Verdict(DO_NOT_USE, (why_not,)) if checks is None else checks.verdict
    result = None
    if believed.word != DO_NOT_USE:
        able = {name: source for name, source in line_up.items() if name not in failures}
        result = _rehearse(path, able, numbers, visits, len(loaded), delay, jobs, progress)
    clock.note("rehearsal")

    evidence = Evidence(
        verdict=believed,
        rehearsal=None if shop is None or result is None else _figures(result, loaded, shop),
        pairs=[] if result is None else result.comparison.pairs,
        failures=() if result is None else result.failures,
        evaluation=evaluation,
        notes=failures,
    )
    advice = advise(evidence)
    recommendation = Recommendation(
        path=path,
        source=loaded.source,
        verdict=verdict(advice, evidence),
        advice=advice,
        facts=describe_shop(loaded, shop, checks, delay, evaluation is not None and evaluation.is_deterministic),
        evidence=evidence,
        checks=checks,
        visits_a_day=visits_a_day(loaded),
        seconds=clock.seconds,
        command=_command(
            loaded.source, named, {"seeds": seeds, "visits": visits, "data": data, "skip_bad": skip_bad}, path
        ),
    )
    write_text(path / "summary.json", json.dumps(recommendation.summary, indent=1, allow_nan=False) + "\n")
    write_text(path / "report.html", recommendation.page())
    return recommendation


class _Clock:
    """How many seconds each part of the work took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def note(self, part: str) -> None:
        """Note that a part has ended."""
        now = time.perf_counter()
        self.seconds[part] = now - self._last
        self._last = now


def _named(policies: "Sequence[str | type[Policy]]") -> dict[str, Any]:
    """Return policies by their names; raises `ConfigError` or `PolicyError` for what is no policy over products."""
    from zoosim.api.models import untrained
    from zoosim.core.action_space import ActionSpace
    from zoosim.policies.registry import find_class

    if not policies:
        raise ConfigError("policies: got none, expected at least one, such as linucb")
    named = untrained(policies)
    for name, source in named.items():
        if ActionSpace.PRODUCTS not in find_class(source).chooses:
            raise ConfigError(f"policy {name}: chooses no products; leave it out of --policies")
    return named


def _open(log: Any, data: Any, skip_bad: bool) -> "tuple[Log, Delay | None]":
    """Return the log, and how late rewards came where it says when; raises `ConfigError` or `DataError`."""
    from zoosim.api.served import open_log
    from zoosim.core.action_space import ActionSpace
    from zoosim.logs.searches import has_searches
    from zoosim.rehearsal.shop import measure_delay
    from zoosim.serving.served_log import read_served_log
    from zoosim.serving.store.address import find_log

    address = find_log(log)
    if address is None and isinstance(log, str | os.PathLike) and has_searches(Path(log)):
        raise ConfigError(
            f"recommend: {log} is a log of searches, expected one of products; zoosim fit-world makes a search shop of "
            "it, and zoosim run template-bandits --config FOLDER/world.yaml rehearses in that"
        )
    if address is not None and data is None:
        served = read_served_log(address, action_space=ActionSpace.PRODUCTS)
        return served.log, measure_delay(served.log, served.delays)
    return open_log(log, action_space=ActionSpace.PRODUCTS, data=data, skip_bad=skip_bad), None


def _check_same_log(path: Path, log: "Log") -> None:
    """Refuse a folder that holds the world of another log."""
    file = path / WORLD / "summary.json"
    if not file.is_file():
        return
    try:
        held = dict(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError):
        raise ConfigError(f"--out: {file} is damaged or truncated; delete {path} or name another folder") from None
    now = {"log": log.source, "rows": len(log), "responses": int((log.rewards != 0.0).sum())}
    if any(held.get(name) != value for name, value in now.items()):
        raise ConfigError(
            f"--out: {path} is about another log, or about {log.source} before it grew; name another folder"
        )


def _fit(log: "Log", folder: Path, progress: "Progress") -> "tuple[FittedShop | None, Checks | None, str]":
    """Return the shop of a log and how far to believe it; neither, and why, where the log is too poor for one."""
    from zoosim.api.logs import fit_world

    try:
        shop, checks = fit_world(log, folder, progress=progress)
    except DataError as error:
        return None, None, str(error)
    return shop, checks, ""


def _line_up(world: Path, shop: "FittedShop | None") -> dict[str, Any]:
    """Return who competes where nobody is named: as in a fitted world, and those that learn from logs alone."""
    from zoosim.experiments.own import own_experiment

    experiment = None if shop is None else own_experiment(str(world / SHOP))
    names = FROM_LOG if experiment is None else (*experiment.policies, *FROM_LOG)
    return {name: name for name in names}


def _judge(
    log: "Log", line_up: Mapping[str, Any], folder: Path, progress: "Progress"
) -> "tuple[Evaluation | None, dict[str, tuple[str, ...]]]":
    """Judge the policies that learn from logs alone by the later rows; None where the log cannot.

    And for each policy that cannot learn from it a note that says why.
    """
    from threadpoolctl import threadpool_limits

    from zoosim.api.logs import evaluate, new_policy
    from zoosim.api.models import train_each
    from zoosim.off_policy.propensities.estimate import MULTINOMIAL
    from zoosim.off_policy.training import earlier_and_later
    from zoosim.policies.registry import find_class

    chosen = {name: source for name, source in line_up.items() if not find_class(source).learns_online}
    if not chosen:
        return None, {}
    try:
        earlier, _ = earlier_and_later(log)
        made = {name: new_policy(name, source, log, 0) for name, source in chosen.items()}
        with threadpool_limits(1):  # with more, the last digits depend on how many there are
            trained, failures = train_each(made, earlier, progress)
    except (DataError, PolicyError) as error:
        progress(f"judging by the log: {error}")
        return None, {}
    model = None if log.has_propensities else MULTINOMIAL
    try:
        evaluation = evaluate(log, trained, train=True, out=folder, propensity_model=model, progress=progress)
    except DataError as error:
        progress(f"judging by the log: {error}")
        return None, dict(failures)
    return evaluation, dict(failures)


def _rehearse(
    path: Path,
    line_up: Mapping[str, Any],
    seeds: Sequence[int],
    visits: int | None,
    rows: int,
    delay: "Delay | None",
    jobs: int | None,
    progress: "Progress",
) -> "RunResult":
    """Let policies compete in the fitted shop; those that learn from logs, after as many visits as the log has rows."""
    from zoosim.api.runs import run
    from zoosim.core.parameters import parameters_of
    from zoosim.policies.registry import find_class

    past = min(max(rows, LEAST_PAST), MOST_PAST)
    settings = [
        f"policies.{name}.past_visits={past}"
        for name, source in line_up.items()
        if "past_visits" in parameters_of(find_class(source))
    ]
    if delay is not None:
        settings.append(f"run.delay={delay.visits}")
    lines = _RunLines(progress)
    return run(
        str(path / WORLD / SHOP),
        policies=list(line_up.values()),
        seeds=seeds,
        steps=min(rows, MOST_VISITS) if visits is None else visits,
        settings=settings,
        jobs=jobs,
        out=path / REHEARSAL,
        report=lines.report,
        started=lines.start,
    )


class _RunLines:
    """Turns what a run reports into lines of progress."""

    def __init__(self, progress: "Progress") -> None:
        self._progress = progress

    def start(self, plan: "Plan", trials: "Sequence[TrialKey]", jobs: int) -> None:
        """Take in what begins."""
        from zoosim.arena.time_left import TimeLeft

        self._time_left = TimeLeft(trials, plan.steps, jobs)

    def report(self, key: "TrialKey", visits: int, line: str) -> None:
        """Take in that a trial went on, and say how far the rehearsal is."""
        self._time_left.record(key, visits, line, time.monotonic())
        seconds = self._time_left.seconds()
        left = "" if seconds is None else f", about {seconds:.0f} s left"
        self._progress(f"rehearsing, {self._time_left.share_done:.0%}{left}: {key.policy}, seed {key.seed}")


def _figures(result: "RunResult", log: "Log", shop: "FittedShop") -> "Rehearsal | None":
    """Compare what policies earned with what the log's choices would have; None where no seed has all policies."""
    from zoosim.rehearsal.figures import rehearsal_figures
    from zoosim.worlds.fitted.shop import kept_rows

    comparison = result.comparison
    if not comparison.shared_seeds:
        return None
    actions = log.in_order().actions[kept_rows(len(log), shop.n_rows)]
    return rehearsal_figures(result.plan, result.path, comparison.ranked, comparison.shared_seeds, actions)


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
