"""What the command line shows: progress on standard error, the table on standard output."""

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.status import Status
from rich.table import Table
from rich.text import Text

from zoosim.arena.store import TrialKey
from zoosim.arena.time_left import TimeLeft, TrialEvent

if TYPE_CHECKING:
    import polars as pl

    from zoosim.api.runs import RunResult
    from zoosim.arena.plan import Plan
    from zoosim.fitting import Fit, FittedWorld
    from zoosim.off_policy.compare import Difference
    from zoosim.off_policy.evaluate import Evaluation
    from zoosim.report import Story

QUIET_SECONDS = 10.0
"""Away from a terminal, a line of progress appears this often."""

SHOW_SECONDS = 0.1
"""On a terminal, the bar moves this often."""

BORDER, PADDING = 1, 3
"""Characters of a table beside its cells: once, and per column."""

MIN_NAME_WIDTH = 10
"""Names of policies are never folded to less."""

NO_FIGURE = {"mean": None}


COMPILING = "compiling policies for the first time (may take a minute; kept for later runs)"


class Progress:
    """A bar on a terminal; elsewhere a line now and then; nothing when there is nothing to do.

    Both show the time left once it can be known.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True, markup=False)
        self._bar: Bar | None = None
        self._task: Any = None
        self._time_left = TimeLeft((), 0, 1)
        self._last_line = time.monotonic()
        self._said_compiling = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, plan: "Plan", trials: Sequence[TrialKey], jobs: int) -> None:
        """Say what begins: `trials` to compute, in so many processes."""
        self._time_left = TimeLeft(trials, plan.steps, jobs)
        self._last_line = time.monotonic()
        if trials and self._console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
            left = TextColumn("{task.fields[left]}")
            self._bar = Bar(*columns, TimeElapsedColumn(), left, console=self._console, transient=True)
            self._task = self._bar.add_task(plan.experiment.title, total=1.0, left="")
            self._bar.start()

    def report(self, key: TrialKey, visits: int, line: str) -> None:
        """Take in that a trial went on by `visits`, or has a line to say."""
        now = time.monotonic()
        self._time_left.record(key, visits, line, now)
        if line == TrialEvent.COMPILING:
            self._say_compiling()
        what = f"{key.policy}, seed {key.seed}{': ' + line if line else ''}"
        interval = SHOW_SECONDS if self._bar is not None else QUIET_SECONDS
        if now - self._last_line < interval:
            return
        self._last_line = now
        left = self._left()
        done = self._time_left.share_done
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=what[:60], left=left)
        else:
            share = f"{100 * done:3.0f}%{left and ', ' + left}"
            self._console.print(f"{share}: {what}", highlight=False, soft_wrap=True)

    def _say_compiling(self) -> None:
        if not self._said_compiling:
            self._said_compiling = True
            self._console.print(COMPILING, highlight=False, soft_wrap=True)

    def _left(self) -> str:
        """Say how long the run still takes; nothing while that cannot be known."""
        seconds = self._time_left.seconds()
        if seconds is None:
            return ""
        return f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"


class StatusLine:
    """What a long call is doing: one line that changes on a terminal; elsewhere a line now and then."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, markup=False)
        self._status: Status | None = None
        self._last_line = time.monotonic()

    def __enter__(self) -> "StatusLine":
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, line: str) -> None:
        """Show a line in place of the last one."""
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status("")
                self._status.start()
            self._status.update(Text(line))
        elif time.monotonic() - self._last_line >= QUIET_SECONDS:
            self._last_line = time.monotonic()
            self._console.print(line, highlight=False, soft_wrap=True)


class Column(NamedTuple):
    """A column of a table: its head, of one line or more, and one cell per row."""

    head: str
    cells: Sequence[str]

    @property
    def width(self) -> int:
        return max(cell_len(line) for text in (self.head, *self.cells) for line in text.split("\n"))


def fitting_table(title: str, columns: Sequence[Column], width: int, essential: int) -> tuple[Table, int]:
    """Return a table of the first columns that fit into `width` characters, and how many columns were left out.

    No cell is cropped. Where not even the first `essential` columns fit, the names in the first one are folded.
    """
    names, *figures = columns
    room = width - BORDER - sum(column.width + PADDING for column in figures[: essential - 1]) - PADDING
    used = BORDER + PADDING + max(MIN_NAME_WIDTH, min(names.width, room))
    shown = []
    for column in figures:
        used += column.width + PADDING
        if used > width:
            break
        shown.append(column)
    table = Table(title=title, title_justify="left")
    table.add_column(names.head, overflow="fold")
    for column in shown:
        table.add_column(column.head, justify="right", no_wrap=True)
    for cells in zip(names.cells, *(column.cells for column in shown), strict=True):
        table.add_row(*cells)
    return table, len(figures) - len(shown)


