"""The tables of an evaluation: what each policy would earn, why not to trust that, and the rows that it rests on."""

import math
from collections.abc import Mapping

from zoosim.core import number_format
from zoosim.core.number_format import counted, decimals, fixed, in_percent, p_value, with_interval
from zoosim.off_policy.best_estimates import (
    best_differences,
    best_ranking,
    best_result,
    over_logged,
    policies_of,
)
from zoosim.off_policy.compare import LOGGED, Lift
from zoosim.off_policy.estimators.single import DIRECT_METHOD
from zoosim.off_policy.evidence import FEW_REWARDS, RewardedRow
from zoosim.off_policy.overlap import ActionShare, Overlap, OverlapStratum
from zoosim.off_policy.propensities.deterministic import PRECISION
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.verdict import DO_NOT_USE
from zoosim.report.sections import Link, PageTable

TODAY = "today's choices"
"""The name of the choices in the log on pages."""

ROWS, SEGMENT_ROWS = "rows", "segment-rows"
"""Keys of the tables of rows."""

MOST_ACTIONS = 20
"""Products of a policy that a table lists, those that it takes most."""

Cells = tuple[str, ...]


def best_results(evaluation: Evaluation) -> list[tuple[str, Result]]:
    """Return for each policy and reward the name of the reward and the estimate to go by."""
    return [
        (reward, best_result(by_reward, policy))
        for policy in policies_of(evaluation)
        for reward, by_reward in evaluation.by_reward.items()
    ]


def decisions_table(evaluation: Evaluation) -> PageTable:
    """Tabulate what each policy would earn of each reward, and how much more that is than today's choices earn."""
    rows: list[Cells] = []
    for reward, result in best_results(evaluation):
        is_useless = result.verdict == DO_NOT_USE
        value = ("", "") if is_useless else with_interval(result.value, result.low, result.high)
        gain = _gain(evaluation.by_reward[reward], result)
        rows.append((result.policy, reward, result.verdict, *gain, *value, _rests_on(reward, result), result.estimator))
    for reward, by_reward in evaluation.by_reward.items():
        logged = by_reward.logged
        rows.append((TODAY, reward, "", "", "", *with_interval(logged.mean, logged.low, logged.high), "", "mean"))
    interval = f"{100.0 * evaluation.level:g}% interval"
    heads = (
        *("policy", "reward", "verdict", "more than today, %", interval),
        *(f"per {evaluation.case}", interval, "rewards behind it", "estimator"),
    )
    unit = evaluation.unit
    independent = counted(evaluation.n_clusters, f"independent user or {unit[:-1]}", f"independent users or {unit}")
    caption = (
        f"Each policy by the estimator with the best verdict; from {evaluation.n:,} {unit} of "
        f"{independent}. A percentage stands where an estimate rests on "
        f"{FEW_REWARDS:.0f} rewards or more, its rows would hold as many if the policy earned what today's choices do, "
        "or it is the direct method's; a click on the number of rewards shows the rows."
    )
    return PageTable("What each policy would earn", heads, rows, n_text=3, caption=caption)


def _gain(evaluation: Evaluation, result: Result) -> Cells:
    """Write how much more a policy earns than today's choices, in percent; nothing where that cannot be told."""
    gain = over_logged(evaluation, result)
    return in_percent(gain.value, gain.low, gain.high, signed=True) if isinstance(gain, Lift) else ("", "")


def _rests_on(reward: str, result: Result) -> str:
    """Write how many rewards an estimate rests on, as a link to the rows with the largest ones."""
    if math.isnan(result.effective_rewards):
        return ""
    text = f"{result.effective_rewards:,.0f}"
    if result.effective_rewards < FEW_REWARDS <= result.expected_rewards:
        text += f" of {result.expected_rewards:,.0f} expected"
    return Link(text, ROWS, result.policy, reward) if result.rests_on else text


def rows_table(evaluation: Evaluation) -> list[PageTable]:
    """List the rows with the largest weight x reward behind each estimate of `decisions_table`, where there are any."""
    rows = [
        (result.policy, reward, *_row_cells(row))
        for reward, result in best_results(evaluation)
        for row in result.rests_on
    ]
    heads = (
        "policy",
        "reward",
        "row",
        "time (UTC)",
        "shown",
        "earned",
        _weight_head(evaluation),
        "part of the estimate",
    )
    caption = (
        f"The rows with the largest weight x reward, ten at most per policy and reward. Rows count from 0 in "
        f"{evaluation.source}, those included that were set aside. A part is of the sum of weight x reward over all "
        "rows."
    )
    heading = "The rows that each estimate rests on"
    return [PageTable(heading, heads, rows, n_text=2, caption=caption, folded=True, key=ROWS)] if rows else []


