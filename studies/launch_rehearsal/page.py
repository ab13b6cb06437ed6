"""What rehearsed launches said, beside what came of true ones."""

from collections.abc import Callable, Sequence

import numpy as np

from studies.launch_rehearsal.measuring import BEARABLE, DAYS, Replayed
from zoosim.core.number_format import in_percent, with_interval
from zoosim.core.statistics import Interval
from zoosim.core.types import FloatArray, IntArray
from zoosim.report.drawing import ACCENT
from zoosim.report.marks import Mark, marks_figure
from zoosim.report.sections import Drawing, Page, PageTable

BINS = ((0.0, 0.05), (0.05, 0.25), (0.25, 1.0))
"""Chances of regret that are told together."""

RESAMPLES = 4_000
"""Resamples of the shops behind an interval: launches in one shop are alike."""

TERMS = {
    "printed": "What `zoosim rehearse-launch` said by the log of a shop.",
    "came": "What came of the same launch in the true shop, each time with other visitors.",
    "regret": f"The launch costs more than {BEARABLE:.0%} of what today's choices alone would earn in {DAYS} days.",
    "held": "Parts of the true launches that lie within the interval that was printed for one further launch with 95%.",
}


def build_page(rows: Sequence[Replayed]) -> Page:
    """Build the page."""
    rehearsed = [row for row in rows if row.was_rehearsed]
    tables = [_calibration(rehearsed), _held(rehearsed), _shops(rows)]
    details = []
    if len(rehearsed) < len(rows):
        refused = f"In {len(rows) - len(rehearsed)} of {len(rows)} shops nothing was rehearsed"
        details.append(f"{refused}: the fitted shop told nothing.")
    return Page(answer(rehearsed), tables, [_effects(rehearsed)], TERMS, details)


def answer(rows: Sequence[Replayed]) -> str:
    """Return the main figures."""
    printed = float(np.mean([row.regret for row in rows]))
    came = mean_over_shops(_frequencies(rows))
    written = in_percent(*came, suffix="%")
    return f"Rehearsals print a chance of regret of {printed:.1%}; {written.value} ({written.interval}) are regretted."


def _frequencies(rows: Sequence[Replayed]) -> FloatArray:
    return np.array([row.regretted / row.replays for row in rows])


def mean_over_shops(values: FloatArray) -> Interval:
    """Return the mean of shops' values with a 95% bootstrap interval that draws shops."""
    places: IntArray = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(values[places].mean(axis=1), (0.025, 0.975))
    return Interval(float(values.mean()), float(low), float(high))


def _calibration(rows: Sequence[Replayed]) -> PageTable:
    """Tabulate chances of regret beside how often it was regretted."""
    bins = [("all", rows), *((_words(*ends), _within(rows, *ends)) for ends in BINS)]
    cells = [_line(words, some) for words, some in bins]
    caption = "Intervals are 95%, by drawing shops. The difference is what came less what was printed."
    heads = ("printed chance of regret", "shops", "printed", "came", "difference")
    return PageTable("Is the chance of regret what it says?", heads, cells, 1, caption, printed=True)


def _words(low: float, high: float) -> str:
    return f"{low:.0%} to {high:.0%}"


def _within(rows: Sequence[Replayed], low: float, high: float) -> list[Replayed]:
    return [row for row in rows if low <= row.regret < high or (high == 1.0 and row.regret == 1.0)]


def _line(words: str, rows: Sequence[Replayed]) -> tuple[str, ...]:
    if not rows:
        return words, "0", "-", "-", "-"
    printed = np.array([row.regret for row in rows])
    came = _frequencies(rows)
    return (
        words,
        str(len(rows)),
        f"{printed.mean():.1%}",
        _share(mean_over_shops(came)),
        _share(mean_over_shops(came - printed), signed=True),
    )


def _share(share: Interval, *, signed: bool = False) -> str:
    return str(in_percent(*share, signed=signed, suffix="%"))


def _held(rows: Sequence[Replayed]) -> PageTable:
    """Tabulate how many true launches lie within the intervals."""
    columns: dict[str, Callable[[Replayed], float]] = {
        "what it brings or costs": lambda row: row.net_held / row.replays,
        "what not knowing costs": lambda row: row.asking_held / row.replays,
        "hours until it ships or is taken back": lambda row: row.hours_held / row.replays,
        "by what part the model truly earns more": lambda row: float(_holds(row.effect, row.true_effect)),
    }
    cells = [(name, _share(mean_over_shops(np.array([share(row) for row in rows])))) for name, share in columns.items()]
    launches = sum(row.replays for row in rows)
    caption = f"{launches:,} launches in {len(rows)} true shops; intervals are 95%, by drawing shops."
    return PageTable("Do intervals hold?", ("interval of", "held"), cells, 1, caption, printed=True)


def _holds(interval: Interval, value: float) -> bool:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low <= value <= interval.high


def _shops(rows: Sequence[Replayed]) -> PageTable:
    """Tabulate each shop."""
    cells = []
    for row in rows:
        regret = f"{row.regret:.1%}" if row.was_rehearsed else "-"
        effect = str(in_percent(*row.effect, signed=True, suffix="%")) if row.was_rehearsed else "-"
        net = str(with_interval(*row.net, signed=True)) if row.was_rehearsed else "-"
        came = (f"{row.regretted / row.replays:.0%}", f"{row.true_effect:+.1%}", f"{row.mean_net:+,.0f}")
        cells.append((str(row.seed), row.policy, row.words, row.believed, regret, effect, net, *came))
    heads = (
        *("seed", "launched", "shop", "to be believed"),
        *("regret printed", "effect printed", "clicks printed"),
        *("regretted", "true effect", "clicks on average"),
    )
    return PageTable("Shop by shop", heads, cells, 4, "", printed=True)


def _effects(rows: Sequence[Replayed]) -> Drawing:
    """Draw what was printed of the model beside the truth."""
    marks = {
        f"{row.seed} {row.policy}": [
            Mark("printed", Interval(*(100.0 * (end or 0.0) for end in row.effect)), ACCENT),
            Mark("true", Interval(100.0 * row.true_effect, None, None), "#D55E00", symbol="diamond"),
        ]
        for row in rows
    }
    caption = "What the model earns more than today's choices: as printed, with its interval, and truly (diamond)."
    return Drawing("What was printed, and the truth", caption, marks_figure(marks, "more than today's choices, %"))
