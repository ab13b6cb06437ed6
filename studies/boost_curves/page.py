"""The page of the study of boost learning: how far learners of boosts and of templates get, and how soon."""

from collections.abc import Sequence

import numpy as np

from studies.boost_curves.baselines import (
    CONSTANT,
    NEUTRAL,
    OPTIMUM,
    PREMIUM,
    PREMIUM_RULE,
    RANDOM,
    per_cell,
    per_segment,
    single,
)
from studies.boost_curves.drawings import IN_PANELS, curves_figure, segments_figure
from studies.boost_curves.learners import CHANGED, DEFAULT, LEARNERS, PRINTED, PRINTED_LOG, SAVVY
from studies.boost_curves.records import OnlineResult, Score, SegmentBoosts
from studies.boost_curves.summary import (
    Rows,
    baselines_in,
    behaviours_in,
    by_seed,
    checkpoints_in,
    learners_in,
    ratios,
    reward,
    segments_in,
    share,
    shares,
)
from studies.boost_curves.weights import boosts_table
from zoosim.core.search_names import LIBRARY_NAMES
from zoosim.core.statistics import Interval, mean_interval
from zoosim.report.sections import Drawing, Page, PageTable

PUBLISHED = (
    ("Random", 0, 2.45),
    ("CEM (beta 1.5)", 500, 6.80),
    ("CEM (beta .5)", 1_500, 9.15),
    ("CEM (beta .1)", 3_000, 9.85),
    ("Static (Premium)", 0, 7.50),
)
"""Published average rewards in another shop after so many episodes, of an unknown number of seeds."""

PUBLISHED_CEILING = "85 to 90%"
PUBLISHED_GAIN = "more than 30%"

SETTLED = 1_000
"""From so many visits on no seed should be below the best template."""

SUFFIX = {DEFAULT: "", CHANGED: ", changed behaviour", SAVVY: ", with savvy shoppers"}
START = {
    DEFAULT: "After",
    CHANGED: "With changed behaviour and nothing retuned, after",
    SAVVY: "With savvy shoppers among the visitors, after",
}
TERMS = {
    OPTIMUM: "One vector of boosts for each segment, the best that a long search on the truth finds. A learner that "
    "knows more of a request than its segment can come a little above 100%.",
    CONSTANT: "One vector for everybody, found in the same way.",
    "vectors, rules": "The two kinds of templates. A vector is a point of the box of boosts, such as premium: price "
    "+.5, or budget: discount +.5, price -.3. A rule adds a_max to some products, such as those above the 75th "
    "percentile of prices. vectors and rules have 8 templates; vectors-50 and rules-50 have 42 mixtures of these "
    "besides, 70% of one and 30% of another.",
    per_cell("vectors"): "The best of these templates for each pair of segment and query type: no bandit over them "
    "that sees these two can beat it for long. Templates are chosen by the truth, on other visits.",
    f"{single('vectors')}, {NEUTRAL}": "One template for everybody; no boosts at all.",
    "scores": "The expected reward of what a policy recommends then, without exploring, on 200 held-out visits of each "
    "segment that no policy serves and nothing was chosen by; baselines are scored on the same visits, in the same 8 "
    "replicates.",
    "earned": "The expected reward of the actions at visits 31 to 300, exploring included, as a share of what the "
    "optimum earns at these.",
    f"{PRINTED}, {PRINTED_LOG}": "The loop as published: five networks of 64 and 64 units judge boosts, not the "
    "products that these bring to the top, and the search is for mean + beta std, with beta = 2 exp(-3 t / T), or "
    "sqrt(log t). No scale for each segment, no averaged weights, no draws from anywhere after the first 30 visits; "
    "members differ by first weights and order of batches. Their units are smooth and inputs standardised.",
    "coverage": "How often mean +- 1.96 std of the ensemble hold the expected reward of what it recommends in the end, "
    "on the held-out visits; 95% if std is honest about the mean.",
    "ts, linucb, greedy": "The bandits template-ts, template-linucb and template-greedy over the library in their "
    "name, on segment and query type. All explore as widely as was best for rules on other seeds of a shop of 10,000 "
    "products.",
    "changed behaviour": "Other weights of visitors' tastes, no interaction with price, other biases of examination; "
    "no learner is told, and nothing was retuned.",
    "savvy shoppers": "A fifth of the visitors, who mind prices a little and like discounts; their best boosts lie "
    "between those of two vectors.",
    "intervals": "95% over seeds, each with its own catalogue and visitors.",
}


