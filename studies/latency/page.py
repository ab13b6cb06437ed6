"""What the timings tell: the printed figure (docs/lessons.md 7.5.4) beside ours, and which ways fit into the limit."""

from collections.abc import Sequence

import plotly.graph_objects as go

from studies.figures import add_interval, add_mark, rows_figure
from studies.latency.timing import LIMIT, Timing
from zoosim.core.statistics import Interval
from zoosim.report.drawing import ACCENT
from zoosim.report.sections import Drawing, Page, PageTable

PRINTED = ("printed (lessons.md 7.5.4)", "1", "160", "", "", "", "", "no")
TERMS = {
    "loop over samples": "5 iterations of 64 samples; 5 torch modules are asked one sample at a time, as a plain "
    "program does.",
    "fast CEM": "The same 320 samples of zoosim's preset: all members and samples at once, the state's part of the "
    "first layer once.",
    "default CEM": "Up to 120 iterations of 96 samples, until it has converged.",
    "gradient ascent": "8 starts, 10 projected steps through the ensemble.",
    "actor": "One small network, trained on the critic, alone or with gradient steps from what it proposes.",
    "share of best": "The critic's own objective at what is found, mean over 256 requests, in units of what 32 climbs "
    "of 100 steps find.",
    "q-ensemble": "The whole policy as it learns: it ranks the catalogue under each of 320 samples. Learning is two "
    "steps of training on 64 remembered visits.",
    "item-critic": "The whole policy as it learns: it ranks the catalogue under each of 96 samples. Learning fits its "
    "models anew to all visits that it remembers, less often the more there are.",
    "the limit": f"{LIMIT:g} ms: what a shop is often said to allow.",
}


def build_page(timings: Sequence[Timing]) -> Page:
    """Tell what was measured."""
    drawing = Drawing(
        "A decision, against the limit",
        f"Milliseconds on one thread, logarithmic: the dot is the median, the line ends at the 99th percentile. "
        f"Dotted: the limit of {LIMIT:g} ms.",
        figure(timings),
    )
    return Page(answer(timings), [_table(timings)], [drawing], TERMS, details=[verdict(timings)])


def answer(timings: Sequence[Timing]) -> str:
    """Return how to search for boosts within the limit."""
    medians = {t.method: t.median for t in timings if t.requests == 1}
    actor, loop = medians["actor + 3 steps"], medians["loop over samples"]
    best = f"{actor:.2f} ms, against {loop:.0f} ms for a loop over samples"
    return f"Search with an actor and three gradient steps: a decision takes {best}."


def verdict(timings: Sequence[Timing]) -> str:
    """Say in a sentence or two what fits."""
    found = {(t.method, t.requests): t for t in timings}
    loop, fast, actor = (found[method, 1] for method in ("loop over samples", "fast CEM", "actor + 3 steps"))
    whole = next(t for t in timings if t.method.startswith("q-ensemble decides"))
    share = "" if actor.share is None else f" at {100 * actor.share:.1f}% of the best objective"
    return (
        f"320 samples do not have to cost {loop.median:.0f} ms: at once they cost {fast.median:.1f} ms, a factor of "
        f"{loop.shortest / fast.shortest:.0f}, and an actor with three gradient steps {actor.median:.2f} ms{share}. "
        f"A whole decision of q-ensemble takes {whole.median:.1f} ms, {whole.p99:.1f} at the 99th percentile, of "
        f"{LIMIT:g}."
    )


def _table(timings: Sequence[Timing]) -> PageTable:
    heads = ("way", "requests", "median ms", "99th percentile", "shortest", "times the loop", "share of best", "fits")
    loop = next(t for t in timings if t.method == "loop over samples")
    rows = [PRINTED]
    for t in timings:
        factor = t.requests * loop.shortest / t.shortest
        share = "" if t.share is None else f"{100 * t.share:.1f}%"
        told = (f"{t.median:.3f}", f"{t.p99:.3f}", f"{t.shortest:.3f}", f"{factor:,.0f}", share)
        rows.append((t.method, str(t.requests), *told, "yes" if t.p99 <= LIMIT else "no"))
    caption = "Times the loop: the loop's shortest time for as many requests over this one's, in the same run."
    return PageTable("A decision over ten boosts, critic 5 x [64, 64]", heads, rows, caption=caption)


def figure(timings: Sequence[Timing]) -> go.Figure:
    """Draw medians and 99th percentiles of single decisions and of many at once."""
    labels = [t.method if t.requests == 1 else f"{t.method}, {t.requests} requests" for t in timings]
    drawn = rows_figure(labels, "ms", row=26)
    for row, t in enumerate(timings):
        hover = f"{labels[row]}: {t.median:.3f} ms, 99th percentile {t.p99:.3f}"
        add_interval(drawn, Interval(t.median, t.median, t.p99), row, ACCENT, hover)
    add_mark(drawn, LIMIT, f"{LIMIT:g} ms", log=True)
    drawn.update_xaxes(type="log")
    return drawn
