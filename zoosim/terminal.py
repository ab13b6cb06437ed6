"""What the command line shows: progress on standard error, the table on standard output."""

import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from zoosim.evaluation.store import CellKey

if TYPE_CHECKING:
    import polars as pl

    from zoosim.api import RunResult
    from zoosim.evaluation.off_policy.evaluate import Difference, Evaluation
    from zoosim.experiments.plan import Plan
    from zoosim.fitting import Fit, FittedWorld
    from zoosim.report import Story

QUIET_SECONDS = 10.0
"""Away from a terminal, a line of progress appears this often."""


class Progress:
    """A bar with the time left on a terminal; elsewhere a line now and then; nothing when there is nothing to do."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, markup=False)
        self._bar: Bar | None = None
        self._task: Any = None
        self._total = self._done = 0
        self._began = self._spoke = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, plan: "Plan", visits: int) -> None:
        """Say what begins: `visits` to compute over all seeds and policies."""
        self._total, self._began, self._spoke = visits, time.monotonic(), time.monotonic()
        if visits and self._console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
            self._bar = Bar(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=self._console, transient=True)
            self._task = self._bar.add_task(plan.experiment.name, total=visits)
            self._bar.start()

    def report(self, key: CellKey, visits: int, line: str) -> None:
        """Take in that a cell went on by `visits`, or has a line to say."""
        self._done += visits
        what = f"{key.policy}, seed {key.seed}{': ' + line if line else ''}"
        if self._bar is not None:
            self._bar.update(self._task, advance=visits, description=what[:60])
        elif time.monotonic() - self._spoke > QUIET_SECONDS:
            self._spoke = time.monotonic()
            self._console.print(f"{self._share()}{what}", highlight=False, soft_wrap=True)

    def _share(self) -> str:
        """Say how far the run is and how long it may take."""
        if not self._done:
            return ""
        left = (time.monotonic() - self._began) * (self._total - self._done) / self._done
        return f"{100 * self._done / max(self._total, 1):3.0f}%, about {left:.0f} s left: "


def _console() -> Console:
    """Return where results are printed; brackets in names are brackets."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140, markup=False)


def print_result(result: "RunResult") -> None:
    """Print the table of a run, the verdict and the page's address."""
    console = _console()
    console.print(_table(result))
    if result.reference is not None:
        console.print(f"A classifier trained on all labels reaches {_percent(result.reference)} (5-fold).")
    for note in result.notes:
        console.print(f"note: {note}", highlight=False, soft_wrap=True)
    console.print(result.verdict, highlight=False, soft_wrap=True)
    console.print(f"Page: {address(result.path / 'report.html')}", highlight=False, soft_wrap=True)


def print_story(name: str, story: "Story", path: Path) -> None:
    """Print the first table of a story, its verdict and the address of the page in the folder `path`."""
    told = story.tables[0]
    table = Table(title=f"{name}: {told.heading}", title_justify="left")
    for number, head in enumerate(told.heads):
        table.add_column(head, justify="left" if number < told.n_text else "right")
    for row in told.rows:
        table.add_row(*row)
    console = _console()
    console.print(table)
    console.print(story.verdict, highlight=False, soft_wrap=True)
    console.print(f"Page: {address(path / 'report.html')}", highlight=False, soft_wrap=True)


def print_optimum(frame: "pl.DataFrame") -> None:
    """Print what the best templates and boosts of each kind of visit earn, and the boosts."""
    table = Table(title="EUR a visit, in expectation (standard error)", title_justify="left")
    table.add_column("visits", no_wrap=True)
    for head in ("share", "neutral", "best template", "", "best boosts", "the boosts"):
        table.add_column(head, justify="left" if head == "best template" else "right", no_wrap=head != "the boosts")
    for row in frame.iter_rows(named=True):
        template = f"{row['template_reward']:.2f} ({row['template_error']:.2f})"
        best, boosts = f"{row['reward']:.2f} ({row['error']:.2f})", " ".join(f"{x:.3g}" for x in row["boosts"])
        cells = (f"{row['share']:.1%}", f"{row['neutral_reward']:.2f}", row["template"], template, best, boosts)
        table.add_row(row["group"], *cells)
    means = [float((frame["share"] * frame[name]).sum()) for name in ("neutral_reward", "template_reward", "reward")]
    if len(frame) > 1:
        table.add_row("together", "100.0%", f"{means[0]:.2f}", "", f"{means[1]:.2f}", f"{means[2]:.2f}", "")
    console = _console()
    console.print(table)
    if means[2] > 0.0:
        console.print(f"Templates reach {means[1] / means[2]:.1%} of what boosts can.", highlight=False)


