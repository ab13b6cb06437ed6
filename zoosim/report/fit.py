"""The page of a world fitted to a log: what it holds, and how far to believe it."""

import numpy as np

from zoosim.core.number_format import counted, with_interval
from zoosim.core.statistics import Interval
from zoosim.fitting.checks import Checks, ValueComparison
from zoosim.fitting.columns import ITSELF
from zoosim.fitting.equivalence import MARGIN
from zoosim.fitting.held_out import HeldOut, Share
from zoosim.off_policy.verdict import TRUST, WEAK
from zoosim.report.fit_figures import BEST, MOST_ROWS, calibration_figure, expected_figure, values_figure
from zoosim.report.sections import Drawing, Page, PageTable
from zoosim.worlds.fitted.shop import FittedShop

MOST_PRODUCTS = 15
EFFECTS = {
    "visitors": "a visitor, for all products",
    "tastes": "a visitor, for each category",
    "hours": "hour of the day (UTC)",
    "days": "day",
}
TERMS = {
    "response": "A visit that earned something: a click, or revenue above 0. What a response is worth, where it is not "
    "always 1, is a model of its own, with product effects and the residuals of the log.",
    "the model": "The logit of a response adds up: visitor features, category and product features, their products, "
    "an effect of each product that is shrunk towards what its features predict, and effects of visitors who come "
    "again, of hours and of days. How much each kind varies is estimated from the log.",
    "draws": "The log allows many shops. Each seed of a run is another one of them, drawn from the posterior, so what "
    "differs between seeds is also what the log does not tell. Intervals here are the middle 95% of these shops.",
    "the best for each visitor": "What always showing the best product would earn. It is computed in each draw: the "
    "best of a single estimate is too high, since the luckiest products look best.",
    "held out": "The world in the file is fitted to all rows. The fit is that of a world fitted to the earlier rows, "
    "on the later ones. Bars are where 95% of the responses lie if it is right; blue dots lie within, orange ones "
    "beyond. One in twenty lies beyond by chance.",
    "changes": "Times from which a segment responded to a category more or less, beyond what chance brings at any "
    "time. They come at the same share of a run.",
    "left out": "Positions, what a visitor saw before, and which products were for sale when.",
}


def build_page(shop: FittedShop, checks: Checks) -> Page:
    """Return the page of a fitted world."""
    drawings = [
        Drawing(
            "What choices earn, in the world and by the log",
            "Mean reward of a visit with its 95% interval. By the log, uniform choices are estimated by dr.",
            values_figure(checks.comparisons, checks.oracle),
        ),
        Drawing(
            "What came, and what was expected",
            "Held-out rows by day where there are several, by segment and by category: responses that came (dots), and "
            f"where the world expects them. The {MOST_ROWS} parts with the most rows of each kind.",
            expected_figure(checks.held_out.shares),
        ),
        Drawing(
            "Calibration on held-out rows",
            "Tenths of the held-out rows, from those with the least expected responses to those with the most; dots on "
            "the dotted line are as expected.",
            calibration_figure(checks.held_out.shares),
        ),
    ]
    tables = [_values(checks), _parts(shop), columns_table(checks.held_out), _effects(shop), _products(shop, checks)]
    tables += [_changes(shop), _fit(checks.held_out)]
    return Page(_answer(checks), tables, drawings, TERMS, details=_details(checks))


def _answer(checks: Checks) -> str:
    """Return whether to rely on what policies earn in the world."""
    word = checks.verdict.word
    if word == TRUST:
        return (
            "Rehearse policies in this world: it predicts later rows of the log, and earns what the log says (trust)."
        )
    if word == WEAK:
        return "Take what policies earn in this world as a hint: some of it does not fit the log, as said below (weak)."
    return "Do not compare policies in this world: it predicts later rows no better than simple rates do (do not use)."


def _details(checks: Checks) -> list[str]:
    sentences = [checks.held_out.sentence]
    sentences += [_equivalence(row) for row in checks.comparisons if row.equivalence is not None]
    sentences += [
        f"What {row.policy} earn by the log cannot be compared ({row.estimator}: {row.why_not})."
        for row in checks.comparisons
        if row.why_not
    ]
    return sentences


def _equivalence(row: ValueComparison) -> str:
    """Say whether a policy earns in the world what it earns by the log."""
    if row.agrees is None:
        return f"{row.doubt[0].upper()}{row.doubt[1:]}."
    what = f"what they earn by the log, within {MARGIN:.0%} of the logged value" if row.agrees else "something else"
    beyond = "" if row.agrees else f" than by the log, by more than {MARGIN:.0%} of the logged value"
    return f"In the fitted world {row.policy} earn {what}{beyond}."


