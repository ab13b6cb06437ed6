"""Answer from a log of visitors who come back whether it pays to look ahead: how much the next click alone leaves.

A model of visitors is estimated: how likely a click is by segment, by the kind of product and by what was clicked last
(logistic regression with normal priors); that a visit goes on with the same probability after each decision; and how
likely a visitor returns, by the clicks of the visit and by goodwill. Nobody sees goodwill. It is taken for a kept sum,
one up for a click on a kind that satisfies and one down for one that disappoints, between two ends; which kinds
disappoint, and where the ends are, is chosen by who returned. In models that are drawn from the posterior (Laplace's
normal around the mode; sums by their likelihood), the optimum and the policy of the next click are solved by value
iteration, so that intervals hold what the log leaves open.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from zoosim.core.jit import jit
from zoosim.core.rng import stream
from zoosim.core.tables import Column, Table
from zoosim.core.types import BoolArray, FloatArray, IntArray, Progress
from zoosim.fitting.visits import Kinds, Visits
from zoosim.linear.logistic import Logistic, draw_weights, new_logistic, newton_step
from zoosim.models.visitor_model import iterate_values
from zoosim.worlds.facts import ENOUGH

DRAWS = 100
"""Models that are drawn from the posterior."""

MOST_CLICKS = 10
"""Clicks of a visit that count for a return, at most."""

ENDS = (1, 2, 3, 4, 6)
"""Ends of the sum that are tried: so many above the first value, and as many below."""

LEAST_RETURNS = 50
"""Visits after which a visitor came back, and as many after which none did: fewer tell nothing of returns."""

LEAST_VARIED = 0.01
"""Share of the decisions that do not show what is shown most to the same visitors after the same click."""

MOST_RETURNING = 0.99
"""The most likely that a visitor returns: beyond, a visitor would bring more than any log can tell."""

ROUNDS = 8
"""Steps of Newton's method."""

UPDATES = 15
"""Rounds in which prior deviations are chosen, beginning at 1."""

MOST_PAIRED = 12
"""The most features of products, and the most kinds, each pair of which may have an effect of its own."""

NARROW_TO_WIDE = 0.03, 3.0
"""Least and largest prior deviation of effects on clicks, in logits."""

RETURN_PRIOR = np.array([3.0, 0.5, 0.5])
"""Of the level of returns, of a click of the visit, and of a step of the kept sum."""

UNLIKELY = 1e-4
"""Ways to keep the sum that are so much less likely than the likeliest are left out."""


class KeptSum(NamedTuple):
    """A way to keep a sum of a visitor's clicks: one down for a kind that `disappoints (K,)`, one up for another.

    It stays between `-end` and `end`. `returns` is the posterior of the logit of a return: 1, the clicks of the visit,
    the sum. `fit` is the logarithm of their likelihood, less what each kind costs that goes by itself.
    """

    disappoints: BoolArray
    end: int
    returns: Logistic
    fit: float


class Share(NamedTuple):
    """A policy's share of what the optimum brings: the median of the models that are drawn, and their middle 95%."""

    value: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """The share in percent, with its interval in brackets."""
        return f"{100 * self.value:.0f}% ({100 * self.low:.0f} to {100 * self.high:.0f})"


def share_of(drawn: FloatArray) -> Share:
    """Return the share that models say which are drawn from the posterior `(draws,)`."""
    # Between neighbours of n draws lies 1 / (n + 1) of the posterior (Weibull 1939): numpy's own ends of 40 draws hold
    # 90% of it.
    low, value, high = np.quantile(drawn, (0.025, 0.5, 0.975), method="weibull").tolist()
    return Share(value, low, high)


