"""The page of an evaluation: whether to switch to another policy, what that rests on, and where the log is thin."""

from collections.abc import Mapping, Sequence

from zoosim.core.number_format import with_interval
from zoosim.off_policy.best_estimates import (
    best_result,
    lies_above_logged,
    over_logged,
    policies_of,
    sign_over_logged,
)
from zoosim.off_policy.evidence import rewards_in_words
from zoosim.off_policy.overlap import ActionShare, Overlap
from zoosim.off_policy.propensities.deterministic import DETERMINISTIC
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.sentences import gain_in_words, monthly_gain
from zoosim.off_policy.sentences import sentences as sentences_of
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST
from zoosim.report.evaluation_figures import VERDICT_KEY, actions_figure, values_figure, weights_figure
from zoosim.report.evaluation_tables import (
    action_tables,
    category_tables,
    decisions_table,
    differences_table,
    notes_table,
    policy_share,
    propensities_table,
    randomisation_tables,
    ranking_table,
    reasons_table,
    results_table,
    rows_table,
    segment_tables,
)
from zoosim.report.sections import Drawing, Page

MOST_POLICIES = 6
"""Policies whose weights and actions are drawn."""

MOST_THIN = 12
"""Thinly logged actions of a policy that are drawn, those that it takes most."""

THIN_SHARE, THIN_FACTOR = 0.01, 3.0
"""An action is thinly logged if a policy takes it in this share of its choices or more, so many times the log's."""

TERMS = {
    "verdict": "trust: the interval holds about as often as it says. weak: take it as a hint. do not use: the log "
    "cannot tell. The reasons stand in a table.",
    "weight": "How much more likely the policy makes a logged choice than the policy that wrote the log did. The mean "
    "should be 1; a few large weights mean that few rows carry the estimate.",
    "rewards behind it": "How many rewards of equal size would carry as much evidence as those that the estimate "
    "weighs, the fewer by two counts: of the rewarded rows, (sum |w r|)^2 / sum (w r)^2, and of all rows, the share of "
    "their weight that is rewarded times (sum w)^2 / sum w^2. Those expected are what as many rows hold on average.",
    "effective sample size": "How many rows of the policy's own the log counts for: (sum w)^2 / sum w^2.",
    "estimators": "ips weighs rewards; snips divides by the sum of the weights; dr corrects a reward model by weighted "
    "residuals; dm takes what the model predicts.",
}
RANKING_TERMS = {
    "rankings": "standard weighs a visit by its whole ranking; cascade a position by what stands there and above; "
    "independent by its own action alone. Each holds if a position's reward depends on no more than that.",
}
KERNEL_TERMS = {
    "bandwidth": "How far logged boosts may lie from those of a deterministic policy and still stand for them, in "
    "units of the boosts. A wide one blurs the policy, which is bias; a narrow one leaves few rows.",
}


def build_page(evaluation: Evaluation) -> Page:
    """Build the page of an evaluation, which must hold overlaps."""
    overlaps = dict(list(evaluation.overlaps.items())[:MOST_POLICIES])
    drawings = [
        Drawing(
            "What each policy would earn",
            f"Per visit, with intervals. {VERDICT_KEY} Dotted: what today's choices earn.",
            values_figure(evaluation),
        ),
        *_thin_drawings(overlaps),
        Drawing(
            "How large the weights are",
            "Share of the log's rows by weight: rows left of 1 count little, rows far to the right carry the estimate.",
            weights_figure(overlaps),
            folded=True,
        ),
    ]
    tables = [
        decisions_table(evaluation),
        reasons_table(evaluation),
        *randomisation_tables(evaluation),
        *notes_table(evaluation),
        *ranking_table(evaluation),
        *rows_table(evaluation),
        *map(results_table, evaluation.by_reward.values()),
        *(differences_table(by_reward) for by_reward in evaluation.by_reward.values() if by_reward.differences),
        *segment_tables(evaluation.overlaps),
        *category_tables(evaluation.overlaps),
        *action_tables(overlaps),
        *propensities_table(evaluation),
    ]
    return Page(answer(evaluation), tables, drawings, _terms(evaluation), details=details(evaluation))


def _terms(evaluation: Evaluation) -> dict[str, str]:
    families = {row.estimator.partition("-")[0] for row in evaluation.results}
    terms = dict(TERMS)
    if families & {"standard", "cascade", "independent"}:
        terms |= RANKING_TERMS
    if "kernel" in families:
        terms |= KERNEL_TERMS
    return terms