def _weight_head(evaluation: Evaluation) -> str:
    """Say what the weights of rows are: those of the direct method weigh rows in its calibration."""
    are_predicted = {result.estimator == DIRECT_METHOD for _, result in best_results(evaluation)}
    if are_predicted == {True}:
        return "weight in the calibration"
    return "weight (dm: in the calibration)" if True in are_predicted else "weight"


def _row_cells(row: RewardedRow) -> Cells:
    time = "" if row.time is None else row.time.partition("+")[0].replace("T", " ")
    figures = (f"{row.reward:,.4g}", number_format.weight(row.weight), f"{100.0 * row.share:.1f}%")
    return (f"{row.row:,}", time, row.action, *figures)


def results_table(evaluation: Evaluation) -> PageTable:
    """Tabulate what each estimator says of each policy, folded."""
    rows = [
        (
            *(row.policy, row.estimator, row.verdict, *with_interval(row.value, row.low, row.high)),
            *(f"{row.ess:,.0f}", f"{row.mean_weight:.3g}", number_format.weight(row.max_weight)),
        )
        for row in evaluation.results
    ]
    heads = (
        *("policy", "estimator", "verdict", evaluation.value_unit, f"{100.0 * evaluation.level:g}% interval"),
        *("effective sample size", "mean weight", "largest weight"),
    )
    heading = f"All estimators: {evaluation.reward}"
    return PageTable(heading, heads, rows, n_text=3, folded=True)


def randomisation_tables(evaluation: Evaluation) -> list[PageTable]:
    """Tabulate how much chance would make a deterministic log useful."""
    rows = [
        (
            f"{plan.share:.0%}",
            *(_count(plan.rows), _days(plan.days)),
            *(_count(plan.rows_to_compare), _days(plan.days_to_compare)),
        )
        for plan in evaluation.randomisation
    ]
    heads = (
        "visits with a random choice",
        "rows to judge each policy",
        "days",
        "rows to tell the best two apart",
        "days",
    )
    caption = (
        f"To {PRECISION:.0%} of what today's choices earn. In this share of the visits show any candidate with equal "
        "probability, and log the probability of what was shown in every row."
    )
    return [PageTable("What would settle it", heads, rows, n_text=0, caption=caption)] if rows else []


def _count(rows: int | None) -> str:
    return "" if rows is None else f"{rows:,}"


def _days(days: float | None) -> str:
    return "" if days is None else f"{days:,.1f}"


def propensities_table(evaluation: Evaluation) -> list[PageTable]:
    """Tabulate, where probabilities were estimated, whether products were shown as often as these say."""
    figures = evaluation.propensities
    if figures is None:
        return []
    rows = [(f"{each.low:g} to {each.high:g}", f"{each.expected:,.0f}", f"{each.shown:,}") for each in figures.bins]
    heads = ("estimated probability", "times expected", "times shown")
    caption = f"Of all products in all rows, by models that have not seen the row's user. {figures.sentence}."
    return [PageTable("Estimated probabilities", heads, rows, n_text=1, caption=caption)]


def reasons_table(evaluation: Evaluation) -> PageTable:
    """List reasons once per policy, with the rewards and estimators that they speak against."""
    estimators_of: dict[Cells, list[str]] = {}
    for reward, by_reward in evaluation.by_reward.items():
        for row in by_reward.results:
            for reason in row.reasons:
                estimators_of.setdefault((row.policy, reason, reward), []).append(row.estimator)
    rewards_of: dict[Cells, list[str]] = {}
    for (policy, reason, reward), names in estimators_of.items():
        rewards_of.setdefault((policy, reason, ", ".join(names)), []).append(reward)
    order = policies_of(evaluation)
    rows = sorted(
        [(policy, reason, ", ".join(rewards), names) for (policy, reason, names), rewards in rewards_of.items()],
        key=lambda row: order.index(row[0]),
    )
    nothing = [("all", "nothing speaks against the estimates", "", "")]
    heads = ("policy", "reason", "rewards", "estimators")
    return PageTable("What speaks against the estimates", heads, rows or nothing, n_text=4)


def notes_table(evaluation: Evaluation) -> list[PageTable]:
    """List what there is to say of the log, of bad rows and of single policies."""
    rows = [("the log", line) for line in evaluation.remarks]
    rows += [
        ("the log", f"skipped {counted(count, 'bad row')}: {reason}") for reason, count in evaluation.skipped.items()
    ]
    rows += [(policy, line) for policy, lines in evaluation.notes.items() for line in lines]
    return [PageTable("Notes", ("about", "note"), rows, n_text=2)] if rows else []