@dataclass(frozen=True)
class LookAhead:
    """The answer of a log to whether it pays to look ahead.

    Where it cannot tell, `reason` says why, else it is empty and `shares` holds policies' shares of what the optimum
    brings, by name, and `optimum` the clicks of a new visitor under it. `disappointing` are kinds a click on which
    makes returns rarer, in the likeliest model; `by_satisfaction` what a step of the kept sum adds to the logit of a
    return, `by_click` a click of the visit. `facts` are counts of the log, `skipped` its bad rows that were left out.
    """

    source: str
    facts: dict[str, int]
    reason: str = ""
    shares: dict[str, Share] | None = None
    optimum: float = 0.0
    kinds: tuple[str, ...] = ()
    disappointing: tuple[str, ...] = ()
    end: int = 0
    goes_on: float = 0.0
    by_satisfaction: float = 0.0
    by_click: float = 0.0
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def advice(self) -> str:
        """The simplest way that the log shows to be enough, in a word or two; "cannot tell" where it shows none."""
        if self.shares is None:
            return "cannot tell"
        myopic = self.shares[MYOPIC]
        if myopic.low >= ENOUGH:
            return "a bandit"
        if myopic.high >= ENOUGH:
            return "cannot tell"
        return "a rule" if self.shares[RULE].low >= ENOUGH else "planning"

    @property
    def answer(self) -> str:
        """The answer in a sentence."""
        if self.shares is None:
            return f"This log cannot tell whether planning pays: {self.reason}."
        has = f"looking at the next click alone has {self.shares[MYOPIC].text} of what planning would bring"
        if self.advice == "a bandit":
            return f"A bandit is enough here: {has}."
        if self.advice == "cannot tell":
            return f"This log cannot tell whether planning pays: {has}; a longer log narrows that down."
        if self.advice == "a rule":
            return f"One rule is enough here, to leave out what disappoints: {self.shares[RULE].text}; {has}."
        return f"Planning pays here: {has}."

    @property
    def summary(self) -> dict[str, Any]:
        """The same as numbers and words for a file."""
        shares = {name: share._asdict() for name, share in (self.shares or {}).items()}
        figures = {"optimum": self.optimum, "end": self.end, "goes_on": self.goes_on}
        effects = {"by_satisfaction": self.by_satisfaction, "by_click": self.by_click}
        words = {"log": self.source, "advice": self.advice, "answer": self.answer, "reason": self.reason}
        kinds = {"kinds": list(self.kinds), "disappointing": list(self.disappointing)}
        return {**words, **self.facts, "skipped": dict(self.skipped), "shares": shares, **figures, **effects, **kinds}

    def table(self) -> Table:
        """Tabulate the policies."""
        shares = self.shares or {}
        clicks = [f"{self.optimum * share.value:.2f}" for share in shares.values()]
        columns = (
            Column("policy", list(shares), is_text=True, is_essential=True),
            Column("clicks of\na visitor", clicks, is_essential=True),
            Column("% of the\noptimum", [f"{100 * share.value:.1f}" for share in shares.values()], is_essential=True),
            Column(
                "95%\ninterval",
                [f"{100 * share.low:.1f} to {100 * share.high:.1f}" for share in shares.values()],
                is_text=True,
                is_essential=True,
            ),
        )
        return Table("What policies would bring, by a model of the log's visitors", columns)


MYOPIC, RULE, OPTIMUM = "next click", "next click, without what disappoints", "optimum"


def look_ahead(
    visits: Visits,
    kinds: Kinds,
    *,
    source: str,
    seed: int = 0,
    draws: int = DRAWS,
    progress: Progress = lambda line: None,
) -> LookAhead:
    """Say whether it pays to look ahead in the shop that wrote a log.

    Args:
        visits: The log's decisions.
        kinds: Its kinds of products.
        source: What messages call it.
        seed: Of the draws from the posterior.
        draws: How many models are drawn.
        progress: Called with lines about how far it is.
    """
    facts = _facts(visits)
    reason = _too_poor(visits, facts, len(kinds.names))
    if reason:
        return LookAhead(source, facts, reason)
    rng = stream(seed, "look ahead")
    progress(f"fitting clicks and returns of {facts['visitors']:,} visitors")
    clicks = _ClickModel(visits, kinds)
    sums = _kept_sums(visits, kinds)
    stays = (~visits.ends & ~visits.is_cut).sum()
    chances = np.exp(np.array([each.fit for each in sums]) - sums[0].fit)
    segments = np.bincount(visits.segment[np.append(True, np.diff(visits.visitor) > 0)]).astype(float)

    def model(kept: KeptSum, of_clicks: FloatArray, returns: FloatArray, goes_on: float) -> "_Shop":
        return _Shop(clicks.chances(of_clicks), kept, returns, goes_on, segments / segments.sum())

    best = sums[0]
    goes_on = (stays + 1.0) / (stays + visits.ends.sum() + 2.0)
    likeliest = model(best, clicks.posterior.mean, best.returns.mean, float(goes_on))
    worth = likeliest.worth()
    drawn = []
    for number in range(draws):
        progress(f"solving model {number + 1} of {draws} that the log allows")
        kept = sums[rng.choice(len(sums), p=chances / chances.sum())]
        returns = draw_weights(kept.returns, rng.standard_normal(len(RETURN_PRIOR)), 1.0)
        of_clicks = draw_weights(clicks.posterior, rng.standard_normal(len(clicks.posterior.mean)), 1.0)
        each = model(kept, of_clicks, returns, rng.beta(stays + 1.0, visits.ends.sum() + 1.0)).worth()
        drawn.append([each[name] / each[OPTIMUM] for name in worth])
    shares = {name: share_of(values) for name, values in zip(worth, np.transpose(drawn), strict=True)}
    by_satisfaction = float(best.returns.mean[2])
    # The sum is kept in either direction: one that makes returns rarer is that of the other kinds.
    flags = best.disappoints if by_satisfaction >= 0.0 else ~best.disappoints
    return LookAhead(
        source,
        facts,
        "",
        shares,
        worth[OPTIMUM],
        kinds.names,
        tuple(name for name, flag in zip(kinds.names, flags, strict=True) if flag),
        best.end,
        float(goes_on),
        abs(by_satisfaction),
        float(best.returns.mean[1]),
    )


