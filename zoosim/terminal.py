"""The tables and lines that the command line prints when it is done."""

import math
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from zoosim.core.number_format import ends, p_value, percent, weight

if TYPE_CHECKING:
    import polars as pl

    from zoosim.api.runs import RunResult
    from zoosim.arena.plan import Plan
    from zoosim.fitting import Checks
    from zoosim.fitting.checks import Comparison
    from zoosim.off_policy.compare import Difference
    from zoosim.off_policy.results import Evaluation
    from zoosim.off_policy.training import Training
    from zoosim.worlds.fitted.shop import FittedShop

BORDER, PADDING = 1, 3
"""Characters of a table beside its cells: once, and per column."""

MIN_NAME_WIDTH = 10
"""Names of policies are never folded to less."""

PolicyFigures = Mapping[str, Any]
"""What summary.json holds of a policy."""


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


def result_console() -> Console:
    """Return where results are printed; brackets in names are brackets."""
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(file=sys.stdout, width=None if has_width else 140, markup=False)


def _print_lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def print_address(console: Console, folder: Path) -> None:
    """Print the address of the page in a folder."""
    _print_lines(console, [f"Page: {address(folder / 'report.html')}"])


def print_result(result: "RunResult") -> None:
    """Print the table of a run, the verdict and the page's address."""
    console = result_console()
    table, left_out = results_table(result, console.width)
    console.print(table)
    if left_out:
        columns = f"{left_out} more columns are" if left_out > 1 else "1 more column is"
        console.print(f"{columns} on the report page.", highlight=False)
    if result.reference is not None:
        console.print(f"A classifier trained on all labels reaches {percent(result.reference)} (5-fold).")
    _print_lines(console, [*(f"note: {note}" for note in result.notes), result.verdict])
    print_address(console, result.path)


def print_optimum(frame: "pl.DataFrame") -> None:
    """Print what the best templates and boosts of each kind of visit earn, and the boosts."""
    table = Table(title="EUR per visit, in expectation (standard error)", title_justify="left")
    table.add_column("visits", no_wrap=True)
    for head in ("share", "neutral", "best template", "", "best boosts", "the boosts"):
        table.add_column(head, justify="left" if head == "best template" else "right", no_wrap=head != "the boosts")
    for row in frame.iter_rows(named=True):
        table.add_row(
            row["group"],
            f"{row['share']:.1%}",
            f"{row['neutral_reward']:.2f}",
            row["template"],
            f"{row['template_reward']:.2f} ({row['template_error']:.2f})",
            f"{row['reward']:.2f} ({row['error']:.2f})",
            " ".join(f"{boost:.3g}" for boost in row["boosts"]),
        )
    rewards = ("neutral_reward", "template_reward", "reward")
    neutral, template, boosts = (float((frame["share"] * frame[name]).sum()) for name in rewards)
    if len(frame) > 1:
        table.add_row("together", "100.0%", f"{neutral:.2f}", "", f"{template:.2f}", f"{boosts:.2f}", "")
    console = result_console()
    console.print(table)
    if boosts > 0.0:
        console.print(f"Templates reach {template / boosts:.1%} of what boosts can.", highlight=False)


def print_training(training: "Training") -> None:
    """Print what later rows say of trained policies, and by what one was chosen."""
    lines = []
    if training.evaluation is not None:
        print_evaluation(training.evaluation)
    else:
        lines += [f"{name}: {'; '.join(notes)}" for name, notes in training.notes.items()]
    if training.model.competitors > 1:
        lines.append(f"{training.policy} was chosen: {training.reason}.")
    _print_lines(result_console(), lines)


def print_evaluation(evaluation: "Evaluation", folder: Path | None = None) -> None:
    """Print values, intervals and verdicts of policies judged by a log, the reasons below, and the page's address."""
    from zoosim.off_policy.sentences import sentences

    console = result_console()
    console.print(_estimates_table(evaluation))
    _print_lines(console, _skipped_lines(evaluation.skipped))
    _print_lines(console, [f"note: {remark}." for remark in evaluation.remarks])
    _print_lines(console, [f"note: {name}: {line}" for name, lines in evaluation.notes.items() for line in lines])
    _print_lines(
        console,
        [
            f"{row.policy}, {row.estimator}: {row.verdict}: {'; '.join(row.reasons)}."
            for row in evaluation.results
            if row.reasons
        ],
    )
    _print_lines(console, [f"{name}: {sentence}." for name, sentence in sentences(evaluation).items()])
    usable = [difference for difference in evaluation.differences if difference.verdict != "do not use"]
    if usable:
        console.print(_differences_table(usable))
    _print_lines(console, _ranking_lines(evaluation))
    if folder is not None:
        print_address(console, folder)


