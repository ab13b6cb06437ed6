"""What learners reach in worlds that are hard in one way each, beside what myopia is worth there."""

from collections.abc import Sequence

import numpy as np

from studies.session_axes import WORLDS, AxisWorld, Score, myopic_percent
from studies.writing import told, written
from zoosim.core.statistics import mean_interval
from zoosim.report.sections import Page, PageTable

TERMS = {
    "% of the optimum": "Expected clicks of a new visitor, from the first decision to the last, if the learner shows "
    "what it takes for best and learns no more, of those of the best policy, which knows all laws: exact.",
    "myopic": "Shows what is most likely to be clicked now, and knows all chances.",
    "visits": "Visits of all visitors from which a learner learns: up to three or so of each, of seven decisions.",
}


def build_page(rows: Sequence[Score]) -> Page:
    """Build the page."""
    worlds = list(dict.fromkeys(row.world for row in rows))
    return Page(answer(rows, worlds), [_table(rows, worlds), worlds_table(worlds)], [], TERMS)


def answer(rows: Sequence[Score], worlds: Sequence[str]) -> str:
    """Return who has the most over all worlds, and where it has the least."""
    means = {name: [np.mean(_percents(rows, name, world)) for world in worlds] for name in _names(rows)}
    best = max(means, key=lambda name: float(np.mean(means[name])))
    worst = worlds[int(np.argmin(means[best]))]
    least = mean_interval(_percents(rows, best, worst))
    mean = np.mean(means[best])
    return (
        f"Best is {best}: {mean:.1f}% of the optimum over {len(worlds)} worlds, least in {worst}, {written(least, 1)}."
    )


def worlds_table(worlds: Sequence[str]) -> PageTable:
    """Tabulate what is hard in each world, its optimum, and what myopia is worth there."""
    cells = [
        (name, WORLDS[name].difficulty, _optimum(WORLDS[name]), f"{myopic_percent(WORLDS[name]):.1f}")
        for name in worlds
    ]
    heads = ("world", "what is hard there", "optimum, clicks of a visitor", "myopic, % of it")
    caption = "Exact, or two bounds, of which scores are shares of the upper one."
    return PageTable("The worlds", heads, cells, n_text=2, caption=caption, printed=True)


def _optimum(world: AxisWorld) -> str:
    lower, upper, _ = world.bounds
    return f"{upper:.2f}" if lower == upper else f"{lower:.3f} to {upper:.3f}"


def _names(rows: Sequence[Score]) -> list[str]:
    return list(dict.fromkeys(row.learner for row in rows))


def _percents(rows: Sequence[Score], learner: str, world: str) -> list[float]:
    return [row.percent for row in rows if (row.learner, row.world) == (learner, world)]


def _table(rows: Sequence[Score], worlds: Sequence[str]) -> PageTable:
    cells = []
    for name in _names(rows):
        seconds = np.mean([row.seconds for row in rows if row.learner == name])
        cells.append((name, *(told(_percents(rows, name, world), 1) for world in worlds), f"{seconds:.1f}"))
    caption = "Mean over seeds, in brackets 95% intervals; seconds of processor time of a run."
    return PageTable("% of the optimum by world", ("learner", *worlds, "seconds"), cells, caption=caption)