def _facts(visits: Visits) -> dict[str, int]:
    known = visits.ends & ~visits.is_open
    return {
        "visitors": int(visits.visitor[-1]) + 1,
        "decisions": len(visits.kind),
        "clicks": int(visits.clicked.sum()),
        "visits_ended": int(known.sum()),
        "returned": int((visits.returns & known).sum()),
        "left": int((known & ~visits.returns).sum()),
        "unknown": int((visits.is_open | visits.is_cut).sum()),
    }


def _too_poor(visits: Visits, facts: dict[str, int], n_kinds: int) -> str:
    """Say why a log tells nothing of returns or choices; empty where it does."""
    if not facts["visits_ended"]:
        return "of no visit it is known whether the visitor came back; log for longer, or lower --gone-after"
    if facts["returned"] < LEAST_RETURNS:
        return (
            f"after {facts['returned']:,} of {facts['visits_ended']:,} visits the visitor came back, expected at least "
            f"{LEAST_RETURNS}; log visitors by an id that stays, for longer"
        )
    if facts["left"] < LEAST_RETURNS:
        return (
            f"{facts['left']:,} visitors are known to have gone for good, expected at least {LEAST_RETURNS}; of "
            f"{facts['unknown']:,} nobody knows whether they return; log for longer"
        )
    cells = np.zeros((visits.segment.max() + 1, n_kinds + 1, n_kinds))
    np.add.at(cells, (visits.segment, visits.last, visits.kind), 1.0)
    varied = 1.0 - cells.max(axis=2).sum() / cells.sum()
    if varied < LEAST_VARIED:
        return (
            f"visitors alike were shown the same in all but {varied:.1%} of the decisions, expected {LEAST_VARIED:.0%} "
            "or more; show something at random now and then"
        )
    if not 0 < facts["clicks"] < facts["decisions"]:
        return f"{facts['clicks']:,} of {facts['decisions']:,} decisions brought a click, expected some, and not all"
    return ""


def _posterior(
    deviations: FloatArray, rows: FloatArray, yes: FloatArray, no: FloatArray, blocks: IntArray | None = None
) -> Logistic:
    """Return the posterior of a logistic regression on cells `rows (n, d)` with `yes (n,)` and `no (n,)` outcomes.

    Effects of one of the `blocks (d,)` share a prior deviation that the data choose, from `deviations (d,)` on
    (empirical Bayes by expectation maximisation; Dempster, Laird & Rubin 1977); of none, they keep theirs.
    """
    both = np.vstack([rows, rows])
    happened = np.repeat([1.0, 0.0], len(rows))
    counts = np.concatenate([yes, no])
    mean = np.zeros(len(deviations))
    updates = 1 if blocks is None else UPDATES
    for update in range(updates):
        model = new_logistic(np.zeros(len(deviations)), deviations)
        model.mean[:] = mean
        for _ in range(ROUNDS if update in (0, updates - 1) else 2):
            newton_step(model, both, happened, counts)
        mean = model.mean
        if blocks is not None:
            inverse = np.linalg.inv(np.tril(model.root))
            squares = mean**2 + (inverse**2).sum(axis=0)
            by_block = np.bincount(blocks, squares) / np.bincount(blocks)
            deviations = np.clip(np.sqrt(by_block), *NARROW_TO_WIDE)[blocks]
    return model