def build_page(rows: Sequence[Score | OnlineResult | SegmentBoosts]) -> Page:
    """Return the page of the study."""
    scores = [row for row in rows if isinstance(row, Score)]
    online = [row for row in rows if isinstance(row, OnlineResult)]
    boosts = [row for row in rows if isinstance(row, SegmentBoosts)]
    tables: list[PageTable] = []
    drawings: list[Drawing] = []
    for behaviour in behaviours_in(scores):
        tables.append(_share_table(scores, online, behaviour))
        tables.append(_interval_table(scores, behaviour))
        tables.append(_segment_table(scores, behaviour))
        tables.append(boosts_table(boosts, behaviour, SUFFIX[behaviour]))
        tables.append(_below_template_table(scores, behaviour))
        tables.append(_cost_table(online, behaviour))
        if behaviour == DEFAULT:
            tables.append(_published_table(scores))
        drawings += _drawings(scores, behaviour)
    return Page(answer(scores), tables, drawings, TERMS, details=details(scores))


def answer(rows: Rows) -> str:
    """Return which learner to use, by its mean after the most visits."""
    behaviour = behaviours_in(rows)[0]
    last = checkpoints_in(rows, behaviour)[-1]
    means = {policy: np.mean(shares(rows, policy, behaviour, last)) for policy in learners_in(rows, behaviour)}
    best = max(means, key=lambda policy: means[policy])
    return f"Use {best}: after {last:,} visits it earns {100 * means[best]:.1f}% of the optimum, the most of all."


def details(rows: Rows) -> list[str]:
    """Say in a few sentences how far learners get, and how far templates and single vectors can."""
    return [f"{_reached(rows, behaviour)}. {_ceilings(rows, behaviour)}" for behaviour in behaviours_in(rows)]


def _reached(rows: Rows, behaviour: str) -> str:
    last = checkpoints_in(rows, behaviour)[-1]
    learners = learners_in(rows, behaviour)
    ends = ", ".join(f"{policy} {_mean_and_worst(shares(rows, policy, behaviour, last))}" for policy in learners)
    return f"{START[behaviour]} {last:,} visits, in % of the optimum, mean (worst seed): {ends}"


def _ceilings(rows: Rows, behaviour: str) -> str:
    """Say how far templates and one vector reach, beside the published figures."""
    kinds = (f"{_ceiling(rows, per_segment(name), behaviour)} as {name}" for name in LIBRARY_NAMES[::-1])
    templates = f"The best template of each segment reaches {', '.join(kinds)}"
    if behaviour != DEFAULT:
        return f"{templates}."
    last = checkpoints_in(rows, behaviour)[-1]
    gains = []
    for policy in learners_in(rows, behaviour):
        if not LEARNERS[policy].library:
            ratio = np.mean(ratios(rows, policy, PREMIUM, behaviour, last))
            gains.append(f"{policy} {100 * (ratio - 1):+.0f}%")
    return (
        f"{templates} (published for vectors: {PUBLISHED_CEILING}); "
        f"the best constant vector {_ceiling(rows, CONSTANT, behaviour)}. "
        f"Against the premium vector for everybody: {', '.join(gains)} (published: {PUBLISHED_GAIN})."
    )


def _ceiling(rows: Rows, baseline: str, behaviour: str) -> str:
    mean = mean_interval(shares(rows, baseline, behaviour))
    if mean.low is None or mean.high is None:
        return f"{100 * mean.mean:.1f}%"
    return f"{100 * mean.mean:.1f}% (95% interval {100 * mean.low:.1f} to {100 * mean.high:.1f})"


