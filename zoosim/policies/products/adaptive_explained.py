"""Beliefs of `adaptive` about a request: which part speaks, what moved a score, how sure it is."""

from dataclasses import dataclass

import numpy as np

from zoosim.core.types import FloatArray, IntArray
from zoosim.models.change_filter import mean as cell_mean
from zoosim.models.shrunk_effects import CandidateColumns, CandidatePredictions, add_own, add_slopes, look
from zoosim.models.standard_scores import unit_row
from zoosim.policies.products.adaptive_from_log import model_weight
from zoosim.policies.products.adaptive_parts import CURVES, offer_of, part_weights, shares_of, with_curves
from zoosim.policies.products.adaptive_state import AdaptiveCandidates, AdaptiveState
from zoosim.policies.products.segments import find

PART_NAMES = ("cells", "effects, shrunk", "effects", "effects, slow to forget", "effects, quick to forget", "curves")
"""Names of the parts, in the order of their losses."""

LOG_NAME = "mixed model of the log"
"""Name of the model of a log, which speaks beside the parts that learn row by row."""


@dataclass(frozen=True)
class CandidateBelief:
    """Belief about one candidate.

    Args:
        product_id: The candidate's id.
        probability: How likely it is to be shown.
        chance: Expected chance that it earns something, by effects or curves, whichever is believed most.
        low: The lower end of one standard deviation around it.
        high: The upper end.
        of_segment: Expected chance of its category in the visitor's segment, None where that was never shown.
        moved_by: What the chance's logit is made of: "visitor" (the same for all), "numbers" of the product, "column j"
            for each of its columns, and "product", its own effect.
    """

    product_id: int
    probability: float
    chance: float
    low: float
    high: float
    of_segment: float | None
    moved_by: dict[str, float]


@dataclass(frozen=True)
class Explanation:
    """Beliefs about a request: the `weights` of the parts by name, and the candidates, the likeliest first."""

    weights: dict[str, float]
    candidates: tuple[CandidateBelief, ...]


def explanation(
    state: AdaptiveState, candidates: AdaptiveCandidates, user: FloatArray, propensities: FloatArray
) -> Explanation:
    """Return what is believed of a request whose slots have been looked up."""
    weights = part_weights(state)
    # Not the cells, part 0: they have chances by category, and no logit that terms add up to.
    leader = 1 + int(np.argmax(weights[1:]))
    moves = _moves(state, candidates, user, leader)
    of_segment = _chances_of_segment(state, candidates, user)
    order = np.argsort(-propensities, kind="stable").tolist()
    beliefs = [
        CandidateBelief(int(candidates.ids[k]), float(propensities[k]), *moves.chances(k), of_segment[k], moves.of(k))
        for k in order
    ]
    of_log = model_weight(state.model)
    shares = dict(zip(PART_NAMES, ((1.0 - of_log) * weights).tolist(), strict=True))
    if of_log > 0.0:
        shares[LOG_NAME] = of_log
    return Explanation(shares, tuple(beliefs))


@dataclass(frozen=True)
class _Moves:
    """Terms of the logits of K candidates, by one part: see `CandidateBelief.moved_by`."""

    visitor: float
    columns: FloatArray
    products: FloatArray
    ones: CandidateColumns
    view: CandidatePredictions
    names: IntArray

    def of(self, k: int) -> dict[str, float]:
        """Return the moves of a candidate."""
        active = self.ones.active[self.ones.starts[k] : self.ones.starts[k + 1]]
        moves = {f"column {self.names[a]}": float(self.columns[a]) for a in active}
        # All terms add up to the mean, so those of numbers are what the others leave of it.
        numbers = self.view.mean[k] - self.visitor - self.products[k] - sum(moves.values())
        return {"visitor": self.visitor, "numbers": float(numbers), **moves, "product": float(self.products[k])}

    def chances(self, k: int) -> tuple[float, float, float]:
        """Return the expected chance of a candidate, and one standard deviation below and above."""
        active = self.ones.active[self.ones.starts[k] : self.ones.starts[k + 1]]
        mean = float(self.view.mean[k])
        spread = float(np.sqrt(self.view.own[k] ** 2 + (self.view.of_columns[active] ** 2).sum()))
        low, middle, high = (1.0 / (1.0 + np.exp(-logit)) for logit in (mean - spread, mean, mean + spread))
        return float(middle), float(low), float(high)


def _moves(state: AdaptiveState, candidates: AdaptiveCandidates, user: FloatArray, part: int) -> _Moves:
    """Return what the logits are made of by a part, one of the effects or the curves."""
    effects = state.effects
    model = part - 1
    unit = unit_row(state.scales, user, state.segments.binary)
    if part == CURVES:
        effects = state.curves
        model = 0
        unit = with_curves(state, unit)
    offer = offer_of(state, candidates, shares_of(state, part_weights(state)))
    clock = float(state.updates[0])
    columns = np.zeros(len(offer.ones.columns))
    products = np.zeros(len(offer.products))
    add_own(effects, model, clock, offer.products, 1.0, products)
    return _Moves(
        visitor=add_slopes(effects, model, clock, unit, offer.ones.columns, 1.0, np.zeros(len(offer.numbers)), columns),
        columns=columns,
        products=products,
        ones=offer.ones,
        view=look(effects, model, clock, unit, offer),
        names=candidates.columns,
    )


def _chances_of_segment(state: AdaptiveState, candidates: AdaptiveCandidates, user: FloatArray) -> list[float | None]:
    """Return the expected chance of each candidate's category in the visitor's segment, None for never shown."""
    segment = find(state.segments, user, len(state.cells.shown))
    numbers = candidates.numbers[candidates.group_of]
    tried = state.cells.learned[segment, numbers] > 0.0 if segment >= 0 else np.zeros(len(numbers), bool)
    filters = state.cells.filters[segment]
    return [float(cell_mean(filters[g])) if known else None for g, known in zip(numbers, tried, strict=True)]