class _ClickModel:
    """Clicks by segment, kind and the kind clicked last: effects of each, of pairs of features, and of pairs."""

    def __init__(self, visits: Visits, kinds: Kinds) -> None:
        n_kinds = len(kinds.names)
        n_segments = int(visits.segment.max()) + 1
        self._shape = (n_segments, n_kinds + 1, n_kinds)
        segment, last, kind = np.indices(self._shape).reshape(3, -1)
        scale = np.abs(kinds.features).max(axis=0, initial=1.0)
        of_kind = kinds.features / scale
        if of_kind.shape[1] > MOST_PAIRED:
            of_kind = np.zeros((n_kinds, 0))
        of_last = np.vstack([of_kind, np.zeros(of_kind.shape[1])])
        pairs = (of_last[last][:, :, np.newaxis] * of_kind[kind][:, np.newaxis]).reshape(len(kind), -1)
        of_segment = np.eye(n_segments)[segment]
        of_pair = np.eye((n_kinds + 1) * n_kinds if n_kinds <= MOST_PAIRED else 1)
        all_parts: tuple[FloatArray, ...] = (
            np.ones((len(kind), 1)),
            of_kind[kind],
            np.eye(n_kinds)[kind],
            of_segment,
            (of_segment[:, :, np.newaxis] * of_kind[kind][:, np.newaxis]).reshape(len(kind), -1),
            np.eye(n_segments * n_kinds)[segment * n_kinds + kind],
            np.eye(n_kinds + 1)[last],
            (last == kind)[:, np.newaxis].astype(float),
            pairs,
            of_pair[(last * n_kinds + kind) % len(of_pair)],
        )
        parts = [part for part in all_parts if part.shape[1]]
        self._rows = np.hstack(parts)
        blocks = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
        cells = np.ravel_multi_index((visits.segment, visits.last, visits.kind), self._shape)
        shown = np.bincount(cells, minlength=len(kind)).astype(float)
        clicked = np.bincount(cells, visits.clicked, minlength=len(kind)).astype(float)
        seen = shown > 0.0
        first = np.ones(len(blocks))
        self.posterior = _posterior(first, self._rows[seen], clicked[seen], (shown - clicked)[seen], blocks)

    def chances(self, weights: FloatArray) -> FloatArray:
        """Return how likely clicks are by some weights, `(segments, K + 1, K)`."""
        return np.asarray(special.expit(self._rows @ weights)).reshape(self._shape)


def _kept_sums(visits: Visits, kinds: Kinds) -> list[KeptSum]:
    """Return ways to keep a sum of clicks that tell who returned, the likeliest first.

    First tried are kinds that have a feature against those that have not, and each kind against all others; from the
    likeliest, kinds change sides one by one, as long as that makes it likelier. A kind that goes by itself costs what a
    parameter does (BIC, Schwarz 1978), since among so many some tell a little by chance.
    """
    n_kinds = len(kinds.names)
    known = visits.ends & ~visits.is_open
    counts = np.minimum(visits.clicks[known], MOST_CLICKS)
    returned = visits.returns[known]
    cost = float(np.log(len(returned))) / 2.0

    def keep(disappoints: BoolArray, end: int, alone: int) -> KeptSum:
        sums = _sums(visits.visitor, visits.kind, visits.clicked, disappoints, end)[known]
        kept = _fit_returns(sums, counts, returned, disappoints, end)
        return kept._replace(fit=kept.fit - cost * alone)

    binary = np.isin(kinds.features, (0.0, 1.0)).all(axis=0)
    by_feature = {tuple(side) for side in (kinds.features.T[binary] == 1.0).tolist()}
    by_itself = {tuple(side) for side in np.eye(n_kinds, dtype=bool).tolist()} - by_feature
    tried = [
        keep(np.array(side), end, alone)
        for alone, sides in enumerate((by_feature, by_itself))
        for side in sorted(sides)
        for end in ENDS
    ]
    best = max(tried, key=lambda each: each.fit)
    first = 1 + (tuple(best.disappoints.tolist()) in by_itself)
    for alone in range(first, n_kinds):
        flips = [best.disappoints ^ (np.arange(n_kinds) == kind) for kind in range(n_kinds)]
        better = max((keep(side, best.end, alone) for side in flips), key=lambda each: each.fit)
        if better.fit <= best.fit:
            break
        tried += [keep(better.disappoints, end, alone) for end in ENDS]
        best = max(tried, key=lambda each: each.fit)
    likely = [each for each in tried if each.fit > best.fit + np.log(UNLIKELY)]
    return sorted(likely, key=lambda each: -each.fit)


