"""The page of an evaluation: what each policy would have earned, whether the log can tell, and why not."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from zoosim.core import number_format
from zoosim.off_policy.compare import LOGGED, Difference, Lift
from zoosim.off_policy.evidence import FEW_REWARDS
from zoosim.off_policy.overlap import Part
from zoosim.off_policy.propensities.deterministic import DETERMINISTIC, PRECISION
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.sentences import best_result, percent_more, share_held
from zoosim.off_policy.sentences import sentences as sentences_of
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST
from zoosim.report.evaluation_figures import MOST_ACTIONS, VERDICT_KEY, actions_figure, values_figure, weights_figure
from zoosim.report.filters import p_value
from zoosim.report.sections import Drawing, Page, Table

MOST_POLICIES = 6
"""Policies whose actions are drawn, and the most bars side by side."""

TERMS = {
    "value": "What a visit would have earned on average, had the policy made the choices.",
    "verdict": "trust: the interval holds about as often as it says. weak: use it as a hint. do not use: the log "
    "cannot tell. The reasons stand beside it.",
    "weight": "How much more likely the policy makes a logged choice than the policy that wrote the log did. The mean "
    "should be 1; a few large ones mean that few rows carry the estimate.",
    "effective rows": "How many rows of the policy's own the log counts for, (sum w)^2 / sum w^2.",
    "estimators": "ips weighs rewards; snips divides by the weights' sum; dr corrects a reward model; dm trusts it.",
}
RANKING_TERMS = {
    "rankings": "standard weighs a visit by its whole ranking; cascade a position by what stands there and above; "
    "independent by its own action alone. Each holds if a position's reward depends on no more than that.",
}
KERNEL_TERMS = {
    "bandwidth": "How far logged boosts may lie from those of a policy without chance and stand for them, in units of "
    "the boosts. A wide one blurs the policy, which is bias; a narrow one leaves few rows.",
}


def build_page(evaluation: Evaluation) -> Page:
    """Build the page of an evaluation, which must hold overlaps."""
    drawn = dict(list(evaluation.overlaps.items())[:MOST_POLICIES])
    values = Drawing(
        "Values",
        f"What a visit would have earned, with intervals. {VERDICT_KEY} Dotted: what the logged choices earned.",
        values_figure(evaluation),
    )
    weights = Drawing(
        "Weights",
        "Share of the log's rows by the size of their weight: those left of 1 count little, those far to the right "
        "carry the estimate.",
        weights_figure(drawn),
    )
    actions = [
        Drawing(
            f"Overlap by action: {policy}",
            f"How often the log shows an action, and how often the policy would: those that it takes most, "
            f"{MOST_ACTIONS} at most. Blue far right of grey: the log can hardly tell.",
            actions_figure(overlap),
        )
        for policy, overlap in drawn.items()
        if overlap.actions
    ]
    tables = [
        results_table(evaluation),
        *lifts_tables(evaluation),
        *randomisation_tables(evaluation),
        *(table for other in evaluation.others.values() for table in _other_reward(other)),
        reasons_table(evaluation),
        _ranking(evaluation),
        _differences(evaluation),
        _segments(evaluation),
        *_categories(evaluation),
        *_propensities(evaluation),
    ]
    families = {row.estimator.partition("-")[0] for row in evaluation.results}
    terms = dict(TERMS)
    if families & {"standard", "cascade", "independent"}:
        terms |= RANKING_TERMS
    if "kernel" in families:
        terms |= KERNEL_TERMS
    return Page(answer(evaluation), tables, [values, weights, *actions], terms, details=_details(evaluation))


def answer(evaluation: Evaluation, policies: Sequence[str] | None = None) -> str:
    """Return whether to switch to one of some policies, all by default, in one sentence, by the log's objective."""
    if evaluation.is_deterministic:
        return "Choose by chance in some visits and ask again: this log shows the same in each case, so it cannot tell."
    names = list(dict.fromkeys(row.policy for row in evaluation.results)) if policies is None else policies
    results = {name: best_result(evaluation, name) for name in names}
    usable = {name: row for name, row in results.items() if row.verdict != DO_NOT_USE}
    if not usable:
        which = f"{names[0]} would earn" if len(names) == 1 else f"any of the {len(names)} policies would earn"
        return f"Keep today's choices: this log cannot tell what {which}."
    better = [name for name, row in usable.items() if _is_more(evaluation, row)]
    best = max(better or usable, key=lambda name: (usable[name].verdict == TRUST, usable[name].value))
    row = usable[best]
    gain = _gain(evaluation, row)
    if best not in better:
        return f"Keep today's choices: nothing is shown to earn more; {best} comes closest ({gain})."
    if row.effective_rewards < FEW_REWARDS:
        rests_on = f"{row.effective_rewards:,.0f} rewards"
        return f"Collect more data before you switch: what speaks for {best} rests on about {rests_on}."
    if row.verdict != TRUST:
        return f"Try {best} in an experiment before you switch: {gain} is a hint, no more (weak)."
    return f"Switch to {best}: {gain}, which this log is good enough to tell (trust)."