def _share_table(rows: Rows, online: Sequence[OnlineResult], behaviour: str) -> PageTable:
    checkpoints = checkpoints_in(rows, behaviour)
    heads = ("learner", *(f"{n:,}" for n in checkpoints), "worst seed", "earned, 31 to 300")
    cells = []
    for policy in learners_in(rows, behaviour):
        results = [row for row in online if (row.policy, row.behaviour) == (policy, behaviour)]
        earned = [row.earned for row in results if row.earned is not None]
        cells.append(
            (
                policy,
                *(f"{100 * np.mean(shares(rows, policy, behaviour, n)):.1f}" for n in checkpoints),
                f"{100 * min(shares(rows, policy, behaviour, checkpoints[-1])):.1f}",
                f"{100 * np.mean(earned):.1f}" if earned else "",
            )
        )
    caption = (
        f"% of the optimum after so many visits, mean over {_n_seeds(rows, behaviour)} seeds, and of the worst seed "
        "after the last."
    )
    return PageTable(f"Share of the optimum{SUFFIX[behaviour]}", heads, cells, caption=caption)


def _cost_table(online: Sequence[OnlineResult], behaviour: str) -> PageTable:
    """Return what a visit takes of the processor, and how well the spread of ensembles is calibrated."""
    cells = []
    for policy in LEARNERS:
        results = [row for row in online if (row.policy, row.behaviour) == (policy, behaviour)]
        if results:
            decision_ms = float(np.median([row.decision_ms for row in results]))
            learning_ms = float(np.median([row.learning_ms for row in results]))
            coverage = [row.coverage for row in results if row.coverage is not None]
            covered = _mean_and_worst(coverage) if coverage else ""
            cells.append((policy, f"{decision_ms:.2f}", f"{learning_ms:.2f}", covered))
    caption = (
        "Milliseconds of processor time per visit, the median seed; and how often mean +- 1.96 std of the ensemble "
        "hold the truth after the last visit, % (worst seed)."
    )
    heads = ("learner", "decide, ms", "learn, ms", "coverage")
    return PageTable(f"Time and coverage{SUFFIX[behaviour]}", heads, cells, caption=caption)


def _interval_table(rows: Rows, behaviour: str) -> PageTable:
    checkpoints = checkpoints_in(rows, behaviour)
    blank = [""] * (len(checkpoints) - 1)
    cells = [
        (policy, *(_percent_interval(share(rows, policy, behaviour, n)) for n in checkpoints))
        for policy in learners_in(rows, behaviour)
    ]
    for baseline in baselines_in(rows, behaviour):
        if baseline != OPTIMUM:
            cells.append((baseline, *blank, _percent_interval(share(rows, baseline, behaviour))))
    caption = "Means over seeds with 95% intervals; baselines, which learn nothing, in the last column."
    heads = ("learner or baseline", *(f"{n:,}" for n in checkpoints))
    return PageTable(f"% of the optimum, with intervals{SUFFIX[behaviour]}", heads, cells, caption=caption)


def _segment_table(rows: Rows, behaviour: str) -> PageTable:
    last = checkpoints_in(rows, behaviour)[-1]
    segments = segments_in(rows, behaviour)
    visits_of = dict.fromkeys(baselines_in(rows, behaviour), 0) | dict.fromkeys(learners_in(rows, behaviour), last)
    cells = []
    for policy, visits in visits_of.items():
        by_segment = []
        for segment in segments:
            mean = share(rows, policy, behaviour, visits, segment)
            by_segment.append("" if mean is None else f"{100 * mean.mean:.1f}")
        if policy == OPTIMUM:
            by_segment = [f"EUR {reward(rows, policy, behaviour, 0, segment).mean:.2f}" for segment in segments]
        mean_reward = f"{reward(rows, policy, behaviour, visits).mean:.2f}"
        cells.append((policy, mean_reward, _mean_and_worst(shares(rows, policy, behaviour, visits)), *by_segment))
    heads = ("baseline or learner", "EUR per visit", "% of optimum (worst)", *segments)
    caption = f"Learners after {last:,} visits; segments in % of the segment's optimum, which the first row has in EUR."
    return PageTable(f"By segment{SUFFIX[behaviour]}", heads, cells, caption=caption)


