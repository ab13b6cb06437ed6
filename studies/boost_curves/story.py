"""What the courses tell: how far do learners of boosts and of templates get, and how soon?"""

from collections.abc import Sequence

import numpy as np

from studies.boost_curves.drawings import curves_figure, segments_figure
from studies.boost_curves.learners import CHANGED, DEFAULT, LEARNERS, PRINTED
from studies.boost_curves.lines import CELL, CONSTANT, NEUTRAL, OPTIMUM, PREMIUM, RANDOM, SINGLE
from studies.boost_curves.records import Reached, Way
from studies.boost_curves.summary import (
    Rows,
    by_seed,
    checkpoints_in,
    learners_in,
    lines_in,
    reward,
    segments_in,
    share,
    shares,
    times,
    worlds_in,
)
from zoosim.core.statistics import Interval, mean_interval
from zoosim.report.sections import Drawing, Story, Table

CHAPTER = (
    ("Random", 0, 2.45),
    ("CEM (beta 1.5)", 500, 6.80),
    ("CEM (beta .5)", 1_500, 9.15),
    ("CEM (beta .1)", 3_000, 9.85),
    ("Static (Premium)", 0, 7.50),
)
"""Average rewards as printed in 7.4, after so many episodes, of an unknown number of seeds."""

PRINTED_CEILING, PRINTED_GAIN = "85 to 90%", "more than 30%"
SETTLED = 1_000
"""From so many visits on no seed should be below the best template."""

WHERE = {DEFAULT: "", CHANGED: ", laws changed"}
TERMS = {
    OPTIMUM: "One vector of boosts for each segment, the best that a long search on the truth finds. What a learner "
    "knows of a request besides its segment can bring it a little above 100%.",
    CONSTANT: "One vector for everybody, found in the same way.",
    CELL: "The best of the eight templates for each pair of segment and query type: what no bandit over templates that "
    "sees these two can beat for long.",
    f"{SINGLE}, {NEUTRAL}": "One template for everybody; no boosts at all. Templates are chosen by visits apart.",
    "scores": "What a policy thinks best then, without exploring, in expectation, on 200 visits of each segment that "
    "no policy plays and nothing was chosen by; lines are scored on the same visits, in the same 8 moods.",
    "earned": "What was chosen at visits 31 to 300, exploring included, in expectation, as a share of what the optimum "
    "earns at these.",
    PRINTED: "The same loop with the chapter's critic, which judges boosts and not what they bring to the top, and its "
    "objective, mean + beta std, beta from 1.5 to .1; one hidden layer of 64. The rest is as in q-ensemble: rewards "
    "are brought to one scale, and decisions come from averaged weights.",
    "template-ts, template-linucb": "Bandits over the eight templates on segment and query type, exploring as widely "
    "as was best on other seeds of a shop of 10,000 products.",
    "laws changed": "Other weights of what visitors like, no interaction with price, other biases of examination; no "
    "learner is told, and nothing was retuned.",
    "intervals": "95% over seeds, each with its own catalogue and visitors.",
}


def tell(rows: Sequence[Reached | Way]) -> Story:
    """Tell what was found."""
    reached, ways = [r for r in rows if isinstance(r, Reached)], [r for r in rows if isinstance(r, Way)]
    tables, drawings = list[Table](), list[Drawing]()
    for laws in worlds_in(reached):
        tables += [_learned(reached, ways, laws), _intervals(reached, laws), _ends(reached, laws)]
        tables += [_against_best(reached, laws), *([_chapter(reached)] if laws == DEFAULT else [])]
        drawings += _drawings(reached, laws)
    return Story(verdict(reached), tables, drawings, TERMS)


def verdict(rows: Rows) -> str:
    """Say in a few sentences how far learners get, and what can be reached."""
    return " ".join(f"{_reached(rows, laws)}. {_ceilings(rows, laws)}" for laws in worlds_in(rows))