def _values(checks: Checks) -> PageTable:
    rows = [_compared(row) for row in checks.comparisons]
    rows.append((BEST, *_figures(checks.oracle), "", "", "", "", ""))
    heads = ("", "fitted world", "95% of shops", "by the log", "95% interval", "by", "difference, 90%", "world and log")
    caption = (
        f"They agree where the difference of the world's mean is shown to be within {MARGIN:.0%} of the logged value: "
        "its 90% interval, two one-sided tests at 5% (Schuirmann 1987), lies within that."
    )
    return PageTable("What choices earn", heads, rows, caption=caption)


def _compared(row: ValueComparison) -> tuple[str, ...]:
    by_log = ("", "") if row.log is None else _figures(row.log)
    tested = row.equivalence
    difference = (
        "" if tested is None else with_interval(tested.difference, tested.low, tested.high, signed=True).interval
    )
    return (row.policy, *_figures(row.world), *by_log, row.estimator, difference, row.words)


def _figures(value: Interval) -> tuple[str, str]:
    return with_interval(*value)


def _parts(shop: FittedShop) -> PageTable:
    facts = shop.facts
    worth = "always 1" if shop.sizes is None else "an amount that differs"
    rows = [
        ("log", f"{facts['rows']:,} rows of {facts['visitors']:,} users or visits"),
        *(("skipped", f"{counted(count, 'bad row')}: {reason}") for reason, count in facts["skipped"].items()),
        ("reward", f"{facts['reward']}, {facts['mean_reward']:.4g} a visit"),
        ("responses", f"{facts['responses']:,}, worth {worth}"),
        ("products", f"{shop.n_products:,} in {len(shop.category_names):,} categories"),
        ("segments", f"{len(facts['segments']):,}: {facts['segments_how']}"),
    ]
    return PageTable("The world", ("", "found"), rows, n_text=2)


def columns_table(held_out: HeldOut) -> PageTable:
    """Tabulate what each column tells of held-out responses, the most first."""
    rows = [
        (column.name, column.of, "yes" if column.tells else "not shown", *_figures(column.gain))
        for column in sorted(held_out.columns, key=lambda column: -column.gain.mean)
    ]
    caption = (
        "What 1,000 held-out rows lose in log likelihood when a column's values are shuffled among visitors, or among "
        f"products. Intervals hold together with 95%. {ITSELF.capitalize()}: what its columns do not tell."
    )
    heads = ("column", "of", "predicts responses", "lost without it", "interval")
    return PageTable("Which columns tell", heads, rows or [("none varies", "", "", "", "")], n_text=3, caption=caption)


def _effects(shop: FittedShop) -> PageTable:
    rows = []
    for name, (spread, error) in shop.facts["spreads"].items():
        # The bound below which the model leaves effects out that are not visitors' own.
        deviation = f"{np.sqrt(spread):.2f}" if spread > error else "none shown"
        rows.append((EFFECTS[name], deviation, f"{spread:.3f} ± {error:.3f}"))
    caption = "Standard deviations of what is added to logits: .1 makes responses about 10% more or less frequent."
    return PageTable("What rows share beside features", ("effect of", "deviation", "variance"), rows, caption=caption)


def _products(shop: FittedShop, checks: Checks) -> PageTable:
    best = sorted(range(shop.n_products), key=lambda product: -checks.products[product].mean)[:MOST_PRODUCTS]
    names = shop.names or tuple(f"product {number}" for number in range(shop.n_products))
    rows = [
        (names[product], shop.category_names[shop.categories[product]], *_figures(checks.products[product]))
        for product in best
    ]
    heads = ("product", "category", f"mean {shop.facts['reward']}", "95% of shops")
    return PageTable("The products that earn most when shown to everyone", heads, rows, n_text=2)


def _changes(shop: FittedShop) -> PageTable:
    rows = []
    for number, change in enumerate(shop.changes, 1):
        segments, categories = np.nonzero(change.effects)
        strongest = np.argsort(-np.abs(change.effects[segments, categories]))[:6]
        cells = [
            f"{shop.facts['segments'][segments[place]]} x {shop.category_names[categories[place]]} "
            f"({change.effects[segments[place], categories[place]]:+.2f})"
            for place in strongest
        ]
        rows.append((f"change {number}", ", ".join(cells), f"{change.row:,}"))
    heads = ("", "what it adds to logits", "from row")
    return PageTable("Changes", heads, rows or [("none found", "", "")], n_text=2)


def _fit(held_out: HeldOut) -> PageTable:
    rows = [
        (share.kind, share.name, f"{share.rows:,}", f"{share.responses:,}", f"{share.expected:,.1f}", _range(share))
        for share in held_out.shares
    ]
    gains = []
    for name, gain in held_out.gains.items():
        gains.append(f"above {name} {with_interval(*gain)}")
    caption = f"Log likelihood a row, in thousandths: {', '.join(gains)}."
    heads = ("by", "", "rows", "responses", "expected", "95% of the time")
    return PageTable("Fit on held-out rows", heads, rows, n_text=2, caption=caption)


def _range(share: Share) -> str:
    return f"{share.low:,.1f}\u2013{share.high:,.1f}"
