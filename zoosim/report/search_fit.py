"""The page of a search world fitted to a log: how visitors examine, click and buy, and how far to believe it."""

import numpy as np

from zoosim.core.number_format import with_interval
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray
from zoosim.fitting.search_checks import LEAST_CLICKS, REPEATS
from zoosim.fitting.search_world import LATER, VISITS, FittedSearchWorld
from zoosim.report.drawing import ACCENT, COLORS, MUTED
from zoosim.report.marks import Line, Mark, lines_figure, marks_figure
from zoosim.report.sections import Drawing, Page, PageTable

BESIDE = 0.1
"""Distance of the dots of one position."""

NORMAL = 1.96
"""Standard errors from an estimate to the ends of its interval."""

NAMES = {
    "bias": "examination, log odds",
    "examination": "examination, of a segment",
    "intercept": "utility of any product",
    "segment_category": "utility of a category",
    "query_type": "utility, of a type of query",
    "product": "utility of a product beyond its columns",
    "price": "log(1 + price)",
    "label": "private label",
    "price_sd": "log(1 + price), between visitors",
}
"""Readable names of parameters."""

LOGGED = "the log's rankings"
TERMS = {
    "examination": "Visitors look at products from the top and leave sooner or later (cascade): the chance to look at "
    "a position, having looked at the one above. Which were looked at below the last click is summed out.",
    "log odds": "What an effect adds to the log odds of a click: .1 makes clicks about 10% more frequent.",
    "price 10% higher": "By which share a segment's clicks on a product change if its price is 10% higher, its place "
    "and all other prices unchanged; averaged over the products that the segment was shown. Where dear products are "
    "better in ways that no column tells, that counts as liking a high price.",
    "pooling": "Segments, categories and products each have effects of their own, drawn towards the others of their "
    "kind where the log says little; how far they differ is estimated.",
    "what does not fit": f"Later searches are simulated {REPEATS} times. Parts of at least {LEAST_CLICKS:.0f} expected "
    "clicks are tested; p is corrected for their number.",
    "held out": f"The world in the folder is fitted to all searches. The check is by a fit to the others on the latest "
    f"{LATER:.0%}, whose rankings it simulates.",
    "templates": f"Eight rules of boosts; each serves {VISITS:,} visits to the fitted world. The log's rankings are no "
    "template, unless the shop boosts by one.",
    "not estimated": "The noise of utilities, and what clicks and purchases do to satisfaction: a log does not tell.",
}


def build_page(world: FittedSearchWorld) -> Page:
    """Build the page of a fitted search world."""
    drawings = [
        _by_position(world, "clicks"),
        _by_position(world, "purchases"),
        _examination(world),
        Drawing(
            "What a price 10% higher does to clicks",
            "Change of the clicks on a product whose price is 10% higher, by segment, with 95% intervals.",
            marks_figure(_segment_marks(world), "change of clicks, %"),
        ),
        Drawing(
            "What templates earn",
            f"Mean reward of a visit with 95% intervals: blue in the fitted world; grey what {LOGGED} earn by the log, "
            "and, as a diamond, simulated.",
            marks_figure(_template_marks(world), "mean reward of a visit, EUR"),
        ),
    ]
    tables = [_responses(world), _templates(world), _parts(world), _checks(world), _estimates(world)]
    return Page(_answer(world), tables, drawings, TERMS, details=_details(world))


def _answer(world: FittedSearchWorld) -> str:
    """Return whether to rely on what policies earn in the world."""
    agrees = world.earned.equivalence.agrees
    if agrees is False:
        return "Do not compare policies in this world: later searches earn something else than it simulates."
    if agrees is None:
        return (
            "Take what policies earn in this world as a hint: its log is too small to tell whether it earns the same."
        )
    if world.warnings or world.deviating:
        return "Take what policies earn in this world as a hint: some of it does not fit, as said below."
    return "Rehearse boosts and templates in this world: later searches earn what it simulates."


def _details(world: FittedSearchWorld) -> list[str]:
    return [world.earned.sentence, world.fit_sentence, *(f"Warning: {warning}." for warning in world.warnings)]


def _by_position(world: FittedSearchWorld, what: str) -> Drawing:
    """Draw clicks or purchases by position, of the log and simulated."""
    name = what.removesuffix("s")
    places = [check.position for check in world.checks]
    values = [100 * float(getattr(check, what)) for check in world.checks]
    margins = [100 * NORMAL * float(getattr(check, f"{name}_error")) for check in world.checks]
    fitted = [100 * float(getattr(check, f"fitted_{what}")) for check in world.checks]
    lows = [max(0.0, value - margin) for value, margin in zip(values, margins, strict=True)]
    highs = [value + margin for value, margin in zip(values, margins, strict=True)]
    lines = [Line("fitted world", places, fitted, ACCENT), Line("log", places, values, MUTED, lows, highs)]
    caption = f"Per 100 of the latest {LATER:.0%} of the searches, which an earlier fit had not seen."
    return Drawing(f"{what.capitalize()} by position", caption, lines_figure(lines, "position", f"{what} per 100"))