def _reached(rows: Rows, laws: str) -> str:
    last = checkpoints_in(rows, laws)[-1]
    ends = ", ".join(f"{who} {_worst(shares(rows, who, laws, last))}" for who in learners_in(rows, laws))
    start = "After" if laws == DEFAULT else "With the laws changed and nothing retuned, after"
    return f"{start} {last:,} visits, in % of the optimum, mean (worst seed): {ends}"


def _ceilings(rows: Rows, laws: str) -> str:
    """Say how far templates and one vector reach, beside what is printed."""
    told = f"Templates, the best for each cell, reach {_ceiling(rows, CELL, laws)}"
    if laws != DEFAULT:
        return f"{told}."
    last = checkpoints_in(rows, laws)[-1]
    gains = {who: times(rows, who, PREMIUM, laws, last) for who in learners_in(rows, laws)}
    words = [f"{who} {100 * (np.mean(found) - 1):+.0f}%" for who, found in gains.items() if not LEARNERS[who].discrete]
    return (
        f"{told} (printed: {PRINTED_CEILING}), the best constant vector {_ceiling(rows, CONSTANT, laws)}. "
        f"Against the premium template for everybody: {', '.join(words)} (printed: {PRINTED_GAIN})."
    )


def _ceiling(rows: Rows, line: str, laws: str) -> str:
    found = mean_interval(shares(rows, line, laws))
    if found.low is None or found.high is None:
        return _percent(found.mean)
    return f"{_percent(found.mean)} (95% interval {100 * found.low:.1f} to {100 * found.high:.1f})"


def _learned(rows: Rows, ways: Sequence[Way], laws: str) -> Table:
    checkpoints = checkpoints_in(rows, laws)
    heads = ("learner", *(f"{n:,}" for n in checkpoints), "earned, 31 to 300", "decide + learn, ms")
    told = []
    for who in learners_in(rows, laws):
        found = [shares(rows, who, laws, n) for n in checkpoints]
        own = [way for way in ways if (way.who, way.laws) == (who, laws)]
        early = [way.earned for way in own if way.earned is not None]
        ms = [float(np.median([getattr(way, name) for way in own])) for name in ("decision_ms", "learning_ms")]
        told.append((who, *map(_worst, found), _worst(early) if early else "", f"{ms[0]:.2f} + {ms[1]:.2f}"))
    caption = (
        f"% of the optimum after so many visits, mean over {_seeds(rows, laws)} seeds (worst seed); processor time a "
        "visit, the median seed."
    )
    return Table(f"Share of the optimum{WHERE[laws]}", heads, told, caption=caption)


def _intervals(rows: Rows, laws: str) -> Table:
    checkpoints = checkpoints_in(rows, laws)
    told = [(who, *(_told(share(rows, who, laws, n)) for n in checkpoints)) for who in learners_in(rows, laws)]
    lines = [who for who in lines_in(rows, laws) if who != OPTIMUM]
    told += [(who, *[""] * (len(checkpoints) - 1), _told(share(rows, who, laws))) for who in lines]
    caption = "Means over seeds with 95% intervals; lines, which learn nothing, in the last column."
    heads = ("learner or line", *(f"{n:,}" for n in checkpoints))
    return Table(f"% of the optimum, with intervals{WHERE[laws]}", heads, told, caption=caption)


def _ends(rows: Rows, laws: str) -> Table:
    last, segments = checkpoints_in(rows, laws)[-1], segments_in(rows, laws)
    told = []
    for who in (*lines_in(rows, laws), *learners_in(rows, laws)):
        visits = 0 if who in lines_in(rows, laws) else last
        own = [share(rows, who, laws, visits, name) for name in segments]
        parts = ["" if part is None else f"{100 * part.mean:.1f}" for part in own]
        if who == OPTIMUM:
            parts = [f"EUR {reward(rows, who, laws, 0, name).mean:.2f}" for name in segments]
        all_of = _worst(shares(rows, who, laws, visits))
        told.append((who, f"{reward(rows, who, laws, visits).mean:.2f}", all_of, *parts))
    heads = ("line or learner", "EUR a visit", "% of optimum (worst)", *segments)
    caption = f"Learners after {last:,} visits; segments in % of the segment's optimum, which the first row has in EUR."
    return Table(f"By segment{WHERE[laws]}", heads, told, caption=caption)


