"""The page that says which policies are worth trying in a shop, and why."""

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from zoosim.core.number_format import percent
from zoosim.core.statistics import Interval
from zoosim.off_policy.results import Evaluation
from zoosim.rehearsal.advice import BESIDE, FIRST, Advice, written_gain
from zoosim.rehearsal.figures import Rehearsal, Rehearsed
from zoosim.report.drawing import policy_styles
from zoosim.report.evaluation import TERMS as EVALUATION_TERMS
from zoosim.report.evaluation_figures import VERDICT_KEY, values_figure
from zoosim.report.evaluation_tables import (
    decisions_table,
    randomisation_tables,
    reasons_table,
    results_table,
    rows_table,
)
from zoosim.report.fit import columns_table
from zoosim.report.marks import Line, Mark, lines_figure, marks_figure
from zoosim.report.sections import Drawing, Page, Table

if TYPE_CHECKING:
    from zoosim.api.recommend import Recommendation

TERMS = {
    "today's choices": "What the log shows at a visit. A visit of the rehearsal is a row of the log, so each policy is "
    "compared with the choice of that row, by what both earn in the fitted shop in expectation.",
    "rehearsal": "Each seed is another shop that the log allows. Policies begin with nothing learned and learn online; "
    "those that learn from logs alone learn before it from as many visits as the log has, 50,000 at most, with choices "
    "at random. Gains are those of the fitted shop: an experiment in the real one decides.",
    "worth it after": "The visits from which on a policy had earned more in all than today's choices would have: the "
    "median of the seeds, and the worst.",
    "exploring costs": "How far a policy was behind today's choices at most, in rewards, the mean of the seeds.",
    "ms a visit": "Deciding, learning and the simulation, in the fastest trial of one process.",
    "take first": "Named where the fitted shop tells who responds to what better than simpler models on held-out rows, "
    "and the policy earns more than today's choices there beyond chance, corrected for all policies, and the log does "
    "not speak against it; or where the log alone shows that it does, by an estimate that can be trusted.",
}


def build_page(recommendation: "Recommendation") -> Page:
    """Return the page of a recommendation."""
    tables = [_advice(recommendation), shop_table(recommendation)]
    drawings = []
    rehearsal = recommendation.rehearsal
    if rehearsal is not None:
        drawings = [_lead(rehearsal), _gains(rehearsal)]
        tables.append(rehearsal_table(recommendation, rehearsal))
    terms = dict(TERMS)
    if recommendation.checks is not None:
        tables.append(columns_table(recommendation.checks.held_out))
    if recommendation.evaluation is not None:
        drawings.append(_by_log(recommendation.evaluation))
        tables += _log_tables(recommendation.evaluation)
        terms |= EVALUATION_TERMS
    tables += [_next(recommendation), _work(recommendation)]
    return Page(_answer(recommendation), tables, drawings, terms, details=[recommendation.verdict])


def _answer(recommendation: "Recommendation") -> str:
    """Return which policy to try first, if any."""
    first = [each.policy for each in recommendation.advice if each.place == FIRST]
    beside = [each.policy for each in recommendation.advice if each.place == BESIDE]
    if first:
        return f"Try {first[0]} first: it is shown to earn more than today's choices."
    if beside:
        return (
            f"Keep today's choices, and try {beside[0]} beside them in an experiment: no policy is shown to be better."
        )
    return "Keep today's choices: no policy is shown to earn more."


def _advice(recommendation: "Recommendation") -> Table:
    rows = [(f"{each.place}: {each.policy}", each.reason) for each in recommendation.advice]
    word, reasons = recommendation.evidence.verdict
    caption = f"How far to believe the rehearsal: {word}{'' if not reasons else ', ' + '; '.join(reasons)}."
    return Table("What to take", ("", "why"), rows or [("none", "nothing could be tried")], n_text=2, caption=caption)


def shop_table(recommendation: "Recommendation") -> Table:
    """Tabulate what kind of shop it is."""
    rows = [(fact.name, fact.found, fact.meaning) for fact in recommendation.facts]
    return Table("The shop", ("", "found", "what that means"), rows, n_text=3)


def rehearsal_table(recommendation: "Recommendation", rehearsal: Rehearsal) -> Table:
    """Tabulate what policies earned in the rehearsal."""
    rows = [_row(row, rehearsal, recommendation.visits_a_day) for row in rehearsal.policies]
    rows.append(("today's choices", "", "", _share(rehearsal.today_of_oracle), "", "", ""))
    heads = (
        *("policy", "more than today's choices", "in the last fifth", "of the best possible"),
        *("worth it after (worst seed)", "exploring costs", "ms a visit"),
    )
    caption = (
        f"{rehearsal.seeds} seeds of {rehearsal.steps:,} visits. Today's choices earn {rehearsal.today.mean:.4g} a "
        "visit there. Intervals of the gains hold together with 95%."
    )
    return Table("The rehearsal", heads, rows, caption=caption)


