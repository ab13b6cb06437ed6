"""The page of a training: which policy was chosen and why, what later rows say of all, and what they learned from."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from zoosim.core.number_format import ends
from zoosim.core.statistics import Interval
from zoosim.logs.log import Log
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.sentences import sentences, usual_estimator
from zoosim.off_policy.training import Training
from zoosim.policies.boost_model import TASTES, BoostModel
from zoosim.report.drawing import COLORS, MUTED
from zoosim.report.evaluation import TERMS as EVALUATION_TERMS
from zoosim.report.evaluation import answer, lifts_tables, reasons_table, results_table
from zoosim.report.evaluation_figures import VERDICT_KEY, result_mark
from zoosim.report.marks import Line, Mark, lines_figure, marks_figure
from zoosim.report.sections import Drawing, Page, Table

LOGGED = "the logged choices"
MOST_NAMED = 4
"""Features of a column that are named."""

MICROSECONDS = 1_000_000
PREDICTED = {
    "predicted": "The mean reward of a visit that a mixed model, fitted to the later rows alone, predicts. "
    "Little noise, but too low as a level: it orders policies, the estimates say how much they earn.",
}
USES = {
    "changes choices": "The share of the chosen policy's choices that is another when a column's values are shuffled "
    "among the visitors, or among the products (mean total variation on later rows). 0%: the policy does not use it.",
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
        tables.append(_values(training))
    if training.losses:
        losses = [
            Line(name, range(1, len(values) + 1), values, color)
            for color, (name, values) in zip(COLORS, training.losses.items(), strict=False)
        ]
        drawings.append(
            Drawing(
                "Training",
                "Mean squared error of the rewards in each epoch, on the rows that were learned from.",
                lines_figure(losses, "epoch", "squared error"),
            )
        )
    columns = _search_columns(training.model) if isinstance(training.model, BoostModel) else _columns(training, uses)
    tables += [_rows(earlier, later), columns, *_notes(training)]
    terms = PREDICTED if training.predicted else {}
    if training.evaluation is not None:
        tables += _estimates_tables(training.evaluation)
        terms = {**terms, **{name: EVALUATION_TERMS[name] for name in ("verdict", "effective rows", "estimators")}}
    return Page(_answer(training), tables, drawings, {**terms, **(USES if uses else {})}, details=_details(training))


def _answer(training: Training) -> str:
    """Return whether to serve the chosen policy."""
    if training.evaluation is None:
        return f"Try {training.policy} in an experiment: this log has no probabilities that could say what it earns."
    return answer(training.evaluation, [training.policy])


def _details(training: Training) -> list[str]:
    lines = [f"{training.policy} was chosen of {training.model.competitors} policies: {training.reason}."]
    if training.model.competitors == 1:
        lines = [f"{training.policy} was trained, and no other."]
    if training.evaluation is None:
        lines.append("The log has no probabilities of what was shown, so no estimate says how much it would earn.")
    else:
        sentence = sentences(training.evaluation).get(training.policy, "")
        lines += [f"Against {LOGGED}: {sentence}."] if sentence else []
    return lines


def _notes(training: Training) -> list[Table]:
    by_policy = training.notes if training.evaluation is None else training.evaluation.notes
    rows = [(name, line) for name, lines in by_policy.items() for line in lines]
    return [Table("Notes", ("policy", "note"), rows, n_text=2)] if rows else []


def _estimates_tables(evaluation: Evaluation) -> list[Table]:
    """Return what the page of an evaluation says of each estimate, folded but for the lifts."""
    reasons = replace(reasons_table(evaluation), folded=True)
    results = replace(results_table(evaluation), heading="All estimators", folded=True)
    return [*lifts_tables(evaluation), reasons, results]


def _estimates(evaluation: Evaluation | None) -> dict[str, Result]:
    """Return the estimates by policy that tell most of the policies: by `dr`, of boosts by the usual estimator."""
    if evaluation is None:
        return {}
    names = {row.estimator for row in evaluation.results}
    estimator = "dr" if "dr" in names else usual_estimator(evaluation)
    return {row.policy: row for row in evaluation.results if row.estimator == estimator}


def _values_drawing(training: Training) -> Drawing:
    estimates = _estimates(training.evaluation)
    rows: dict[str, list[Mark]] = {}
    for name in dict.fromkeys([training.policy, *estimates, *training.predicted]):
        rows[name] = []
        if name in estimates:
            rows[name].append(result_mark(estimates[name]))
        if name in training.predicted:
            value = Interval(training.predicted[name], None, None)
            rows[name].append(Mark(f"{name}, predicted", value, MUTED, symbol="diamond-open"))
    if training.evaluation is not None:
        rows[LOGGED] = [Mark(LOGGED, training.evaluation.logged, MUTED)]
    caption = "Mean reward of a visit on the later rows. "
    if training.predicted:
        caption += "Diamonds: predicted by a mixed model of these rows. "
    if estimates:
        caption += f"Estimates have intervals. {VERDICT_KEY}"
    return Drawing("What the policies would earn", caption, marks_figure(rows, "mean reward of a visit"))


def _values(training: Training) -> Table:
    estimates = _estimates(training.evaluation)
    rows = []
    for name in dict.fromkeys([training.policy, *estimates, *training.predicted]):
        predicted = f"{training.predicted[name]:.4g}" if name in training.predicted else ""
        words = [name, "yes" if name == training.policy else ""]
        row = estimates.get(name)
        if row is None:
            rows.append((*words, "", "", predicted, "", "", ""))
            continue
        figures = (predicted, f"{row.value:.4g}", ends(row.low, row.high, 4), f"{row.ess:,.0f}")
        rows.append((*words, row.verdict, row.estimator, *figures))
    if training.evaluation is not None:
        logged = training.evaluation.logged
        figures = ("", f"{logged.mean:.4g}", ends(logged.low, logged.high, 4), f"{training.evaluation.n:,}")
        rows.append((LOGGED, "", "", "", *figures))
    heads = ("policy", "chosen", "verdict", "estimator", "predicted", "estimate", "interval", "effective rows")
    kept = [place for place, head in enumerate(heads) if head != "predicted" or training.predicted]
    cells = [[row[place] for place in kept] for row in (heads, *rows)]
    return Table("What the policies would earn", cells[0], cells[1:], n_text=4)


def _rows(earlier: Log, later: Log) -> Table:
    rows = []
    for name, log in (("learned from", earlier), ("judged by", later)):
        period = ("", "") if log.times is None else (_day(log.times.min()), _day(log.times.max()))
        rows.append((name, *period, f"{len(log):,}", f"{log.visit_rewards.mean():.4g}"))
    caption = f"Mean reward of a visit: {later.objective}. "
    caption += " ".join(f"Skipped {count:,} bad rows: {reason}." for reason, count in later.skipped.items())
    if later.times is None:
        caption += " The log knows no times: its rows are taken in their order."
    return Table("Rows", ("", "from (UTC)", "to", "rows", "mean reward"), rows, n_text=3, caption=caption)


def _day(microseconds: int) -> str:
    return f"{datetime.fromtimestamp(int(microseconds) / MICROSECONDS, UTC):%Y-%m-%d %H:%M}"


def _columns(training: Training, uses: Uses) -> Table:
    fitted = training.model.fitted
    rows = []
    for of, encoder in (("visitors", fitted.visitors), ("products", fitted.products)):
        for column in encoder.columns:
            features = column.features
            named = ", ".join(features[:MOST_NAMED]) + (", ..." if len(features) > MOST_NAMED else "")
            use = f"{uses[of][column.name]:.0%}" if of in uses else ""
            rows.append((column.name, of, column.type, named, f"{len(features):,}", use))
    heads = ("column", "of", "type", "features", "number", f"changes {training.policy}'s choices")
    nothing = [("none", "", "", "", "", "")]
    return Table("Columns, and what the policy makes of them", heads, rows or nothing, n_text=4)


def _search_columns(model: BoostModel) -> Table:
    schema = model.requests.schema
    rows = [
        ("segment", ", ".join(schema.segments), f"{len(schema.segments):,}"),
        ("query_type", ", ".join(schema.query_types), f"{len(schema.query_types):,}"),
    ]
    if schema.n_tastes:
        rows += [(name, "as the shop estimates it, shrunk and rounded", "1") for name in TASTES]
        left = schema.n_features - len(schema.segments) - len(schema.query_types) - schema.n_tastes
        rows.append(("base scores", f"what the base ranker's top {schema.k} is like", f"{left}"))
    caption = (
        f"Beside these, policies see the base score of each candidate, and its price, margin, discount, label, "
        f"popularity and category, of {len(model.requests.names):,} products; boosts lie in ±{schema.a_max:g}. "
        f"Decisions explore with a spread of {model.spread:.2g} times that."
    )
    return Table("What policies see of a search", ("", "values", "features"), rows, n_text=2, caption=caption)