def _against_best(rows: Rows, laws: str) -> Table:
    checkpoints = checkpoints_in(rows, laws)
    late = [n for n in checkpoints if n >= SETTLED] or checkpoints[-1:]
    told = []
    for who in learners_in(rows, laws):
        found = [times(rows, who, SINGLE, laws, n) for n in late]
        told.append((who, *(f"{sum(x < 1.0 for x in part)} of {len(part)} ({min(part):.2f})" for part in found)))
    caption = "Seeds at which a learner's recommendations earn less than the best single template's, and in brackets "
    caption += "the lowest seed, in units of what that template earns there."
    return Table(f"Below the best template{WHERE[laws]}", ("learner", *(f"{n:,}" for n in late)), told, caption=caption)


def _chapter(rows: Rows) -> Table:
    base = CHAPTER[-1][2]
    told = [(f"printed: {who}", f"{n:,}" if n else "", f"{x:.2f}", f"{x / base:.2f}") for who, n, x in CHAPTER]
    wanted = [(RANDOM, 0), (PREMIUM, 0), (CELL, 0)]
    wanted += [(who, n) for who in learners_in(rows, DEFAULT) for n in checkpoints_in(rows, DEFAULT) if n >= 300]
    for who, visits in wanted:
        gain = mean_interval(times(rows, who, PREMIUM, DEFAULT, visits))
        worth = f"{reward(rows, who, DEFAULT, visits).mean:.2f}"
        told.append((who, f"{visits:,}" if visits else "", worth, _plain(gain)))
    heads = ("policy", "visits", "EUR a visit", "in units of Premium")
    caption = (
        "Printed rewards, of another shop, are to be compared in the last column alone; 95% intervals in brackets."
    )
    return Table("Beside the table of 7.4", heads, told, caption=caption)


def _drawings(rows: Rows, laws: str) -> list[Drawing]:
    many = _seeds(rows, laws) > 1
    seeds = f"mean over {_seeds(rows, laws)} seeds" if many else "one seed"
    bands = " with 95% intervals as bands" if many else ""
    worth = {name: reward(rows, OPTIMUM, laws, 0, name).mean for name in segments_in(rows, laws)}
    least = min(worth, key=lambda name: worth[name])
    drawn = " and the ".join(name for name in (CONSTANT, CELL) if name in lines_in(rows, laws))
    return [
        Drawing(
            f"What is recommended, by visits{WHERE[laws]}",
            f"Share of what the best vector of each segment earns, {seeds}{bands}. Dashed: bandits over templates. "
            "Dotted grey: what can be reached by vectors or by templates, chosen with the truth in hand.",
            curves_figure(rows, laws),
        ),
        Drawing(
            f"The same by segment{WHERE[laws]}",
            f"Share of the segment's own optimum, which is written above each panel, {seeds}. Dashed: bandits over "
            f"templates. Grey: the {drawn}. Least hangs on {least}, EUR {worth[least]:.2f} a visit at best.",
            segments_figure(rows, laws),
        ),
    ]


def _seeds(rows: Rows, laws: str) -> int:
    return len(by_seed(rows, OPTIMUM, laws))


def _worst(values: Sequence[float]) -> str:
    return f"{100 * float(np.mean(values)):.1f} ({100 * min(values):.1f})"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _told(interval: Interval | None) -> str:
    """Write a mean in percent with its interval, as 98.1 (97.9-98.3)."""
    if interval is None:
        return ""
    if interval.low is None or interval.high is None:
        return f"{100 * interval.mean:.1f}"
    return f"{100 * interval.mean:.1f} ({100 * interval.low:.1f}\u2013{100 * interval.high:.1f})"


def _plain(interval: Interval) -> str:
    ends = "" if interval.low is None else f" ({interval.low:.2f}\u2013{interval.high:.2f})"
    return f"{interval.mean:.2f}{ends}"
