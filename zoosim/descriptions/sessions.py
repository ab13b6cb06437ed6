"""Describe a shop whose visitors come back: what policies of all degrees of foresight are worth, and which it takes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zoosim.action_spaces.base import Part
from zoosim.core.tables import Column, Table
from zoosim.core.types import FloatArray, Progress
from zoosim.worlds.facts import ENOUGH
from zoosim.worlds.sessions.laws import TEASER
from zoosim.worlds.sessions.truth import RULES, SessionTruth, Step
from zoosim.worlds.sessions.world import Sessions

WORDS = {
    "no teasers": "no teasers",
    "best product": "one product for each persona",
    "shaped bandit": "a bandit rewarded for clicks and for the satisfaction that they bring",
    "teasers where satisfaction is full": "teasers only where a visitor is as satisfied as can be",
    "shaped bandit, felt": "a bandit rewarded for clicks and for the satisfaction that is felt",
}
"""The rules of the ladder in words."""

MYOPIC_GUESSED, QMDP = "myopic, persona guessed", "QMDP, persona guessed"
"""Rungs of policies that do not see the persona, and know all laws."""

PLANS = "plan ahead"
PLANS_A_VISIT = "plan a visit"
FOLLOWS_A_RULE = "follow a rule"
LOOKS_AT_CLICKS = "look at the next click"


class Rung(NamedTuple):
    """A policy of the ladder: the `clicks` of a visitor, its `share` of the optimum, and how it gets them.

    `visits` of a visitor, and `clicked`, the share of decisions that bring a click. `error` is the standard error of
    the clicks, 0 where they are exact.
    """

    policy: str
    clicks: float
    share: float
    visits: float
    clicked: float
    error: float = 0.0


class SessionPeriod(NamedTuple):
    """Visitors from number `start` on, who keep to the same laws; `name` says which shocks begin it.

    `optimum` in clicks of a visitor, and as shares of it what `myopic` policies have, and what the optimum of the
    opening still has (`stale`).
    """

    start: int
    name: str
    optimum: float
    myopic: float
    stale: float


@dataclass(frozen=True)
class SessionsDescription:
    """A shop of sessions in exact figures; only what it is worth to guess the persona is simulated.

    `ladder` from random to the optimum. By persona: the share of visitors, the clicks of one under the optimum, and the
    share of these that a myopic policy has. `teasers` are shares of the decisions with visitors of each level of
    satisfaction, the lowest first, in which the optimum and the myopic policy show a teaser; NaN where there are none.
    """

    ladder: tuple[Rung, ...]
    personas: dict[str, tuple[float, float, float]]
    teasers: dict[str, FloatArray]
    periods: tuple[SessionPeriod, ...]

    draw = Part("zoosim.report.sessions:session_figures")
    render = Part("zoosim.report.sessions:render_sessions")

    def share(self, policy: str) -> float:
        """Return the share of the optimum that a policy of the ladder has."""
        return next(rung.share for rung in self.ladder if rung.policy == policy)

    @property
    def rule(self) -> str | None:
        """The simplest rule that is enough, None where there is none."""
        return next((name for name in RULES if self.share(name) >= ENOUGH), None)

    @property
    def advice(self) -> str:
        """The simplest of four ways that comes near the optimum, in a word or two."""
        if self.share("myopic") >= ENOUGH:
            return LOOKS_AT_CLICKS
        if self.rule is not None:
            return FOLLOWS_A_RULE
        if self.share("best for this visit") >= ENOUGH:
            return PLANS_A_VISIT
        return PLANS

    @property
    def answer(self) -> str:
        """The verdict on planning in this shop, in a sentence, and in another one where the persona is hidden."""
        if not any(rung.policy == QMDP for rung in self.ladder):
            return self._answer
        return (
            f"{self._answer} Nobody sees the persona here: who guesses it gets {self.share(QMDP):.1%} by planning "
            f"(QMDP), {self.share(MYOPIC_GUESSED):.1%} by the next click."
        )

    @property
    def _answer(self) -> str:
        myopic = f"{self.share('myopic'):.1%}"
        if self.advice == LOOKS_AT_CLICKS:
            return (
                f"Looking ahead does not matter here: showing what is clicked most now has {myopic} of the optimum; "
                "take a bandit."
            )
        if self.rule is not None:
            return (
                f"One rule is enough here: {WORDS[self.rule]}, with {self.share(self.rule):.1%} of the optimum; "
                f"looking at the next click alone has {myopic}."
            )
        if self.advice == PLANS_A_VISIT:
            return (
                f"Planning a visit is enough here: it has {self.share('best for this visit'):.1%} of the optimum, "
                f"looking at the next click alone {myopic}."
            )
        best = max(RULES, key=self.share)
        return (
            f"Planning pays here: looking at the next click alone has {myopic} of the optimum, the best rule ({best}) "
            f"{self.share(best):.1%}."
        )

    def table(self) -> Table:
        """Tabulate the ladder."""
        rungs = self.ladder
        columns = (
            Column("policy", [rung.policy for rung in rungs], is_text=True, is_essential=True),
            Column("clicks of\na visitor", [_written(rung) for rung in rungs], is_essential=True),
            Column("% of the\noptimum", [f"{100 * rung.share:.1f}" for rung in rungs], is_essential=True),
            Column("visits of\na visitor", [f"{rung.visits:.2f}" for rung in rungs], is_essential=True),
            Column("% clicked", [f"{100 * rung.clicked:.1f}" for rung in rungs], is_essential=True),
        )
        exactly = "" if any(rung.error for rung in rungs) else ", exactly"
        return Table(f"What policies are worth{exactly}", columns)


def describe(world: Sessions, visits: int, progress: Progress) -> SessionsDescription:
    """Return what a world is like over its run; see `World.description`."""
    truth = world.truth_of(0)
    personas, states, _ = truth.clicks.shape
    progress(f"solving the states of visitors, {personas * states:,}, for each policy")
    return describe_sessions(world)


def describe_sessions(world: Sessions) -> SessionsDescription:
    """Return what a world is like: the ladder of its opening, and what changes with its shocks."""
    truth = world.truth_of(0)
    optimum = truth.by_persona(truth.optimum)
    myopic = truth.by_persona(truth.rungs["myopic"])
    shares = world.config.shares
    return SessionsDescription(
        ladder=tuple(_rung(truth, step) for step in sorted(truth.ladder(), key=lambda step: step.clicks)),
        personas={
            name: (shares[p], float(optimum[p]), float(myopic[p] / optimum[p]))
            for p, name in enumerate(world.config.personas)
        },
        teasers={
            "optimum": _teasers_by_level(truth, truth.optimum),
            "myopic": _teasers_by_level(truth, truth.rungs["myopic"]),
        },
        periods=tuple(_period(world, start, period) for start, period in world.periods.items()),
    )


def _written(rung: Rung) -> str:
    return f"{rung.clicks:.2f} ± {rung.error:.2f}" if rung.error else f"{rung.clicks:.2f}"


def _rung(truth: SessionTruth, step: Step) -> Rung:
    if step.name in truth.guessed:
        decisions = truth.guessed[step.name].decisions
    else:
        policy = truth.optimum if step.name == "optimum" else truth.rungs[step.name]
        decisions = float(truth.occupancy(policy).sum())
    # After each decision a visit ends with the same chance.
    visits = decisions * (1.0 - truth.laws.goes_on)
    return Rung(step.name, step.clicks, step.share, visits, step.clicks / decisions, step.error)


def _teasers_by_level(truth: SessionTruth, policy: FloatArray) -> FloatArray:
    """Return the share of decisions with a teaser by level of satisfaction, `(S,)`."""
    shown = truth.occupancy(policy)[:, :, np.newaxis] * policy
    lasts, _, counts = truth.laws.shape
    # Where satisfaction is felt later, states also tell that of the visit before: summed up, too.
    parts = (truth.n_personas, lasts, -1, truth.laws.levels, counts, truth.laws.kinds)
    by_level = shown.reshape(parts).sum(axis=(0, 1, 2, 4))
    decisions = by_level.sum(axis=1)
    teasers = by_level[:, np.arange(truth.laws.kinds) % 2 == TEASER].sum(axis=1)
    shares = np.full(len(decisions), np.nan)
    np.divide(teasers, decisions, out=shares, where=decisions > 0.0)
    return shares


def _period(world: Sessions, start: int, truth: SessionTruth) -> SessionPeriod:
    optimum = truth.value(truth.optimum)
    myopic = truth.myopic
    stale = world.truth_of(0).optimum
    names = [shock.name for shock in world.config.shocks if shock.step == start]
    return SessionPeriod(start, " + ".join(names), optimum, truth.value(myopic) / optimum, truth.value(stale) / optimum)
