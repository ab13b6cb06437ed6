"""What the ten starts tell: a verdict, the printed table beside ours, and figures."""

from collections.abc import Sequence

from studies.cem_optima.drawings import agreement_figure, population_figure, steps_figure
from studies.cem_optima.ends import DECISIONS, NEAR, RADII, STARTS, Ends, Step
from studies.cem_optima.shares import share_interval
from studies.rows import rows_where, values_where
from studies.writing import told, written
from zoosim.core.statistics import mean_interval
from zoosim.report.sections import Drawing, Page, PageTable

PRINTED = ("printed (lessons.md 7.5.2)", "its critic", "40%", "60%", "15%", "", "", "320")
NAMES = {"concave": "concave", "ensemble": "Q-ensemble", "network": "network", "rastrigin": "Rastrigin"}
TERMS = {
    "agree": f"All ends of a query's {STARTS} starts are within {NEAR:g} of each other.",
    "more than two": "The ends lie at more than two places.",
    "gap": "The best end less the worst, as a share of what there is to gain over a random action. The printed one is "
    "a share of the value.",
    "after finishing": "The same ends after 400 small steps along the gradient. Ends that meet then were a search that "
    "was not finished; ends that still differ are different optima.",
    "concave": "x'a - .1 |a|^2 with x from N(0, I): it has one optimum, so every disagreement is an unfinished search.",
    "Q-ensemble": "Mean + std of the default Q-ensemble, trained on 1,000 points of such a function whose x has 5 "
    "numbers: what a policy that learns searches.",
    "network": "20-64-64-1 with tanh and random weights: as wavy as a critic that has fitted noise.",
    "Rastrigin": "11^20 optima, the best one anywhere in the box.",
    "published": "Textbook CEM (lessons.md, algorithm 7.1): 5 or 100 iterations of 64 samples, a tenth of them "
    "elites, a smoothing of .7.",
    "fast, default": "The presets of zoosim: 5 iterations of 64 samples; up to 120 of 96.",
    "intervals": "95% over queries, one a seed with an objective of its own: Wilson's for shares, Student's for means.",
}


def build_page(rows: Sequence[Ends | Step]) -> Page:
    """Tell what was found."""
    ends = [row for row in rows if isinstance(row, Ends)]
    steps = [row for row in rows if isinstance(row, Step)]
    settings = [row for row in ends if row.setting != "population"]
    populations = [row for row in ends if row.setting == "population"]
    queries = len({row.seed for row in rows})
    drawings = [
        Drawing(
            "Ten starts a query: before and after finishing",
            f"Share of {queries} queries whose ends agree, with 95% intervals. Orange: as the search left them. Blue: "
            "after climbing on along the gradient. Where blue is far right of orange the search was not finished.",
            agreement_figure(grouped(settings), NAMES),
        ),
        Drawing(
            "How many samples an iteration?",
            "Share of concave queries whose ten ends agree, by samples an iteration, at most 200 iterations. Dotted: "
            "a printed rule (docs/lessons.md 7.5.2), 4 d + 16.",
            population_figure(populations),
        ),
        Drawing(
            "How far does a trust region let it go?",
            "Share of what there is to gain over a = (.1, ..., .1), the mean over queries, by radius, after one "
            "decision and after several, each around the last.",
            steps_figure(steps, NAMES),
        ),
    ]
    return Page(
        answer(settings),
        [_settings(settings), _populations(populations), _steps(steps)],
        drawings,
        TERMS,
        details=[verdict(settings)],
    )


def grouped(rows: Sequence[Ends]) -> dict[tuple[str, str], list[Ends]]:
    """Put rows of one landscape and setting together."""
    groups: dict[tuple[str, str], list[Ends]] = {}
    for row in rows:
        groups.setdefault((row.landscape, row.setting), []).append(row)
    return groups


def answer(rows: Sequence[Ends]) -> str:
    """Return what to do about ends that differ, by functions that have a single optimum."""
    short = grouped(rows)["concave", "published, 5 x 64"]
    differ = _share([not row.agree for row in short])
    return f"Let the search converge before you count optima: where there is one, ends differ in {differ} of queries."


def verdict(rows: Sequence[Ends]) -> str:
    """Say in a sentence or two which it is."""
    groups = grouped(rows)
    short = groups["concave", "published, 5 x 64"]
    done, wavy, learned = (groups[kind, "default"] for kind in ("concave", "network", "ensemble"))
    gaps = [100 * mean_interval([row.finished_gap for row in rows]).mean for rows in (learned, wavy)]
    return (
        f"Ends that differ are no sign of local optima: on concave functions, which have one optimum, five iterations "
        f"as published end apart in {_share([not row.agree for row in short])} of queries, the default in "
        f"{_share([not row.agree for row in done])}. Where there are several optima they do count: ten finished "
        f"searches differ on trained Q-ensembles in {_share([not row.finished_agree for row in learned])} of queries, "
        f"by {gaps[0]:.1f}% of what there is to gain, and on random networks in "
        f"{_share([not row.finished_agree for row in wavy])}, by {gaps[1]:.0f}%."
    )


def _settings(rows: Sequence[Ends]) -> PageTable:
    heads = ("search", "function", "agree", "more than two", "gap", "agree, finished", "gap, finished", "evaluations")
    cells = [PRINTED]
    for (kind, setting), group in grouped(rows).items():
        cells.append(
            (
                *(setting, NAMES[kind]),
                _shares([row.agree for row in group]),
                _shares([row.distinct > 2 for row in group]),
                _means([row.gap for row in group]),
                _shares([row.finished_agree for row in group]),
                _means([row.finished_gap for row in group]),
                f"{sum(row.evaluations for row in group) / len(group):,.0f}",
            )
        )
    caption = f"20 dimensions, {len({row.seed for row in rows})} queries each; in brackets 95% intervals."
    return PageTable("Ten starts a query", heads, cells, n_text=2, caption=caption)


def _populations(rows: Sequence[Ends]) -> PageTable:
    sizes = dict.fromkeys((row.dimension, row.n_samples) for row in rows)
    cells = []
    for d, count in sizes:
        group = rows_where(rows, dimension=d, n_samples=count)
        rule = "yes" if count >= 4 * d + 16 else "no"
        agree = _shares([row.agree for row in group])
        gap = _means([row.gap for row in group])
        cells.append((str(d), str(count), rule, agree, gap, f"{sum(r.evaluations for r in group) / len(group):,.0f}"))
    heads = ("dimensions", "samples", "4 d + 16?", "agree", "gap", "evaluations")
    return PageTable("Samples an iteration, concave functions", heads, cells, n_text=0)


def _steps(rows: Sequence[Step]) -> PageTable:
    cells = []
    for kind in dict.fromkeys(row.landscape for row in rows):
        for radius in RADII:
            shares = [
                values_where(rows, "share", landscape=kind, radius=radius, decisions=count) for count in DECISIONS
            ]
            cells.append((NAMES[kind], f"{radius:g}", *map(_means, shares)))
    heads = ("function", "radius", *(f"after {count} decision{'s' * (count > 1)}" for count in DECISIONS))
    return PageTable("Trust region: share of what there is to gain, 10 dimensions", heads, cells)


def _share(hits: Sequence[bool]) -> str:
    return f"{100 * sum(hits) / len(hits):.0f}%"


def _shares(hits: Sequence[bool]) -> str:
    return written(share_interval(hits), 0, percent=True)


def _means(values: Sequence[float]) -> str:
    return told(values, 1, percent=True)
