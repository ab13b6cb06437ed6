"""The page that says what to put in front of a shop's visitors, and why."""

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from zoosim.core.number_format import percent, plain, unit_of, with_interval
from zoosim.core.statistics import Interval
from zoosim.off_policy.results import Evaluation
from zoosim.rehearsal.advice import FIRST, TEST, label, written_gain
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
from zoosim.report.sections import Drawing, Page, PageTable

if TYPE_CHECKING:
    from zoosim.api.recommend import Recommendation

TERMS = {
    "today's choices": "What the log shows at a visit. A visit of the rehearsal is a row of the log, so each policy is "
    "compared with the choice of that row, by what both earn in the fitted shop in expectation.",
    "rehearsal": "Policies trained on the earlier 80% of the log meet visitors of a fitted shop. Each seed is another "
    "shop, drawn from those that the log allows: the policies know of it what the log says, and what the log leaves "
    "open differs from seed to seed. Gains are those of the fitted shop: an experiment in the real one decides.",
    "horizon": "The visits that you plan for. Where fewer were rehearsed, a policy is taken to earn in the others what "
    "it does in the last fifth of these.",
    "regret": "How much more the best of these policies would have earned, seed by seed: on average, and in the worst "
    "of the shops that the log allows.",
    "ahead for good": "The visits from which on a policy had earned more in total than today's choices: the median of "
    "the seeds, and the worst.",
    "most behind": "By how many rewards exploring had put a policy behind today's choices at most, the mean of seeds.",
    "ms per visit": "Deciding, learning and the simulation, in the fastest trial of one process.",
    "take first": "It earns the most over the horizon, more than today's choices beyond chance, in a fitted shop that "
    "predicts held-out rows better than simpler models, and the log does not speak against it; or the log alone shows "
    "that it earns more, by an estimate that can be trusted. Where the evidence is weaker: test first.",
}


def build_page(recommendation: "Recommendation") -> Page:
    """Return the page of a recommendation."""
    tables = [advice_table(recommendation), shop_table(recommendation)]
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
    answer, *details = recommendation.sentences
    return Page(answer, tables, drawings, terms, details=details)


def advice_table(recommendation: "Recommendation") -> PageTable:
    """Tabulate what to do with each policy, and why."""
    rows = [(each.place, label(each.policy), each.reason) for each in recommendation.advice]
    word, reasons = recommendation.evidence.verdict
    caption = f"How far to believe the rehearsal: {word}{'' if not reasons else ', ' + '; '.join(reasons)}."
    heads = ("", "policy", "why")
    return PageTable("What to do", heads, rows or [("none", "", "nothing could be tried")], n_text=3, caption=caption)


def shop_table(recommendation: "Recommendation") -> PageTable:
    """Tabulate what kind of shop it is."""
    rows = [(fact.name, fact.found, fact.meaning) for fact in recommendation.facts]
    return PageTable("The shop", ("", "found", "what that means"), rows, n_text=3)


def rehearsal_table(recommendation: "Recommendation", rehearsal: Rehearsal) -> PageTable:
    """Tabulate what policies earned in the rehearsal."""
    rows = [_row(row, rehearsal, recommendation.visits_a_day) for row in rehearsal.policies]
    rows.append(("today's choices", "", "", "", "", _share(rehearsal.today_of_oracle), "", "", ""))
    heads = (
        *("policy", "more than today's choices", f"more {unit_of(recommendation.reward)} over the horizon"),
        *("regret (worst seed)", "in the last fifth", "of the best possible"),
        *("ahead for good after (worst seed)", "most behind", "ms per visit"),
    )
    caption = (
        f"A horizon of {rehearsal.horizon:,} visits; {rehearsal.seeds} seeds of {rehearsal.steps:,} visits. Today's "
        f"choices earn {rehearsal.today.mean:.4g} per visit there. Intervals of the gains hold together with 95%."
    )
    return PageTable("The rehearsal", heads, rows, caption=caption)


def _row(row: Rehearsed, rehearsal: Rehearsal, visits_a_day: float | None) -> tuple[str, ...]:
    worth = _visits(row.worth_after)
    if row.worth_after and visits_a_day and row.worth_after >= visits_a_day:
        worth += f", {row.worth_after / visits_a_day:,.1f} days"
    more = with_interval(*row.more, signed=True)
    return (
        label(row.policy),
        written_gain(row.gain, rehearsal.is_share),
        f"{more.value} ({more.interval})" if row.more.low is not None else more.value,
        f"{percent(row.regret)} ({percent(row.worst_regret)})",
        written_gain(row.end, rehearsal.is_share),
        _share(row.oracle),
        f"{worth} ({_visits(row.worth_after_worst)})",
        plain(row.cost),
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
    # Styled in the order of `lead` here and in `_gains`, so that a policy has one colour on the page.
    lines = [Line(name, rehearsal.visits, lead.tolist(), styles[name].color) for name, lead in rehearsal.lead.items()]
    return Drawing(
        "Ahead of today's choices",
        "How much more each policy had earned in total than today's choices, in rewards, the mean of the seeds. Below "
        "0 exploring has cost more than was gained.",
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
    unit = "%" if rehearsal.is_share else "rewards per visit"
    return Drawing(
        "Gain over today's choices",
        "Over the horizon, exploring included, with intervals that hold together with 95%.",
        marks_figure(rows, f"more than today's choices, {unit}"),
    )


def _by_log(evaluation: Evaluation) -> Drawing:
    return Drawing(
        "By the log",
        "What policies trained on the earlier 80% of the log would have earned per visit in the later rows. "
        f"{VERDICT_KEY} Dotted: what the logged choices earned.",
        values_figure(evaluation),
    )


def _log_tables(evaluation: Evaluation) -> list[PageTable]:
    return [
        replace(decisions_table(evaluation), heading="What the log says"),
        *randomisation_tables(evaluation),
        replace(reasons_table(evaluation), folded=True),
        *rows_table(evaluation),
        *map(results_table, evaluation.by_reward.values()),
    ]


def next_commands(recommendation: "Recommendation") -> list[tuple[str, str]]:
    """Return what comes next, each with its command: none of them writes over what is there."""
    source = shlex.quote(recommendation.source)
    commands = []
    for each in recommendation.advice:
        model = recommendation.models.get(each.policy)
        if each.place in (FIRST, TEST) and model is not None:
            file = shlex.quote(str(model))
            commands.append(("serve it; its decisions are logged with their probabilities", f"zoosim serve {file}"))
            commands.append(("what the log says of it", f"zoosim evaluate {source} --policy {file}"))
    return commands


def _next(recommendation: "Recommendation") -> PageTable:
    """Tabulate the commands and pages that come next."""
    rows = next_commands(recommendation)
    rows.append(("the fitted shop, and how far to believe it", str(recommendation.path / "world" / "report.html")))
    if recommendation.rehearsal is not None:
        rows.append(("the rehearsal, all pairs and curves", str(recommendation.path / "rehearsal" / "report.html")))
    if recommendation.evaluation is not None:
        rows.append(("what the log says of each", str(recommendation.path / "judged" / "report.html")))
    return PageTable("What comes next", ("", "command or page"), rows, n_text=2)


def _work(recommendation: "Recommendation") -> PageTable:
    rows = [(name, f"{seconds:,.0f}") for name, seconds in recommendation.seconds.items()]
    if recommendation.rehearsal is not None:
        trials = f"{recommendation.rehearsal.trial_seconds:,.0f}"
        rows.append(("all trials of the rehearsal, those of earlier calls included, one after another", trials))
    return PageTable("Time taken", ("", "seconds"), rows)