def _is_more(evaluation: Evaluation, result: Result) -> bool:
    """Whether a result is above what the logged choices earned, beyond chance."""
    over_logged = _over_logged(evaluation, result)
    return over_logged is not None and over_logged.low is not None and over_logged.low > 0.0


def _over_logged(evaluation: Evaluation, result: Result) -> Lift | Difference | None:
    """Return how much more a policy earns than the logged choices, as a share where there is one."""
    of_result = (result.policy, result.estimator)
    for lift in evaluation.lifts:
        if (lift.policy, lift.estimator) == of_result:
            return lift
    for difference in evaluation.differences:
        if (difference.policy, difference.estimator, difference.other) == (*of_result, LOGGED):
            return difference
    return None


def _gain(evaluation: Evaluation, result: Result) -> str:
    """Write how much more a policy earns than today's choices, with its interval."""
    over_logged = _over_logged(evaluation, result)
    if isinstance(over_logged, Lift):
        ends_of = f"{percent_more(over_logged.low)} to {percent_more(over_logged.high)}"
        return f"{percent_more(over_logged.value)} {evaluation.reward}, {ends_of}"
    if over_logged is not None:
        return f"{over_logged.value:+.3g} {evaluation.reward} per visit, {_range(over_logged)}"
    return f"{result.value:.3g} {evaluation.reward} per visit, {_range(result)}"


def _details(evaluation: Evaluation) -> list[str]:
    """Say for each policy, by its best verdict, what the log can tell, by the same estimator where that is as good."""
    sentences = [DETERMINISTIC[:1].upper() + DETERMINISTIC[1:] + "."] if evaluation.is_deterministic else []
    sentences += [f"The logged choices earned {evaluation.logged.mean:.4g} a visit."]
    for policy in dict.fromkeys(row.policy for row in evaluation.results):
        best = best_result(evaluation, policy)
        if best.verdict == DO_NOT_USE:
            sentences.append(f"{policy}: the log cannot tell ({best.reasons[0]}).")
            continue
        hint = "" if best.verdict == TRUST else f", to be taken as a hint ({best.reasons[0]})"
        value = f"{best.value:.4g} a visit ({best.estimator}: {_range(best)})"
        sentences.append(f"{policy} would have earned {value}{hint}.")
    return sentences + [f"{policy}: {sentence}." for policy, sentence in sentences_of(evaluation).items()]


def _value(row: Result) -> str:
    return f"{row.value:.5g}" if math.isfinite(row.value) else "none"


def _range(row: Result | Difference) -> str:
    return number_format.ends(row.low, row.high, 4)


def results_table(evaluation: Evaluation) -> Table:
    """Tabulate what each estimator says of each policy."""
    rows = [
        (
            *(row.policy, row.estimator, row.verdict, _value(row), _range(row)),
            *(f"{row.ess:,.0f}", f"{row.mean_weight:.3g}", number_format.weight(row.max_weight)),
        )
        for row in evaluation.results
    ]
    heads = ("policy", "estimator", "verdict", "value", "interval", "effective rows", "mean weight", "largest")
    unit = evaluation.unit
    caption = f"{evaluation.n:,} {unit} of {evaluation.n_clusters:,} independent users or {unit}."
    caption += "".join(f" Skipped {count:,} bad rows: {reason}." for reason, count in evaluation.skipped.items())
    caption += "".join(f" {line[:1].upper()}{line[1:]}." for line in evaluation.remarks)
    caption += "".join(f" {name}: {line}." for name, lines in evaluation.notes.items() for line in lines)
    heading = f"Values: {evaluation.reward}" if evaluation.others else "Values"
    return Table(heading, heads, rows, n_text=3, caption=caption)


def lifts_tables(evaluation: Evaluation) -> list[Table]:
    """Tabulate how much more policies earn of each reward, by each one's best estimate; no figure that is useless."""
    rows = []
    for policy in dict.fromkeys(row.policy for row in evaluation.results):
        estimator = best_result(evaluation, policy).estimator
        for reward, by_reward in evaluation.by_reward.items():
            lifts = [row for row in by_reward.lifts if (row.policy, row.estimator) == (policy, estimator)]
            rows += [(policy, reward, estimator, lift.verdict, *_lift_figures(lift)) for lift in lifts]
    heads = ("policy", "reward", "estimator", "verdict", "more than logged", "interval", "rows held of those it takes")
    caption = (
        "In shares of what the logged choices earned, on the same rows. The last column says how many of the rows that "
        "show a lift of this size in 80% of all logs this log holds."
    )
    return [Table("Against the logged choices", heads, rows, n_text=4, caption=caption)] if rows else []


def _lift_figures(lift: Lift) -> tuple[str, str, str]:
    """Write a lift, its interval and the rows that the log holds; nothing where the log cannot tell."""
    if lift.verdict == DO_NOT_USE:
        return "", "", ""
    held = "" if lift.held is None else share_held(lift.held)
    return percent_more(lift.value), f"{percent_more(lift.low)} to {percent_more(lift.high)}", held