def _row(row: Rehearsed, rehearsal: Rehearsal, visits_a_day: float | None) -> tuple[str, ...]:
    worth = _visits(row.worth_after)
    if row.worth_after and visits_a_day and row.worth_after >= visits_a_day:
        worth += f", {row.worth_after / visits_a_day:,.1f} days"
    return (
        row.policy,
        written_gain(row.gain, rehearsal.is_share),
        written_gain(row.end, rehearsal.is_share),
        _share(row.oracle),
        f"{worth} ({_visits(row.worth_after_worst)})",
        f"{row.cost:,.3g}",
        f"{1e3 * row.seconds:.2g}",
    )


def _visits(visits: int | None) -> str:
    return "never" if visits is None else f"{visits:,}"


def _share(share: Interval) -> str:
    if share.low is None or share.high is None:
        return percent(share.mean)
    return f"{percent(share.mean)} ({100 * share.low:.1f} to {100 * share.high:.1f})"


def _lead(rehearsal: Rehearsal) -> Drawing:
    styles = policy_styles(rehearsal.lead)
    lines = [Line(name, rehearsal.visits, lead.tolist(), styles[name].color) for name, lead in rehearsal.lead.items()]
    return Drawing(
        "Ahead of today's choices",
        "What each policy had earned in all above today's choices, in rewards, the mean of the seeds. Below 0 "
        "exploring has cost more than was gained.",
        lines_figure(lines, "visits", "rewards ahead"),
    )


def _gains(rehearsal: Rehearsal) -> Drawing:
    styles = policy_styles(rehearsal.lead)
    factor = 100.0 if rehearsal.is_share else 1.0
    rows = {}
    for row in rehearsal.policies:
        ends = (None if end is None else factor * end for end in row.gain)
        mean, low, high = ends
        rows[row.policy] = [Mark(row.policy, Interval(mean or 0.0, low, high), styles[row.policy].color)]
    unit = "%" if rehearsal.is_share else "rewards a visit"
    return Drawing(
        "Gain over today's choices",
        "In the whole rehearsal, exploring included, with intervals that hold together with 95%.",
        marks_figure(rows, f"more than today's choices, {unit}"),
    )


def _by_log(evaluation: Evaluation) -> Drawing:
    return Drawing(
        "By the log",
        "What a visit would have earned on the log's later rows, by policies that learned from the earlier ones. "
        f"{VERDICT_KEY} Dotted: what the logged choices earned.",
        values_figure(evaluation),
    )


def _log_tables(evaluation: Evaluation) -> list[Table]:
    return [
        replace(decisions_table(evaluation), heading="What the log says"),
        *randomisation_tables(evaluation),
        replace(reasons_table(evaluation), folded=True),
        *rows_table(evaluation),
        *map(results_table, evaluation.by_reward.values()),
    ]


def _next(recommendation: "Recommendation") -> Table:
    """Tabulate the commands that come next."""
    source = shlex.quote(recommendation.source)
    named: list[Advice] = [each for each in recommendation.advice if each.place == FIRST]
    rows = [
        (
            f"train {each.policy} on the log",
            f"zoosim train {source} --policy {shlex.quote(each.policy)} --out shop.zoosim",
        )
        for each in named
    ]
    rows += [("serve it, and learn on", "zoosim serve shop.zoosim") for _ in named]
    rows.append(("the fitted shop, and how far to believe it", str(recommendation.path / "world" / "report.html")))
    if recommendation.rehearsal is not None:
        rows.append(("the rehearsal, all pairs and curves", str(recommendation.path / "rehearsal" / "report.html")))
    if recommendation.evaluation is not None:
        rows.append(("what the log says of each", str(recommendation.path / "judged" / "report.html")))
    return Table("What comes next", ("", "command or page"), rows, n_text=2)


def _work(recommendation: "Recommendation") -> Table:
    rows = [(name, f"{seconds:,.0f}") for name, seconds in recommendation.seconds.items()]
    if recommendation.rehearsal is not None:
        trials = f"{recommendation.rehearsal.trial_seconds:,.0f}"
        rows.append(("all trials of the rehearsal, of earlier calls too, one after another", trials))
    return Table("What it took", ("", "seconds"), rows)