def _console() -> Console:
    """Return where results are printed; brackets in names are brackets."""
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(file=sys.stdout, width=None if has_width else 140, markup=False)


def print_result(result: "RunResult") -> None:
    """Print the table of a run, the verdict and the page's address."""
    console = _console()
    table, left_out = results_table(result, console.width)
    console.print(table)
    if left_out:
        columns = f"{left_out} more columns are" if left_out > 1 else "1 more column is"
        console.print(f"{columns} on the report page.", highlight=False)
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
    table = Table(title="EUR per visit, in expectation (standard error)", title_justify="left")
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


def results_table(result: "RunResult", width: int) -> tuple[Table, int]:
    """Return the table of a run for a terminal of `width` characters, and how many columns were left out.

    The columns stand in order of importance: fraction of oracle, worst seed, failures, what visits earned, the rest.
    """
    plan = result.plan
    seeds = len(result.summary["seeds"])
    title = f"{plan.experiment.title}: {seeds} seed{'s' * (seeds != 1)}, {plan.steps:,} visits each"
    policies = result.summary["policies"]
    ranked = result.comparison.ranked
    names = [*ranked, *(name for name in policies if name not in ranked)]
    figures = [policies[name] for name in names]
    columns = [Column("policy", names), *_columns(plan, figures)]
    return fitting_table(title, columns, width, essential=4)


def _columns(plan: "Plan", policies: Sequence[dict[str, Any]]) -> list[Column]:
    """Return the columns of figures, the most important first, with one cell per policy."""

    def column(head: str, cell: Callable[[dict[str, Any]], str]) -> Column:
        return Column(head, [cell(figures) for figures in policies])

    columns = [
        column("% of\noracle", lambda figures: _mean(figures["oracle_fraction"])),
        column("95% interval", lambda figures: _interval(figures["oracle_fraction"])),
        column("worst\nseed", lambda figures: _percent(figures["oracle_fraction"]["min"])),
    ]
    if any(figures["failed"] for figures in policies):
        columns.append(column("failed", lambda figures: str(len(figures["failed"]) or "")))
    columns.append(column(plan.experiment.reward_name, _earned))
    has_tail = bool(plan.experiment.tail) and len(plan.phases) > 1
    tail_visits = f"{plan.phases[-1][1] - plan.phases[-1][0]:,}"
    if has_tail:
        columns.append(column(f"last\n{tail_visits}", lambda figures: _in_tail(figures, _mean)))
    when = [f"{shock.step:,}" for shock in plan.shocks] or plan.setup.shock_names
    for name, label in zip(plan.setup.shock_names, when, strict=True):
        columns.append(Column(f"back after\n{label}", [_recovery(p["recovery_steps"].get(name)) for p in policies]))
    if any("gmv" in figures for figures in policies):
        columns += [
            column("GMV", lambda figures: _amount(figures, "gmv")),
            column("CM2", lambda figures: _amount(figures, "cm2")),
            column("strategic", lambda figures: _percent(figures.get("strategic_share", NO_FIGURE)["mean"])),
            column("rank change", lambda figures: _amount(figures, "rank_change")),
        ]
    if has_tail:
        columns.append(column(f"last {tail_visits}\n95% interval", lambda figures: _in_tail(figures, _interval)))
    return [*columns, column("sd", lambda figures: _points(figures["oracle_fraction"]["sd"]))]


def _earned(figures: dict[str, Any]) -> str:
    return _percent(figures["ctr"]["mean"]) if "ctr" in figures else _amount(figures, "reward")


def _in_tail(figures: dict[str, Any], written: Callable[[dict[str, Any]], str]) -> str:
    """Write what the last visits brought: the click rate, in worlds with other rewards the fraction of oracle."""
    if not figures["phases"]:
        return "-"
    return written(figures["phases"][-1]["ctr" if "ctr" in figures else "oracle_fraction"])


def _mean(figures: dict[str, Any]) -> str:
    return _percent(figures["mean"])


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
    """Write a fraction's interval, cut at 0 and at 100% unless the fraction itself lies beyond."""
    if figures["low"] is None:
        return "-"
    low = figures["low"] if figures["mean"] < 0.0 else max(figures["low"], 0.0)
    high = figures["high"] if figures["mean"] > 1.0 else min(figures["high"], 1.0)
    return f"{100 * low:.1f} to {100 * high:.1f}"