def _thin_drawings(overlaps: Mapping[str, Overlap]) -> list[Drawing]:
    """Draw for each policy the actions that it takes and the log hardly shows, if there are any."""
    thin_by_policy = {policy: _thin_actions(overlap) for policy, overlap in overlaps.items()}
    return [
        Drawing(
            f"What {policy} shows and the log hardly does",
            "Actions that the policy takes at least three times as often as the log; the log says little about them.",
            actions_figure(thin),
        )
        for policy, thin in thin_by_policy.items()
        if thin
    ]


def _thin_actions(overlap: Overlap) -> list[ActionShare]:
    """Return the actions that a policy takes often and the log hardly shows, the most frequent first."""
    thin = [share for share in overlap.actions if policy_share(share) >= max(THIN_SHARE, THIN_FACTOR * share.logged)]
    return sorted(thin, key=policy_share, reverse=True)[:MOST_THIN]


def answer(evaluation: Evaluation, policies: Sequence[str] | None = None) -> str:
    """Return whether to switch to one of some policies, all by default, in one sentence, by the log's objective."""
    if evaluation.is_deterministic:
        return "Choose by chance in some visits and ask again: this log shows the same in each case, so it cannot tell."
    names = policies_of(evaluation) if policies is None else policies
    results = {name: best_result(evaluation, name) for name in names}
    usable = {name: row for name, row in results.items() if row.verdict != DO_NOT_USE}
    if not usable:
        which = names[0] if len(names) == 1 else f"any of the {len(names)} policies"
        return f"Keep today's choices: this log cannot tell what {which} would earn."
    better = [name for name, row in usable.items() if sign_over_logged(evaluation, row) > 0]
    undecided = [name for name, row in usable.items() if sign_over_logged(evaluation, row) == 0]
    if not better and not undecided:
        which = next(iter(usable)) if len(usable) == 1 else f"each of the {len(usable)} policies that it can judge"
        return f"Keep today's choices: the log shows that {which} earns less."
    promising = [name for name in undecided if lies_above_logged(evaluation, usable[name])]
    best = max(better or promising or undecided, key=lambda name: _standing(usable[name]))
    row = usable[best]
    if not row.is_comparable:
        rewards = rewards_in_words(row.effective_rewards)
        return f"Collect more data before you switch: what {best} would earn rests on {rewards}."
    gain = _gain(evaluation, row)
    if best not in better:
        return f"Keep today's choices: nothing is shown to earn more; nearest is {best}, {gain}."
    if row.verdict != TRUST:
        return f"Try {best} in an experiment before you switch: {gain} is a hint, no more (weak)."
    more = over_logged(evaluation, row)
    month = "" if more is None else monthly_gain(evaluation, more)
    return f"Switch to {best}: {gain}{month}, and the log can tell (trust)."


def _standing(result: Result) -> tuple[bool, bool, float]:
    """Return by what a policy comes first among those of which as much is known."""
    return result.is_comparable, result.verdict == TRUST, result.value


def _gain(evaluation: Evaluation, result: Result) -> str:
    """Write how much more a policy earns than today's choices, with its interval."""
    gain = over_logged(evaluation, result)
    if gain is not None:
        return gain_in_words(evaluation, gain)
    value = with_interval(result.value, result.low, result.high)
    return f"{value.value} {evaluation.value_unit} ({value.interval})"


def details(evaluation: Evaluation) -> list[str]:
    """Say what today's choices earn, and of each policy how much more or less, and how far to trust that."""
    logged = evaluation.logged
    value = with_interval(logged.mean, logged.low, logged.high)
    lines = [DETERMINISTIC[:1].upper() + DETERMINISTIC[1:] + "."] if evaluation.is_deterministic else []
    lines.append(f"Today's choices earn {value.value} {evaluation.value_unit} ({value.interval}).")
    said = sentences_of(evaluation)
    for policy in policies_of(evaluation):
        best = best_result(evaluation, policy)
        if best.verdict == DO_NOT_USE:
            lines.append(f"{policy}: the log cannot tell, because {best.reasons[0]}.")
        elif policy in said:
            lines.append(f"{policy}: {said[policy]}.")
        else:
            earned = with_interval(best.value, best.low, best.high)
            lines.append(
                f"{policy} would earn {earned.value} {evaluation.value_unit} "
                f"({earned.interval}; {best.estimator}: {best.verdict})."
            )
    return lines