def randomisation_tables(evaluation: Evaluation) -> list[Table]:
    """Tabulate how much chance would make a deterministic log useful."""
    rows = [
        (
            f"{plan.share:.0%} of the visits",
            *(_count(plan.rows), _days(plan.days)),
            *(_count(plan.rows_to_compare), _days(plan.days_to_compare)),
        )
        for plan in evaluation.randomisation
    ]
    heads = ("anything by chance in", "rows to judge each policy", "days", "rows to tell the best two apart", "days")
    caption = (
        f"To {PRECISION:.0%} of what the logged choices earn. In such a share of the visits show any candidate with "
        "equal chance, and log in all rows the probability of what was shown."
    )
    return [Table("What would settle it", heads, rows, n_text=1, caption=caption)] if rows else []


def _count(rows: int | None) -> str:
    return "" if rows is None else f"{rows:,}"


def _days(days: float | None) -> str:
    return "" if days is None else f"{days:,.1f}"


def _propensities(evaluation: Evaluation) -> list[Table]:
    """Tabulate, where probabilities were estimated, whether products were shown as often as these say."""
    figures = evaluation.propensities
    if figures is None:
        return []
    rows = [(f"{each.low:g} to {each.high:g}", f"{each.expected:,.0f}", f"{each.shown:,}") for each in figures.bins]
    heads = ("estimated probability", "times it says", "times shown")
    caption = f"Of all products in all rows, by models that have not seen the row's user. {figures.sentence}."
    return [Table("Estimated probabilities", heads, rows, n_text=1, caption=caption)]


def _other_reward(evaluation: Evaluation) -> list[Table]:
    """Return the values of another reward than the objective, and the differences, folded."""
    values = replace(results_table(evaluation), heading=f"Values: {evaluation.reward}", folded=True)
    differences = replace(_differences(evaluation), heading=f"Differences: {evaluation.reward}", folded=True)
    return [values, differences] if evaluation.differences else [values]


def reasons_table(evaluation: Evaluation) -> Table:
    """List reasons once per policy, with the estimators that they speak against."""
    estimators_of: dict[tuple[str, str], list[str]] = {}
    for row in evaluation.results:
        for reason in row.reasons:
            estimators_of.setdefault((row.policy, reason), []).append(row.estimator)
    rows = [(policy, reason, ", ".join(names)) for (policy, reason), names in estimators_of.items()]
    nothing = [("all", "nothing speaks against the estimates", "")]
    return Table("Reasons", ("policy", "reason", "estimators"), rows or nothing, n_text=3)


def _ranking(evaluation: Evaluation) -> Table:
    rows = [
        (
            *(row.estimator, row.policy, "yes" if row.may_be_best else "no", f"{row.place}", f"{row.value:.5g}"),
            *(f"{row.low:+.4g}", p_value(row.p_better)),
        )
        for row in evaluation.ranking
    ]
    heads = ("estimator", "policy", "may be best", "place", "value", "more than logged by at least", "p of no more")
    caption = (
        "Those whose estimate can be used. Corrected for all policies: the chance that any of an estimator's bounds is "
        "wrong is that of one interval, and so is the chance that a policy is wrongly said not to be best."
    )
    return Table("Ranking", heads, rows or [("", "none can be ranked", "", "", "", "", "")], n_text=3, caption=caption)


def _differences(evaluation: Evaluation) -> Table:
    rows = [
        (
            *(f"{row.policy} less {row.other}", row.estimator, row.verdict),
            *(f"{row.value:+.4g}", _range(row), p_value(row.p)),
            "" if row.rows_needed is None else f"{row.rows_needed:,}",
        )
        for row in evaluation.differences
    ]
    heads = ("", "estimator", "verdict", "difference", "interval", "p", "rows that would show it")
    caption = "On the same rows; p is not corrected for several comparisons."
    return Table("Differences", heads, rows, n_text=3, caption=caption)


def _segments(evaluation: Evaluation) -> Table:
    parts = {name: overlap.segments for name, overlap in evaluation.overlaps.items()}
    how = next(iter(evaluation.overlaps.values())).how
    return _parts("Overlap by segment", "segment", parts, f"Segments of visitors: {how}.")


def _categories(evaluation: Evaluation) -> list[Table]:
    """Return the table of categories of products, where anything is known of them."""
    parts = {name: overlap.categories for name, overlap in evaluation.overlaps.items()}
    how = next(iter(evaluation.overlaps.values())).categories_how
    if not any(parts.values()):
        return []
    return [_parts("Overlap by category", "category", parts, f"Categories of the products that were shown: {how}.")]


def _parts(title: str, kind: str, parts: Mapping[str, Sequence[Part]], caption: str) -> Table:
    rows = [
        (
            *(name, part.name, f"{part.rows:,}", f"{part.mean_weight:.3g}", f"{part.ess:,.0f}"),
            number_format.weight(part.max_weight),
        )
        for name, held in parts.items()
        for part in held
    ]
    heads = ("policy", kind, "rows", "mean weight", "effective rows", "largest weight")
    return Table(title, heads, rows, n_text=2, caption=caption)