def _examination(world: FittedSearchWorld) -> Drawing:
    estimates = np.asarray(world.behaviour.estimates.bias)
    margins = NORMAL * np.asarray(world.behaviour.errors.bias)
    n_positions = estimates.shape[1]
    lines: list[Line] = []
    for color, name, values, half in zip(COLORS, world.query_types, estimates, margins, strict=False):
        ends_of = [_percents(values + sign * half) for sign in (-1, 1)]
        # Side by side, so that intervals of different types do not hide each other.
        places = [place + BESIDE * len(lines) for place in range(1, n_positions + 1)]
        lines.append(Line(name, places, _percents(values), color, *ends_of))
    caption = "The chance that a visitor who looked at the position above looks at this one, with 95% intervals, by "
    caption += f"type of query; positions below {n_positions} share the last. Satisfaction so far moves it."
    return Drawing("Examination by position", caption, lines_figure(lines, "position", "% look on"))


def _percents(log_odds: FloatArray) -> list[float]:
    values: list[float] = (100.0 / (1.0 + np.exp(-log_odds))).tolist()
    return values


def _interval(value: float, error: float) -> Interval:
    return Interval(value, value - NORMAL * error, value + NORMAL * error)


def _segment_marks(world: FittedSearchWorld) -> dict[str, list[Mark]]:
    responses = zip(world.segments, world.price_responses, strict=True)
    return {name: [Mark(name, _in_percent(response), ACCENT)] for name, response in responses}


def _in_percent(value: Interval) -> Interval:
    assert value.low is not None
    assert value.high is not None
    return Interval(100 * value.mean, 100 * value.low, 100 * value.high)


def _template_marks(world: FittedSearchWorld) -> dict[str, list[Mark]]:
    rows = {
        name: [Mark(f"{name}, in the fitted world", value, ACCENT)]
        for name, value in sorted(world.templates.items(), key=lambda item: -item[1].mean)
    }
    simulated = Interval(world.earned.fitted, None, None)
    rows[LOGGED] = [
        Mark(f"{LOGGED}, simulated", simulated, ACCENT, symbol="diamond-open"),
        Mark(f"{LOGGED}, by the log", world.earned.logged, MUTED),
    ]
    return rows


def _templates(world: FittedSearchWorld) -> PageTable:
    rows = [
        (name, *with_interval(*value), "", "")
        for name, value in sorted(world.templates.items(), key=lambda item: -item[1].mean)
    ]
    logged = world.earned.logged
    rows.append((LOGGED, f"{world.earned.fitted:.4g}", "", *with_interval(*logged)))
    caption = f"Of {world.n:,} searches; behaviour is estimated from the latest {world.used:,}."
    heads = ("", "fitted world, EUR a visit", "95% interval", "by the log", "95% interval")
    return PageTable("What templates earn", heads, rows, caption=caption)


def _responses(world: FittedSearchWorld) -> PageTable:
    behaviour = world.behaviour
    rows = []
    effects = zip(world.segments, world.price_responses, behaviour.estimates.price, behaviour.errors.price, strict=True)
    for name, response, effect, error in effects:
        low, high = _interval(float(effect), float(error))[1:]
        change = f"{response.low:+.1%} to {response.high:+.1%}"
        rows.append((name, f"{response.mean:+.1%}", change, f"{effect:+.2f}", f"{low:+.2f} to {high:+.2f}"))
    heads = ("segment", "clicks at a price 10% higher", "95% interval", "log odds by log(1 + price)", "95% interval")
    return PageTable("What price does to clicks", heads, rows)


def _parts(world: FittedSearchWorld) -> PageTable:
    rows = [
        (
            part.kind,
            part.name,
            f"{part.shown:,}",
            f"{part.clicks:,}",
            f"{part.expected:,.1f}",
            f"{part.low:,.1f} to {part.high:,.1f}",
            f"{part.p:.2g}" if part.p < 1.0 else "1",
        )
        for part in sorted(world.parts, key=lambda part: part.p)
    ]
    heads = ("by", "", "shown", "clicks", "expected", "95% if it fits", "p")
    return PageTable("What does not fit, first", heads, rows, n_text=2, caption=world.fit_sentence)


def _checks(world: FittedSearchWorld) -> PageTable:
    rows = [
        (
            f"{check.position}",
            f"{check.shown:,}",
            *(f"{100 * check.clicks:.2f} ± {100 * NORMAL * check.click_error:.2f}", f"{100 * check.fitted_clicks:.2f}"),
            f"{100 * check.purchases:.2f} ± {100 * NORMAL * check.purchase_error:.2f}",
            f"{100 * check.fitted_purchases:.2f}",
        )
        for check in world.checks
    ]
    heads = ("position", "searches", "clicks per 100", "fitted", "purchases per 100", "fitted")
    return PageTable("Later searches, and what the fit simulates for them", heads, rows)


def _estimates(world: FittedSearchWorld) -> PageTable:
    rows = []
    for name, of, value, error in world.estimates.iter_rows():
        low, high = _interval(value, error)[1:]
        rows.append((NAMES.get(name, name), of, f"{value:.3f}", f"{low:.3f} to {high:.3f}"))
    return PageTable("All estimates", ("parameter", "of", "estimate", "95% interval"), rows, n_text=2, folded=True)
