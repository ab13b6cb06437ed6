"""Describe a shop whose discounts lure: what boosts of all degrees of foresight are worth, and which it takes."""

from dataclasses import dataclass

import numpy as np

from zoosim.action_spaces.base import Part
from zoosim.core.tables import Column, Table
from zoosim.core.types import FloatArray, Progress
from zoosim.worlds.facts import ENOUGH
from zoosim.worlds.lure.truth import Rung
from zoosim.worlds.lure.world import Lure

MYOPIC = "myopic"
RULES = {
    "no boosts": "no boosts",
    "no discounts": "as little discount on the page as can be",
    "best boosts, the same for all": "the same boosts for all visitors",
    "best boosts of each segment": "the same boosts for all visitors of a segment",
    "shaped": "a bandit rewarded for EUR and for the satisfaction that they bring",
    "shaped, felt": "a bandit rewarded for EUR and for the satisfaction that is felt",
}
"""Rungs of the ladder that plan nothing, the simplest first, in words."""


@dataclass(frozen=True)
class LureDescription:
    """A shop whose discounts lure in exact figures, without a simulation.

    `ladder` from the least to the optimum. By segment: the share of visitors, the EUR of one under the optimum, and the
    share of these that a myopic policy has. `discounts` are mean discounts on the pages that the optimum and the
    myopic policy show, by level of satisfaction, the lowest first, segments by their shares. `rankings` says how many
    boosts can make.
    """

    ladder: tuple[Rung, ...]
    segments: dict[str, tuple[float, float, float]]
    discounts: dict[str, FloatArray]
    rankings: int

    draw = Part("zoosim.report.lure:lure_figures")
    render = Part("zoosim.report.lure:render_lure")

    def share(self, policy: str) -> float:
        """Return the share of the optimum that a policy of the ladder has."""
        return next(rung.share for rung in self.ladder if rung.name == policy)

    @property
    def answer(self) -> str:
        """The verdict on looking ahead in this shop, in one sentence."""
        myopic = f"{self.share(MYOPIC):.1%}"
        if self.share(MYOPIC) >= ENOUGH:
            return f"Looking ahead does not matter here: the boosts that earn most now have {myopic} of the optimum."
        rule = next((name for name in RULES if self.share(name) >= ENOUGH), None)
        if rule is not None:
            return (
                f"One rule is enough here: {RULES[rule]}, with {self.share(rule):.1%} of the optimum; "
                f"the boosts that earn most now have {myopic}."
            )
        best = max(RULES, key=self.share)
        return (
            f"Looking ahead pays here: the boosts that earn most now have {myopic} of the optimum, the best rule "
            f"({best}) {self.share(best):.1%}."
        )

    def table(self) -> Table:
        """Tabulate the ladder."""
        columns = (
            Column("policy", [rung.name for rung in self.ladder], is_text=True, is_essential=True),
            Column("EUR of\na visitor", [f"{rung.worth:.2f}" for rung in self.ladder], is_essential=True),
            Column("% of the\noptimum", [f"{100 * rung.share:.1f}" for rung in self.ladder], is_essential=True),
        )
        return Table(f"What boosts are worth, of {self.rankings:,} rankings that they can make, exactly", columns)


def describe(world: Lure, visits: int, progress: Progress) -> LureDescription:
    """Return what a world is like; see `World.description`."""
    progress("finding all rankings that boosts can make")
    return describe_lure(world)


def describe_lure(world: Lure) -> LureDescription:
    """Return what a world is like."""
    truth = world.truth_of_all
    optimum = truth.by_segment(truth.optimum)
    myopic = truth.by_segment(truth.myopic)
    shares = truth.laws.shares
    on_pages = truth.features[truth.rankings_of(truth.boosts), 0].mean(axis=1)
    return LureDescription(
        ladder=tuple(sorted(truth.ladder(), key=lambda rung: rung.worth)),
        segments={
            name: (float(shares[p]), float(optimum[p]), float(myopic[p] / optimum[p]))
            for p, name in enumerate(world.config.segments)
        },
        discounts={
            "optimum": np.asarray(shares @ on_pages[truth.optimum]),
            MYOPIC: np.asarray(shares @ on_pages[truth.myopic]),
        },
        rankings=len(truth.boosts),
    )