def print_evaluation(evaluation: "Evaluation", folder: Path | None = None) -> None:
    """Print values, intervals and verdicts of policies judged by a log, the reasons below, and the page's address."""
    table = Table(title=f"{evaluation.source}: {evaluation.n:,} {evaluation.unit}", title_justify="left")
    table.add_column("policy", no_wrap=True)
    table.add_column("estimator", no_wrap=True)
    for head in ("value", "interval", "effective rows", "mean weight", "largest", "verdict"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_row("logged choices", "", f"{evaluation.logged.mean:.6g}", _ends(*evaluation.logged[1:]), "", "", "", "")
    for row in evaluation.results:
        figures = (f"{row.ess:,.0f}", f"{row.mean_weight:.3g}", _weight(row.max_weight), row.verdict)
        value = f"{row.value:.6g}" if math.isfinite(row.value) else "none"
        table.add_row(row.policy, row.estimator, value, _ends(row.low, row.high), *figures)
    console = _console()
    console.print(table)
    for reason, count in evaluation.skipped.items():
        console.print(f"note: skipped {count:,} rows: {reason}", highlight=False, soft_wrap=True)
    for name, lines in evaluation.notes.items():
        for line in lines:
            console.print(f"note: {name}: {line}", highlight=False, soft_wrap=True)
    for row in evaluation.results:
        if row.reasons:
            why = f"{row.policy}, {row.estimator}: {row.verdict}: {'; '.join(row.reasons)}."
            console.print(why, highlight=False, soft_wrap=True)
    usable = [each for each in evaluation.differences if each.verdict != "do not use"]
    if usable:
        console.print(_differences(usable))
    for line in _ranking_lines(evaluation):
        console.print(line, highlight=False, soft_wrap=True)
    if folder is not None:
        console.print(f"Page: {address(folder / 'report.html')}", highlight=False, soft_wrap=True)


def print_world(world: "FittedWorld", fit: "Fit", folder: Path) -> None:
    """Print what a fitted world holds, how well it fits, and where it lies."""
    segments, categories = len(world.segment_names), len(world.category_names)
    console = _console()
    lines = [
        *(f"note: skipped {count:,} rows: {reason}" for reason, count in world.skipped.items()),
        f"{segments} segment{'s' * (segments > 1)}: {world.segments.how}",
        f"{categories} categor{'ies' if categories > 1 else 'y'}: {world.categories.how}",
        f"{len(world.changes)} changes of click probabilities over {world.n:,} rows",
        fit.sentence,
        f"World: {folder / 'world.yaml'}",
        f"Page: {address(folder / 'report.html')}",
    ]
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _weight(weight: float) -> str:
    return f"{weight:,.0f}" if weight >= 100.0 else f"{weight:.3g}"


def _ranking_lines(evaluation: "Evaluation") -> list[str]:
    """Say, where several policies can be ranked, which ones beat the logged choices and which one may be best."""
    lines = []
    for estimator in dict.fromkeys(row.estimator for row in evaluation.ranking):
        rows = [row for row in evaluation.ranking if row.estimator == estimator]
        if len(rows) > 1:
            better = ", ".join(f"{row.policy} (p {_p(row.p_better)})" for row in rows if row.low > 0.0) or "none shown"
            best = ", ".join(row.policy for row in rows if row.may_be_best)
            told = f"better than the logged choices: {better}; may be best: {best}"
            lines.append(f"By {estimator}, corrected for {len(rows)} policies: {told}")
    return lines


def _differences(found: Sequence["Difference"]) -> Table:
    """Tabulate how far policies lie apart, by the estimator that tells of the most, the later asked for of several."""
    counts = Counter(each.estimator for each in found)
    estimator = [name for name in counts if counts[name] == max(counts.values())][-1]
    table = Table(title=f"Differences by {estimator}, on the same rows", title_justify="left")
    for head in ("policy", "less"):
        table.add_column(head, no_wrap=True)
    for head in ("difference", "interval", "p", "rows to settle it"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in (each for each in found if each.estimator == estimator):
        unsettled = row.low is not None and row.high is not None and row.low <= 0.0 <= row.high
        needed = f"{row.rows_needed:,}" if unsettled and row.rows_needed else ""
        figures = (f"{row.value:+.6g}", _ends(row.low, row.high), _p(row.p), needed)
        table.add_row(row.policy, row.other, *figures)
    return table


def _p(p: float) -> str:
    return "below .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def _ends(low: float | None, high: float | None) -> str:
    """Write an interval; an end that the log leaves open is said so."""
    ends = ["open" if end is None or not math.isfinite(end) else f"{end:.6g}" for end in (low, high)]
    return " to ".join(ends)


def address(path: Path) -> str:
    """Return the address that a browser opens."""
    return path.resolve().as_uri()


def _table(result: "RunResult") -> Table:
    plan, policies = result.plan, result.summary["policies"]
    seeds = len(result.summary["seeds"])
    title = f"{plan.experiment.name}: {seeds} seed{'s' * (seeds != 1)}, {plan.steps:,} visits each"
    table = Table(title=title, title_justify="left")
    table.add_column("policy", no_wrap=True)
    last = plan.phases[-1][1] - plan.phases[-1][0]
    tail = bool(plan.experiment.tail) and len(plan.phases) > 1
    heads = ["% of oracle", "95% interval", "sd", "worst", plan.experiment.reward_name]
    if plan.experiment.kind == "search":
        heads += ["GMV", "CM2", "strategic", "rank change"]
    heads += [f"last {last:,}"] if tail else []
    heads += [f"back after {label}" for label in [f"{shock.step:,}" for shock in plan.shocks] or plan.shock_names]
    failed = any(figures["failed"] for figures in policies.values())
    for head in [*heads, "failed"] if failed else heads:
        table.add_column(head, justify="right", no_wrap=head == "95% interval")
    for name in [*result.comparison.ranked, *(n for n in policies if n not in result.comparison.ranked)]:
        cells = _row(policies[name], tail, plan.shock_names)
        table.add_row(name, *cells, *([str(len(policies[name]["failed"]) or "")] if failed else []))
    return table


def _row(figures: dict[str, Any], tail: bool, shocks: Sequence[str]) -> list[str]:
    fraction, last = figures["oracle_fraction"], figures["phases"][-1] if figures["phases"] else None
    cells = [_percent(fraction["mean"]), _interval(fraction), _points(fraction["sd"]), _percent(fraction["min"])]
    if "ctr" in figures:
        cells.append(_percent(figures["ctr"]["mean"]))
    else:
        cells += [_amount(figures, "reward"), *_search_parts(figures)]
    if tail:
        key = "ctr" if "ctr" in figures else "oracle_fraction"
        cells.append(f"{_percent(last[key]['mean'])} ({_interval(last[key])})" if last else "-")
    return cells + [_recovery(figures["recovery_steps"].get(name)) for name in shocks]


def _search_parts(figures: dict[str, Any]) -> list[str]:
    share = figures["strategic_share"]["mean"] if "strategic_share" in figures else None
    return [_amount(figures, "gmv"), _amount(figures, "cm2"), _percent(share), _amount(figures, "rank_change")]


def _amount(figures: dict[str, Any], key: str) -> str:
    value = figures[key]["mean"] if key in figures else None
    return "-" if value is None else f"{value:,.2f}"


def _recovery(figures: dict[str, Any] | None) -> str:
    if not figures or not figures["of"]:
        return "-"
    median = "never" if figures["median"] is None else f"{figures['median']:,.0f}"
    return f"{median} ({figures['recovered']}/{figures['of']})"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def _points(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _interval(figures: dict[str, Any]) -> str:
    """Write a fraction's interval, cut at 100%, and at 0 unless the fraction itself is below."""
    if figures["low"] is None:
        return "-"
    low = figures["low"] if figures["mean"] < 0.0 else max(figures["low"], 0.0)
    return f"{100 * low:.1f} to {100 * min(figures['high'], 1.0):.1f}"