def ranking_table(evaluation: Evaluation) -> list[PageTable]:
    """Rank the policies whose estimates can be compared, where there are several."""
    ranking = best_ranking(evaluation)
    rows = []
    for row in ranking:
        gain = with_interval(row.lead, row.low, None, signed=True)
        value = fixed(row.value, decimals(row.lead, row.low))
        # Of a one-sided bound, which has no upper end to write.
        least = gain.interval.partition(" to ")[0]
        may_be_best = "yes" if row.may_be_best else "no"
        rows.append((row.policy, row.estimator, may_be_best, value, least, p_value(row.p_better)))
    heads = (
        *("policy", "estimator", "may be best", evaluation.value_unit),
        *("lower bound of the gain", "p"),
    )
    caption = (
        "Policies whose estimates can be compared, with today's choices and, by the same estimator, with one another: "
        "two by different estimators have no order. The gain is over today's choices, p that it is none. Corrected for "
        "the number of policies: that any bound of an estimator is wrong, or that the best policy is marked as not the "
        "best, is as improbable as that a single interval is wrong."
    )
    if len(ranking) < 2:
        return []
    return [PageTable("Which policy may be best", heads, rows, n_text=3, caption=caption)]


def differences_table(evaluation: Evaluation) -> PageTable:
    """Tabulate how far policies are apart by the estimates to go by, folded."""
    rows = [
        (
            *(row.policy, TODAY if row.other == LOGGED else row.other, row.estimator, row.verdict),
            *with_interval(row.value, row.low, row.high, signed=True),
            p_value(row.p),
            _count(row.rows_needed),
        )
        for row in best_differences(evaluation)
    ]
    interval = f"{100.0 * evaluation.level:g}% interval"
    more = f"more {evaluation.value_unit}"
    heads = ("policy", "compared with", "estimator", "verdict", more, interval, "p", "rows needed")
    heading = f"Differences: {evaluation.reward}"
    caption = (
        "On the same rows, by the estimates to go by: two policies where both are by one estimator. The last column "
        "says how many rows show a difference of this size in 80% of all logs."
    )
    return PageTable(heading, heads, rows, n_text=4, caption=caption, folded=True)


def segment_tables(overlaps: Mapping[str, Overlap]) -> list[PageTable]:
    """Tabulate the overlap by segment of visitors, and list the rows that carry each segment's sum."""
    how = next(iter(overlaps.values())).how
    parts = [(policy, part) for policy, overlap in overlaps.items() for part in overlap.segments]
    rows = [(policy, _segment_link(policy, part), *_part_figures(part)) for policy, part in parts]
    caption = f"Segments of visitors: {how}. A click on a segment shows the rows that weigh most in it."
    by_segment = PageTable("Overlap by segment", _part_heads("segment"), rows, n_text=2, caption=caption)
    listed = [(policy, part.name, *_row_cells(row)) for policy, part in parts for row in part.rests_on]
    if not listed:
        return [by_segment]
    heads = ("policy", "segment", "row", "time (UTC)", "shown", "earned", "weight", "part of the segment's sum")
    words = "The rows with the largest weight x reward in each segment, five at most per policy."
    heading = "The rows of each segment that weigh most"
    return [by_segment, PageTable(heading, heads, listed, n_text=2, caption=words, folded=True, key=SEGMENT_ROWS)]


def _segment_link(policy: str, part: OverlapStratum) -> str:
    return Link(part.name, SEGMENT_ROWS, policy, part.name) if part.rests_on else part.name


def category_tables(overlaps: Mapping[str, Overlap]) -> list[PageTable]:
    """Tabulate the overlap by category of products, where anything is known of them."""
    rows = [
        (policy, part.name, *_part_figures(part)) for policy, overlap in overlaps.items() for part in overlap.categories
    ]
    how = next(iter(overlaps.values())).categories_how
    caption = f"Categories of the products that were shown: {how}."
    table = PageTable("Overlap by category", _part_heads("category"), rows, n_text=2, caption=caption, folded=True)
    return [table] if rows else []


def _part_heads(kind: str) -> Cells:
    return ("policy", kind, "rows", "mean weight", "effective sample size", "largest weight")


def _part_figures(part: OverlapStratum) -> Cells:
    return (f"{part.rows:,}", f"{part.mean_weight:.3g}", f"{part.ess:,.0f}", number_format.weight(part.max_weight))


def action_tables(overlaps: Mapping[str, Overlap]) -> list[PageTable]:
    """Tabulate how often the log shows the actions that each policy takes most, folded."""
    rows = [
        (policy, share.name, f"{100.0 * policy_share(share):.2f}%", f"{100.0 * share.logged:.2f}%")
        for policy, overlap in overlaps.items()
        for share in sorted(overlap.actions, key=lambda share: (-policy_share(share), share.logged))[:MOST_ACTIONS]
    ]
    caption = f"The {MOST_ACTIONS} that each policy takes most. One that the log hardly shows cannot be judged by it."
    heads = ("policy", "action", "of the policy's choices", "of the log's choices")
    table = PageTable("Overlap by action", heads, rows, n_text=2, caption=caption, folded=True)
    return [table] if rows else []


def policy_share(share: ActionShare) -> float:
    """Return how often a policy takes an action: by its probabilities, or where these are not known by the weights."""
    return share.weighted if share.chosen is None else share.chosen