def _below_template_table(rows: Rows, behaviour: str) -> PageTable:
    checkpoints = checkpoints_in(rows, behaviour)
    late = [n for n in checkpoints if n >= SETTLED] or checkpoints[-1:]
    cells = []
    for policy in learners_in(rows, behaviour):
        by_visits = [ratios(rows, policy, single("vectors"), behaviour, n) for n in late]
        counts = [f"{sum(x < 1.0 for x in values)} of {len(values)} ({min(values):.2f})" for values in by_visits]
        cells.append((policy, *counts))
    caption = (
        "Seeds at which a learner's recommendations earn less than the best single vector of the eight, and in "
        "brackets the lowest seed, in units of what that one earns there."
    )
    heads = ("learner", *(f"{n:,}" for n in late))
    return PageTable(f"Below the best template{SUFFIX[behaviour]}", heads, cells, caption=caption)


def _published_table(rows: Rows) -> PageTable:
    _, _, published_premium = PUBLISHED[-1]
    cells = [
        (f"published: {name}", f"{visits:,}" if visits else "", f"{value:.2f}", f"{value / published_premium:.2f}")
        for name, visits, value in PUBLISHED
    ]
    late = [n for n in checkpoints_in(rows, DEFAULT) if n >= 300]
    measured = [(RANDOM, 0), (PREMIUM, 0), (PREMIUM_RULE, 0), (per_segment("vectors"), 0), (per_segment("rules"), 0)]
    measured += [(policy, n) for policy in learners_in(rows, DEFAULT) for n in late]
    for policy, visits in measured:
        ratio = mean_interval(ratios(rows, policy, PREMIUM, DEFAULT, visits))
        mean_reward = f"{reward(rows, policy, DEFAULT, visits).mean:.2f}"
        cells.append((policy, f"{visits:,}" if visits else "", mean_reward, _plain_interval(ratio)))
    heads = ("policy", "visits", "EUR per visit", "in units of Premium")
    caption = "Published rewards are of another shop: compare the last column alone; 95% intervals in brackets."
    return PageTable("Beside the published figures", heads, cells, caption=caption)


def _drawings(rows: Rows, behaviour: str) -> list[Drawing]:
    n_seeds = _n_seeds(rows, behaviour)
    seeds = f"mean over {n_seeds} seeds" if n_seeds > 1 else "one seed"
    bands = " with 95% intervals as bands" if n_seeds > 1 else ""
    optima = {segment: reward(rows, OPTIMUM, behaviour, 0, segment).mean for segment in segments_in(rows, behaviour)}
    least = min(optima, key=lambda segment: optima[segment])
    drawn = " and the ".join(name for name in IN_PANELS if name in baselines_in(rows, behaviour))
    return [
        Drawing(
            f"Recommendations by visits{SUFFIX[behaviour]}",
            f"Share of what the best vector of each segment earns, {seeds}{bands}. Dashed: Thompson sampling over each "
            "library of templates. Dotted grey: the best vectors and templates, chosen by the truth.",
            curves_figure(rows, behaviour),
        ),
        Drawing(
            f"Recommendations by segment{SUFFIX[behaviour]}",
            f"Share of the segment's own optimum, which is written above each panel, {seeds}. Dashed: Thompson "
            f"sampling over templates. Grey: the {drawn}. The optimum is least for {least}, EUR {optima[least]:.2f} "
            "per visit.",
            segments_figure(rows, behaviour),
        ),
    ]


def _n_seeds(rows: Rows, behaviour: str) -> int:
    return len(by_seed(rows, OPTIMUM, behaviour))


def _mean_and_worst(values: Sequence[float]) -> str:
    return f"{100 * float(np.mean(values)):.1f} ({100 * min(values):.1f})"


def _percent_interval(interval: Interval | None) -> str:
    """Write a mean in percent with its interval, as 98.1 (97.9-98.3)."""
    if interval is None:
        return ""
    if interval.low is None or interval.high is None:
        return f"{100 * interval.mean:.1f}"
    return f"{100 * interval.mean:.1f} ({100 * interval.low:.1f}\u2013{100 * interval.high:.1f})"


def _plain_interval(interval: Interval) -> str:
    """Write a mean with its interval, as 1.31 (1.28-1.34)."""
    if interval.low is None:
        return f"{interval.mean:.2f}"
    return f"{interval.mean:.2f} ({interval.low:.2f}\u2013{interval.high:.2f})"