def _fit_returns(sums: IntArray, counts: IntArray, returned: BoolArray, disappoints: BoolArray, end: int) -> KeptSum:
    shape = (2 * end + 1, MOST_CLICKS + 1)
    cells = np.ravel_multi_index((sums + end, counts), shape)
    seen = np.bincount(cells, minlength=shape[0] * shape[1]).astype(float)
    yes = np.bincount(cells, returned, minlength=len(seen)).astype(float)
    level, clicks = np.indices(shape).reshape(2, -1)
    rows = np.column_stack([np.ones(len(seen)), clicks, level - end])
    posterior = _posterior(RETURN_PRIOR, rows[seen > 0.0], yes[seen > 0.0], (seen - yes)[seen > 0.0])
    logits = rows @ posterior.mean
    fit = float((yes * logits - seen * np.logaddexp(0.0, logits)).sum())
    return KeptSum(disappoints, end, posterior, fit)


@jit
def _sums(visitor: IntArray, kind: IntArray, clicked: BoolArray, disappoints: BoolArray, end: int) -> IntArray:
    """Return each visitor's kept sum after each decision `(n,)`."""
    sums = np.empty(visitor.shape[0], np.int64)
    kept = 0
    for row in range(visitor.shape[0]):
        if row == 0 or visitor[row] != visitor[row - 1]:
            kept = 0
        if clicked[row]:
            kept += -1 if disappoints[kind[row]] else 1
            kept = min(max(kept, -end), end)
        sums[row] = kept
    return sums


class _Shop:
    """A shop by a model of its visitors.

    States of a segment are numbered as an array stands in memory: by kind clicked last, kept sum, clicks of the visit.
    """

    def __init__(
        self, clicks: FloatArray, kept: KeptSum, returns: FloatArray, goes_on: float, shares: FloatArray
    ) -> None:
        n_kinds = clicks.shape[2]
        shape = (n_kinds + 1, 2 * kept.end + 1, MOST_CLICKS + 1)
        last, level, count = np.indices(shape).reshape(3, -1)
        step = np.where(kept.disappoints, -1, 1)
        kinds = np.broadcast_to(np.arange(n_kinds), (len(last), n_kinds))
        levels = np.clip(level[:, np.newaxis] + step, 0, 2 * kept.end)
        counts = np.broadcast_to(np.minimum(count + 1, MOST_CLICKS)[:, np.newaxis], kinds.shape)
        after_click = np.ravel_multi_index((kinds, levels, counts), shape)
        stays = np.broadcast_to(np.arange(len(last))[:, np.newaxis], after_click.shape)
        logit = returns[0] + returns[1] * count + returns[2] * (level - kept.end)
        self._next_states = np.stack([stays, after_click], axis=2)
        self._ends = np.full(len(last), 1.0 - goes_on)
        self._comes = np.minimum(special.expit(logit), MOST_RETURNING)
        none = np.full_like(last, n_kinds)
        self._next_visits = np.asarray(np.ravel_multi_index((none, level, np.zeros_like(last)), shape))
        self._start = int(np.ravel_multi_index((n_kinds, kept.end, 0), shape))
        self._clicks = clicks[:, last]
        self._shares = shares
        # Where a step up makes returns rarer, those kinds disappoint that go up.
        satisfies = kept.disappoints != (returns[2] >= 0.0)
        self._barred = np.where(satisfies if satisfies.any() else ~satisfies, 0.0, 1.0)

    def worth(self) -> dict[str, float]:
        """Return the clicks of a new visitor under each policy, by name, the optimum last."""
        chosen = {MYOPIC: self._clicks.argmax(axis=2), RULE: (self._clicks - self._barred).argmax(axis=2)}
        worth = {name: self._value(kinds) for name, kinds in chosen.items()}
        most = [self._values(clicks, self._next_states).max(axis=1)[self._start] for clicks in self._clicks]
        return {**worth, OPTIMUM: float(self._shares @ most)}

    def _value(self, chosen: IntArray) -> float:
        """Return the clicks of a new visitor who is shown what is `chosen (segments, states)`."""
        states = np.arange(chosen.shape[1])
        values = [
            self._values(clicks[states, kinds][:, np.newaxis], self._next_states[states, kinds][:, np.newaxis])
            for clicks, kinds in zip(self._clicks, chosen, strict=True)
        ]
        return float(self._shares @ [each[self._start, 0] for each in values])

    def _values(self, clicks: FloatArray, next_states: IntArray) -> FloatArray:
        return iterate_values(clicks, next_states, self._ends, self._comes, self._next_visits)