def _estimates_table(evaluation: "Evaluation") -> Table:
    table = Table(title=f"{evaluation.source}: {evaluation.n:,} {evaluation.unit}", title_justify="left")
    for head in ("policy", "estimator"):
        table.add_column(head, no_wrap=True)
    for head in ("value", "interval", "effective rows", "mean weight", "largest", "verdict"):
        table.add_column(head, justify="right", no_wrap=True)
    logged = evaluation.logged
    table.add_row("logged choices", "", f"{logged.mean:.6g}", ends(logged.low, logged.high, 6), "", "", "", "")
    for row in evaluation.results:
        table.add_row(
            row.policy,
            row.estimator,
            f"{row.value:.6g}" if math.isfinite(row.value) else "none",
            ends(row.low, row.high, 6),
            f"{row.ess:,.0f}",
            f"{row.mean_weight:.3g}",
            weight(row.max_weight),
            row.verdict,
        )
    return table


def _skipped_lines(skipped: Mapping[str, int]) -> list[str]:
    return [f"note: skipped {count:,} rows: {reason}" for reason, count in skipped.items()]


def print_world(shop: "FittedShop", checks: "Checks", folder: Path) -> None:
    """Print what a fitted world holds, how far to believe it, and how to run it."""
    facts = shop.facts
    console = result_console()
    holds = f"{facts['visitors']:,} visitors, {shop.n_products:,} products, {facts['responses']:,} responses"
    _print_lines(console, [*_skipped_lines(facts["skipped"]), f"{facts['rows']:,} rows: {holds}"])
    table = Table(title=f"Mean {facts['reward']} of a visit", title_justify="left")
    table.add_column("", no_wrap=True)
    for head in ("fitted world", "interval", "by the log", "interval", ""):
        table.add_column(head, justify="right", no_wrap=True)
    for row in checks.comparisons:
        world = (f"{row.world.mean:.4g}", ends(row.world.low, row.world.high, 4))
        table.add_row(row.policy, *world, *_by_log(row))
    best = checks.oracle
    table.add_row("the best for each visitor", f"{best.mean:.4g}", ends(best.low, best.high, 4), "", "", "")
    console.print(table)
    lines = [
        checks.held_out.sentence,
        f"{len(shop.changes)} changes of what visitors respond to",
        f"World: {shlex.join(['zoosim', 'run', str(folder / 'shop.world')])}",
    ]
    _print_lines(console, lines)
    print_address(console, folder)


def _by_log(row: "Comparison") -> tuple[str, str, str]:
    """Return what a log says of a policy, and whether a fitted world agrees, or why that cannot be told."""
    said = row.why_not or ("agrees" if row.agrees else "differs")
    if row.log is None:
        return "", "", said
    return f"{row.log.mean:.4g}", ends(row.log.low, row.log.high, 4), said


def _ranking_lines(evaluation: "Evaluation") -> list[str]:
    """Say, where several policies can be ranked, which ones beat the logged choices and which one may be best."""
    lines = []
    for estimator in dict.fromkeys(row.estimator for row in evaluation.ranking):
        rows = [row for row in evaluation.ranking if row.estimator == estimator]
        if len(rows) > 1:
            better = [f"{row.policy} (p {p_value(row.p_better)})" for row in rows if row.low > 0.0]
            best = [row.policy for row in rows if row.may_be_best]
            lines.append(
                f"By {estimator}, corrected for {len(rows)} policies: better than the logged choices: "
                f"{', '.join(better) or 'none shown'}; may be best: {', '.join(best)}"
            )
    return lines


