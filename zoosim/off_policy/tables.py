"""The figures of an evaluation as tables of text, for the terminal and notebooks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoosim.core.number_format import p_value, unit_of, weight, with_interval
from zoosim.core.tables import Column, Table, two_lines
from zoosim.off_policy.best_estimates import best_differences
from zoosim.off_policy.compare import Difference

if TYPE_CHECKING:
    from zoosim.off_policy.results import Evaluation


def evaluation_tables(evaluation: "Evaluation") -> list[Table]:
    """Return the estimates of each reward, the objective first, and the differences between policies, if there are."""
    tables = [estimates_table(by_reward) for by_reward in evaluation.by_reward.values()]
    differences = best_differences(evaluation)
    if differences:
        tables.append(_differences_table(differences, evaluation))
    return tables


def estimates_table(evaluation: "Evaluation") -> Table:
    """Tabulate what each estimator says of each policy, below what the logged choices earned."""
    logged = evaluation.logged
    results = evaluation.results
    values = [with_interval(logged.mean, logged.low, logged.high)]
    values += [with_interval(row.value, row.low, row.high) for row in results]
    columns = (
        Column("policy", ["logged choices", *(row.policy for row in results)], is_text=True, is_essential=True),
        Column("estimator", ["mean", *(row.estimator for row in results)], is_text=True, is_essential=True),
        Column(two_lines(evaluation.value_unit), [each.value for each in values], is_essential=True),
        _interval_column(evaluation, [each.interval for each in values]),
        Column("verdict", ["", *(row.verdict for row in results)], is_text=True, is_essential=True),
        Column("effective\nsample size", ["", *(f"{row.ess:,.0f}" for row in results)]),
        Column("mean\nweight", ["", *(f"{row.mean_weight:.3g}" for row in results)]),
        Column("largest\nweight", ["", *(weight(row.max_weight) for row in results)]),
    )
    return Table(f"{evaluation.source}: {unit_of(evaluation.reward)}, {evaluation.n:,} {evaluation.unit}", columns)


def _differences_table(rows: Sequence[Difference], evaluation: "Evaluation") -> Table:
    """Tabulate how far policies lie apart, and by which estimator where there are several."""
    estimators = {row.estimator for row in rows}
    values = [with_interval(row.value, row.low, row.high, signed=True) for row in rows]
    columns = [
        Column("policy", [row.policy for row in rows], is_text=True, is_essential=True),
        Column("baseline", [row.other for row in rows], is_text=True, is_essential=True),
        Column(f"more {two_lines(evaluation.value_unit)}", [each.value for each in values], is_essential=True),
        _interval_column(evaluation, [each.interval for each in values]),
        Column("rows\nneeded", list(map(_rows_needed, rows))),
        Column("p", [p_value(row.p) for row in rows]),
    ]
    if len(estimators) > 1:
        columns.append(Column("estimator", [row.estimator for row in rows], is_text=True))
        return Table("Differences on the same rows", columns)
    return Table(f"Differences by {estimators.pop()}, on the same rows", columns)


def _interval_column(evaluation: "Evaluation", cells: Sequence[str]) -> Column:
    head = f"{100.0 * evaluation.level:g}% interval"
    return Column(head, cells, is_text=True, is_essential=True, stacks=True)


def _rows_needed(row: Difference) -> str:
    """Say how many rows would settle a difference; nothing where it is settled, or there is none."""
    is_settled = row.low is None or row.high is None or not row.low <= 0.0 <= row.high
    return "" if is_settled or not row.rows_needed else f"{row.rows_needed:,}"
