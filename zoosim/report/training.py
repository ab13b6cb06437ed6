"""The page of a training: which policy was chosen and why, what later rows say of all, and what they learned from."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from zoosim.action_spaces.registry import find_action_space
from zoosim.core.blocks import block_sum, extremes
from zoosim.core.durations import MICROSECONDS
from zoosim.core.number_format import counted, fixed, per_visit, shared_decimals
from zoosim.core.statistics import Interval
from zoosim.core.types import REWARD
from zoosim.logs.log import Log
from zoosim.off_policy.best_estimates import best_result, policies_of
from zoosim.off_policy.estimators.single import DIRECT_METHOD
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.sentences import sentences
from zoosim.off_policy.training import Training
from zoosim.policies.boost_model import TASTES, BoostModel
from zoosim.report.drawing import COLORS, MUTED
from zoosim.report.evaluation import TERMS as EVALUATION_TERMS
from zoosim.report.evaluation import answer
from zoosim.report.evaluation_figures import VERDICT_KEY, result_mark
from zoosim.report.evaluation_tables import (
    TODAY,
    decisions_table,
    notes_table,
    reasons_table,
    results_table,
    rows_table,
)
from zoosim.report.marks import Line, Mark, lines_figure, marks_figure
from zoosim.report.sections import Drawing, Page, PageTable

MOST_NAMED = 4
"""Features of a column that are named."""

PREDICTED = {
    "predicted": "The mean reward per later visit by dm: a mixed model, fitted to the earlier rows and calibrated on "
    "the later ones. It varies little from log to log, and is right as far as the model is.",
}
USES = {
    "choices that change": "The share of the policy's choices that change when a column's values are shuffled among "
    "visitors, or among products (mean total variation on later rows). At 0% the policy does not use the column.",
}

Uses = Mapping[str, Mapping[str, float]]


def build_page(training: Training, earlier: Log, later: Log, uses: Uses) -> Page:
    """Build the page of a training on the `earlier` rows of a log that was judged by the `later`.

    `uses` are those of `column_uses`, none where boosts are chosen.
    """
    tables = []
    drawings = []
    if training.evaluation is not None or training.predicted:
        drawings.append(_values_drawing(training))
    if training.evaluation is not None:
        tables.append(decisions_table(training.evaluation))
    if training.predicted:
        tables.append(_predicted(training))
    if training.losses:
        losses = [
            Line(name, range(1, len(values) + 1), values, color)
            for color, (name, values) in zip(COLORS, training.losses.items(), strict=False)
        ]
        drawings.append(
            Drawing(
                "Training error",
                "Mean squared error of the predicted rewards after each epoch, on the rows that policies learned from.",
                lines_figure(losses, "epoch", "squared error"),
            )
        )
    columns = find_action_space(training.model.action_space).training_columns(training, uses)
    tables += [_rows(earlier, later), columns, *_notes(training)]
    terms = PREDICTED if training.predicted else {}
    if training.evaluation is not None:
        tables += _evaluation_tables(training.evaluation)
        terms = {**terms, **EVALUATION_TERMS}
    return Page(_answer(training), tables, drawings, {**terms, **(USES if uses else {})}, details=_details(training))


def _answer(training: Training) -> str:
    """Return whether to serve the chosen policy."""
    if training.unjudged:
        return f"Try {training.policy} in an experiment: this log could not say what it earns."
    if training.evaluation is None:
        return f"Try {training.policy} in an experiment: this log has no probabilities that could say what it earns."
    return answer(training.evaluation, [training.policy])


def _details(training: Training) -> list[str]:
    lines = [f"{training.policy} was chosen from {training.model.competitors} policies: {training.reason}."]
    if training.model.competitors == 1:
        lines = [f"{training.policy} was trained, and no other policy."]
    if training.unjudged:
        lines.append(f"The later rows could not judge what was trained: {training.unjudged}.")
    elif training.evaluation is None:
        lines.append("The log has no probabilities of what was shown, so no estimate says how much it would earn.")
    else:
        sentence = sentences(training.evaluation).get(training.policy, "")
        lines += [f"Compared with {TODAY}: {sentence}."] if sentence else []
    rare = training.model.fitted.visitors.rare_levels()
    return [*lines, *(f"Column {name}: {note}." for name, note in rare.items())]


def _notes(training: Training) -> list[PageTable]:
    if training.evaluation is not None:
        return notes_table(training.evaluation)
    rows = [(name, line) for name, lines in training.notes.items() for line in lines]
    return [PageTable("Notes", ("about", "note"), rows, n_text=2)] if rows else []


def _evaluation_tables(evaluation: Evaluation) -> list[PageTable]:
    """Return what the page of an evaluation says of each estimate, folded."""
    reasons = replace(reasons_table(evaluation), folded=True)
    return [reasons, *rows_table(evaluation), *map(results_table, evaluation.by_reward.values())]


def _estimates(evaluation: Evaluation | None) -> dict[str, Result]:
    """Return the estimate to go by of each policy."""
    if evaluation is None:
        return {}
    return {policy: best_result(evaluation, policy) for policy in policies_of(evaluation)}


def _values_drawing(training: Training) -> Drawing:
    estimates = _estimates(training.evaluation)
    rows: dict[str, list[Mark]] = {}
    for name in dict.fromkeys([training.policy, *estimates, *training.predicted]):
        rows[name] = []
        if name in estimates:
            rows[name].append(result_mark(estimates[name]))
        # Such an estimate is the prediction itself, with an interval.
        is_estimated = name in estimates and estimates[name].estimator == DIRECT_METHOD
        if name in training.predicted and not is_estimated:
            value = Interval(training.predicted[name], None, None)
            rows[name].append(Mark(f"{name}, predicted", value, MUTED, symbol="diamond-open"))
    if training.evaluation is not None:
        rows[TODAY] = [Mark(TODAY, training.evaluation.logged, MUTED)]
    caption = "Mean reward per visit on the later rows. "
    if training.predicted:
        caption += "Diamonds: predicted by a mixed model of the earlier rows, calibrated on these. "
    if estimates:
        caption += f"Estimates have intervals. {VERDICT_KEY}"
    reward = REWARD if training.evaluation is None else training.evaluation.reward
    return Drawing("What each policy would earn", caption, marks_figure(rows, per_visit(reward)))


def _predicted(training: Training) -> PageTable:
    places = shared_decimals(training.predicted.values())
    rows = [
        (name, "yes" if name == training.policy else "", fixed(value, places))
        for name, value in training.predicted.items()
    ]
    heads = ("policy", "chosen", "predicted per visit")
    caption = "By dm: a mixed model, fitted to the earlier rows and calibrated on the later ones."
    return PageTable("What is predicted", heads, rows, n_text=2, caption=caption)


def _rows(earlier: Log, later: Log) -> PageTable:
    rows = []
    for name, log in (("training", earlier), ("evaluation", later)):
        period = ("", "") if log.times is None else tuple(_day(int(end)) for end in extremes(log.times))
        rows.append((name, *period, f"{len(log):,}", f"{block_sum(log.visit_rewards) / len(log):.4g}"))
    caption = f"Mean reward: {per_visit(later.objective)}. "
    caption += " ".join(f"Skipped {counted(count, 'bad row')}: {reason}." for reason, count in later.skipped.items())
    if later.times is None:
        caption += " The log has no times, so its rows are taken in their order."
    return PageTable(
        "Which rows were used", ("for", "from (UTC)", "to", "rows", "mean reward"), rows, n_text=3, caption=caption
    )


def _day(microseconds: int) -> str:
    return f"{datetime.fromtimestamp(int(microseconds) / MICROSECONDS, UTC):%Y-%m-%d %H:%M}"


def encoded_columns(training: Training, uses: Uses) -> PageTable:
    """Return the columns of the log's schema, their features, and how much the policy uses each."""
    fitted = training.model.fitted
    rows = []
    for of, encoder in (("visitors", fitted.visitors), ("products", fitted.products)):
        for column in encoder.columns:
            features = column.features
            named = ", ".join(features[:MOST_NAMED]) + (", ..." if len(features) > MOST_NAMED else "")
            use = f"{uses[of][column.name]:.0%}" if of in uses else ""
            rows.append((column.name, of, column.type, named, f"{len(features):,}", use))
    heads = ("column", "table", "type", "features", "number", "choices that change without it")
    nothing = [("none", "", "", "", "", "")]
    return PageTable(f"Which columns {training.policy} uses", heads, rows or nothing, n_text=4)


def search_columns(training: Training, uses: Uses) -> PageTable:
    """Return what policies see of a search."""
    model = training.model
    assert isinstance(model, BoostModel)
    schema = model.requests.schema
    rows = [
        ("segment", ", ".join(schema.segments), f"{len(schema.segments):,}"),
        ("query_type", ", ".join(schema.query_types), f"{len(schema.query_types):,}"),
    ]
    if schema.n_tastes:
        rows += [(name, "the shop's estimate, shrunk and rounded", "1") for name in TASTES]
        left = schema.n_features - len(schema.segments) - len(schema.query_types) - schema.n_tastes
        rows.append(("base scores", f"means over the base ranker's top {schema.k}", f"{left}"))
    caption = (
        f"Policies also see each candidate's base score, price, margin, discount, label, popularity and category, for "
        f"{len(model.requests.names):,} products. Boosts lie in ±{schema.a_max:g}; exploration varies them by a "
        f"standard deviation of {model.spread:.2g} times that."
    )
    return PageTable("What policies see of a search", ("column", "values", "features"), rows, n_text=2, caption=caption)