def _differences_table(differences: Sequence["Difference"]) -> Table:
    """Tabulate how far policies lie apart, by the estimator that tells of the most, the later asked for of several."""
    counts = Counter(row.estimator for row in differences)
    estimator = [name for name in counts if counts[name] == max(counts.values())][-1]
    table = Table(title=f"Differences by {estimator}, on the same rows", title_justify="left")
    for head in ("policy", "less"):
        table.add_column(head, no_wrap=True)
    for head in ("difference", "interval", "p", "rows to settle it"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in differences:
        if row.estimator == estimator:
            unsettled = row.low is not None and row.high is not None and row.low <= 0.0 <= row.high
            needed = f"{row.rows_needed:,}" if unsettled and row.rows_needed else ""
            interval = ends(row.low, row.high, 6)
            table.add_row(row.policy, row.other, f"{row.value:+.6g}", interval, p_value(row.p), needed)
    return table


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


def _columns(plan: "Plan", policies: Sequence[PolicyFigures]) -> list[Column]:
    """Return the columns of figures, the most important first, with one cell per policy."""
    cells_of: dict[str, Callable[[PolicyFigures], str]] = {
        "% of\noracle": lambda figures: _mean(figures["oracle_fraction"]),
        "95% interval": lambda figures: _interval(figures["oracle_fraction"]),
        "worst\nseed": lambda figures: percent(figures["oracle_fraction"]["min"]),
    }
    if any(figures["failed"] for figures in policies):
        cells_of["failed"] = lambda figures: str(len(figures["failed"]) or "")
    cells_of[plan.experiment.reward_name] = _earned
    has_tail = bool(plan.experiment.tail) and len(plan.phases) > 1
    tail_visits = f"{plan.phases[-1][1] - plan.phases[-1][0]:,}"
    if has_tail:
        cells_of[f"last\n{tail_visits}"] = lambda figures: _in_tail(figures, _mean)
    columns = [Column(head, list(map(cell, policies))) for head, cell in cells_of.items()]
    columns += _recovery_columns(plan, policies)
    if any("gmv" in figures for figures in policies):
        columns += [Column(head, list(map(cell, policies))) for head, cell in SHOP_CELLS.items()]
    if has_tail:
        intervals = [_in_tail(figures, _interval) for figures in policies]
        columns.append(Column(f"last {tail_visits}\n95% interval", intervals))
    return [*columns, Column("sd", [_points(figures["oracle_fraction"]["sd"]) for figures in policies])]


def _recovery_columns(plan: "Plan", policies: Sequence[PolicyFigures]) -> list[Column]:
    names = plan.setup.shock_names
    steps = [f"{shock.step:,}" for shock in plan.shocks]
    return [
        Column(f"back after\n{label}", [_recovery(figures["recovery_steps"].get(name)) for figures in policies])
        for name, label in zip(names, steps or names, strict=True)
    ]


def _earned(figures: PolicyFigures) -> str:
    return percent(figures["ctr"]["mean"]) if "ctr" in figures else _amount(figures, "reward")


def _in_tail(figures: PolicyFigures, cell: Callable[[PolicyFigures], str]) -> str:
    """Write what the last visits brought: the click rate, in worlds with other rewards the fraction of oracle."""
    if not figures["phases"]:
        return "-"
    return cell(figures["phases"][-1]["ctr" if "ctr" in figures else "oracle_fraction"])


def _mean(interval: PolicyFigures) -> str:
    return percent(interval["mean"])


def _amount(figures: PolicyFigures, key: str) -> str:
    value = figures[key]["mean"] if key in figures else None
    return "-" if value is None else f"{value:,.2f}"


def _strategic_share(figures: PolicyFigures) -> str:
    return percent(figures["strategic_share"]["mean"]) if "strategic_share" in figures else "-"


SHOP_CELLS: dict[str, Callable[[PolicyFigures], str]] = {
    "GMV": lambda figures: _amount(figures, "gmv"),
    "CM2": lambda figures: _amount(figures, "cm2"),
    "strategic": _strategic_share,
    "rank change": lambda figures: _amount(figures, "rank_change"),
}
"""By head, the cells of the columns that only search shops have."""


def _recovery(figures: PolicyFigures | None) -> str:
    if not figures or not figures["of"]:
        return "-"
    median = "never" if figures["median"] is None else f"{figures['median']:,.0f}"
    return f"{median} ({figures['recovered']}/{figures['of']})"


def _points(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _interval(figures: PolicyFigures) -> str:
    """Write a fraction's interval in percent."""
    low, high = figures["low"], figures["high"]
    return "-" if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f}"
