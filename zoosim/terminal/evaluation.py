"""Print policies judged by a log, and policies trained on one."""

from pathlib import Path
from typing import TYPE_CHECKING

from zoosim.core.number_format import p_value, unit_of
from zoosim.off_policy.best_estimates import best_ranking, best_result, policies_of
from zoosim.off_policy.sentences import sentences
from zoosim.off_policy.tables import evaluation_tables
from zoosim.terminal.output import print_address, print_lines, print_table, skipped_lines

if TYPE_CHECKING:
    from zoosim.off_policy.results import Evaluation
    from zoosim.off_policy.training import Training


def print_training(training: "Training", *, wide: bool = False, has_page: bool = False) -> None:
    """Print what later rows say of trained policies, and by what one was chosen."""
    lines = []
    if training.evaluation is not None:
        print_evaluation(training.evaluation, wide=wide, has_page=has_page)
    else:
        lines += [f"{name}: {'; '.join(notes)}" for name, notes in training.notes.items()]
    rare = training.model.fitted.visitors.rare_levels()
    lines += [f"note: column {name}: {note}" for name, note in rare.items()]
    if training.unjudged:
        lines.append(f"The later rows could not judge what was trained: {training.unjudged}.")
    if training.model.competitors > 1:
        lines.append(f"{training.policy} was chosen: {training.reason}.")
    print_lines(lines)


def print_evaluation(
    evaluation: "Evaluation", folder: Path | None = None, *, wide: bool = False, has_page: bool = False
) -> None:
    """Print values, intervals and verdicts of policies judged by a log, what speaks against them, and what follows.

    Args:
        evaluation: The results.
        folder: Where a page was written, whose address is printed.
        wide: Print all columns of the tables, and the reasons against all estimates.
        has_page: Whether another page shows them.
    """
    for table in evaluation_tables(evaluation):
        print_table(table, wide=wide, has_page=has_page or folder is not None)
    print_lines(skipped_lines(evaluation.skipped))
    print_lines(f"note: {remark}." for remark in evaluation.remarks)
    print_lines(f"note: {name}: {line}" for name, lines in evaluation.notes.items() for line in lines)
    print_lines(reason_lines(evaluation, wide=wide))
    print_lines(ranking_lines(evaluation))
    print_lines(f"{name}: {sentence}." for name, sentence in sentences(evaluation).items())
    if folder is not None:
        print_address(folder)


def reason_lines(evaluation: "Evaluation", *, wide: bool = False) -> list[str]:
    """Say why estimates are not trusted: one line per policy for those of which the same is said.

    Of each policy and reward that is the estimate that speaks for it, or, where `wide`, all of them.
    """
    estimates: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for policy in policies_of(evaluation):
        for reward, by_reward in evaluation.by_reward.items():
            every = [row for row in by_reward.results if row.policy == policy]
            for row in every if wide else [best_result(by_reward, policy)]:
                name = f"{row.estimator} of {unit_of(reward)}" if evaluation.others else row.estimator
                if row.reasons:
                    estimates.setdefault((policy, row.verdict, row.reasons), []).append(name)
    return [
        f"{policy} ({', '.join(names)}): {verdict}: {'; '.join(reasons)}."
        for (policy, verdict, reasons), names in estimates.items()
    ]


def ranking_lines(evaluation: "Evaluation") -> list[str]:
    """Say, where several policies can be ranked, which ones beat the logged choices and which one may be best."""
    rows = best_ranking(evaluation)
    if len(rows) < 2:
        return []
    better = [f"{row.policy} (p {p_value(row.p_better)})" for row in rows if row.low > 0.0]
    best = [row.policy for row in rows if row.may_be_best]
    estimators = {row.estimator for row in rows}
    by = rows[0].estimator if len(estimators) == 1 else "the best estimate of each"
    return [
        f"By {by}, corrected for comparing {len(rows)} policies: better than the logged choices: "
        f"{', '.join(better) or 'none shown'}; may be best: {', '.join(best)}."
    ]
