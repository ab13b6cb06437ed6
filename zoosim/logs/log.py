"""A log of decisions as arrays: what policies learn from and are evaluated by."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from zoosim.core.action_space import PRODUCTS
from zoosim.core.blocks import RowArray, RowSelection, RowSpan, block_any, extremes
from zoosim.core.durations import DAY
from zoosim.core.types import REWARD, BoolArray, Float32Array, FloatArray, IntArray
from zoosim.logs.candidate_sets import CandidateLists, CandidateSets
from zoosim.logs.lives import Lives
from zoosim.logs.sources import CandidateSources

if TYPE_CHECKING:  # logs of worlds have neither
    from zoosim.logs.searches import Searches
    from zoosim.schema.schema import FittedSchema

DAYS_PER_MONTH = 30.0

PER_VISIT = (
    *("actions", "propensities", "rewards", "marginals"),
    *("candidate_set", "features", "positions", "user_ids", "times"),
)


def _differ(values: FloatArray, others: FloatArray) -> BoolArray:
    return np.asarray(values != others)


@dataclass(frozen=True)
class Log:
    """`n` checked visits: what each chose, with which probability, and what it earned; made by `read_log` and `to_log`.

    Args:
        actions: By action space, the index of a product `(n,)`, the indices of a ranking from the top `(n, L)`, or
            boosts from -`a_max` to `a_max` `(n, d)`.
        propensities: The probability of the product, in (0, 1], `(n,)`; that of each product of a ranking given those
            above it `(n, L)`; or the density of the boosts, above 0, `(n,)`. NaN where the log does not say.
        rewards: What each visit earned `(n,)`, or each position of its ranking `(n, L)`.
        candidates: The different sets of products that could be chosen from; none of any products for boosts.
        candidate_set: Which of these sets each visit had `(n,)`.
        features: What was known of the visitors `(n, d_u)`.
        positions: Where a chosen product stood, from 0, `(n,)`.
        products: The features of the products `(K, d_p)`.
        user_ids: Which visits belong together `(n,)`; None where the log does not say.
        times: When the visits came, in microseconds since 1970, `(n,)`; None where the log does not say.
        lives: Where in a visitor's life each visit stands; None where each visitor came for one decision, or the log
            does not say.
        candidate_sources: Where each visit's candidates came from; None where the log does not say.
        candidate_propensities: The probability of each candidate, of one row after another, in the order of
            `candidate_lists(0, n)`, `(c,)`; None where the log does not say.
        columns: Further numbers by name, such as target probabilities, each of the shape of `propensities`.
        rewards_by_name: What the objective, `rewards`, is made of, and other rewards, each of its shape; none where the
            log has one reward.
        skipped: How many bad rows were left out, by reason.
        categories: The category of each product, where a catalogue names them.
        source: What messages call the log.
        action_space: What a visit chooses: a product, a ranking or boosts.
        marginals: The probability of a product, wherever its candidates may have come from `(n,)`; of rankings, that a
            position shows its product, whatever stands above, `(n, L)`. None where the log does not say.
        a_max: Boosts alone: the largest size of a boost.
        ids: The numbers by which policies know the products `(K,)`, where a catalogue names them.
        names: What the shop calls the products, where a catalogue says.
        other_names: What the shop calls further products, which no row shows or lists, where a catalogue describes
            some.
        other_products: The features of these `(len(other_names), d_p)`.
        fitted: How visitors and products were encoded, where the log was imported.
        numbers: Where in the source each visit stands, from 0, a ranking by the row of its top, `(n,)`; None where
            these are all of its rows, in order.
        searches: Boosts alone: the requests, rankings and clicks behind the visits, where the log holds them.
    """

    actions: Any
    propensities: FloatArray
    rewards: FloatArray
    candidates: CandidateSets
    candidate_set: IntArray
    features: FloatArray
    positions: IntArray
    products: FloatArray
    user_ids: IntArray | None = None
    times: IntArray | None = None
    lives: Lives | None = None
    candidate_sources: CandidateSources | None = None
    candidate_propensities: Float32Array | None = None
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    rewards_by_name: Mapping[str, FloatArray] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    categories: tuple[str, ...] = ()
    source: str = "log"
    action_space: str = PRODUCTS
    marginals: FloatArray | None = None
    a_max: float = 0.0
    ids: IntArray | None = None
    names: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()
    other_products: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    fitted: "FittedSchema | None" = None
    numbers: IntArray | None = None
    searches: "Searches | None" = None

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def has_propensities(self) -> bool:
        """Return whether the log says how likely its actions were."""
        return not block_any(np.isnan, self.propensities)

    @property
    def is_streamed(self) -> bool:
        """Return whether rows are read in blocks (`zoosim.logs.stream`), and never whole."""
        return isinstance(self.actions, RowArray)

    @property
    def visit_rewards(self) -> FloatArray:
        """Return what each visit earned `(n,)`: its reward, or those of its positions, summed."""
        if self.rewards.ndim == 1:
            return self.rewards
        return np.asarray(self.rewards.sum(axis=1))

    @property
    def visits_per_day(self) -> float | None:
        """Return the log's traffic; None where it has no times, or one alone."""
        if self.times is None:
            return None
        first, last = (int(end) for end in extremes(self.times))
        return len(self) * DAY / (last - first) if last > first else None

    @property
    def objective(self) -> str:
        """Return what `rewards` are called: a reward by name, a weighted sum of some, or `reward` without names."""
        weights = {} if self.fitted is None else {name: w for name, w in self.fitted.weights.items() if w}
        if not self.rewards_by_name or not weights:
            return REWARD
        parts = [name if weight == 1.0 else f"{weight:g} {name}" for name, weight in weights.items()]
        return parts[0] if list(weights.values()) == [1.0] else f"objective ({' + '.join(parts)})"

    @cached_property
    def other_rewards(self) -> tuple[str, ...]:
        """Return the names of the rewards that are not the objective itself."""
        return tuple(name for name, values in self.rewards_by_name.items() if block_any(_differ, values, self.rewards))

    def for_reward(self, name: str) -> "Log":
        """Return the log with one of its rewards by name in place of the objective."""
        return replace(self, rewards=self.rewards_by_name[name], rewards_by_name={})

    @cached_property
    def product_ids(self) -> IntArray:
        """Return the ids of the products `(K,)`, read-only: the catalogue's, or where there is none their indices."""
        ids = np.arange(self.n_actions) if self.ids is None else self.ids.copy()
        ids.flags.writeable = False
        return ids

    def action_name(self, action: int) -> str:
        """Return what the shop calls a product, or `action` and its index where the log has no names."""
        return self.names[action] if self.names else f"action {action}"

    @property
    def visitor_features(self) -> tuple[str, ...]:
        """Return the names of the visitors' features `(d_u,)`, such as `country is de`, or `column` and a number."""
        if self.fitted is not None:
            return self.fitted.visitors.features
        return tuple(f"column {number}" for number in range(self.features.shape[1]))

    @property
    def n_actions(self) -> int:
        """Count the products, `K`."""
        return self.candidates.n_products

    @property
    def n_positions(self) -> int:
        """Count the positions that each visit shows, `L`: 1 where it is no ranking."""
        return 1 if self.propensities.ndim == 1 else int(self.propensities.shape[1])

    def available(self, start: int, stop: int) -> BoolArray:
        """Return the candidates of visits `start` to `stop - 1`: `(stop - start, K)`."""
        return self.candidates.masks(self.candidate_set[start:stop])

    def could_be_shown(self, visit: int) -> BoolArray | None:
        """Return what a policy with candidates of its own could have shown in a visit `(K,)`.

        None where the log does not say: of candidates that a source proposed, it counts at most what else there was.
        """
        sources = self.candidate_sources
        if self.candidates.are_lacking or (sources is not None and sources.lists_all(visit)):
            return np.asarray(self.available(visit, visit + 1)[0])
        if sources is not None and sources.products[visit] == self.n_actions:
            return np.ones(self.n_actions, bool)
        return None

    def candidate_lists(self, start: int, stop: int) -> CandidateLists:
        """Return the candidates that rows `start` to `stop - 1` list, in the log's order; see `CandidateSets.lists`."""
        return self.candidates.lists(self.candidate_set[start:stop])

    @property
    def row_numbers(self) -> IntArray:
        """Return the rows of the source that the visits come from, from 0, `(n,)`."""
        return np.arange(len(self)) if self.numbers is None else self.numbers

    def in_order(self) -> "Log":
        """Return the log in order of time; unchanged where it has no times."""
        return self if self.times is None else self.rows(np.argsort(self.times, kind="stable"))

    def rows(self, chosen: Any) -> "Log":
        """Return the log of the `chosen` visits: indices, a mask `(n,)`, or a slice without a step.

        It is in memory, but where rows are read in blocks and the mask is, too.
        """
        if isinstance(chosen, RowArray):
            return self._selected(RowSelection(chosen))
        arrays = {name: getattr(self, name) for name in PER_VISIT}
        taken: dict[str, Any] = {name: values[chosen] for name, values in arrays.items() if values is not None}
        for part in ("columns", "rewards_by_name"):
            taken[part] = {name: values[chosen] for name, values in getattr(self, part).items()}
        if self.searches is not None:
            taken["searches"] = self.searches.rows(chosen)
        if self.lives is not None:
            taken["lives"] = Lives(*(values[chosen] for values in self.lives))
        if self.candidate_sources is not None:
            taken["candidate_sources"] = self.candidate_sources.taken(lambda values: values[chosen])
        if self.candidate_propensities is not None:
            # Lists of different lengths, one after another: rows of theirs have to be found by where each begins.
            lengths = self.candidate_lists(0, len(self)).lengths
            starts = np.cumsum(lengths) - lengths
            places = CandidateLists(np.arange(lengths.sum()), starts[chosen], lengths[chosen]).flat()[1]
            taken["candidate_propensities"] = self.candidate_propensities[places]
        taken["numbers"] = self._numbers_of(chosen)
        return replace(self, **taken)

    def span(self, start: int, stop: int) -> "Log":
        """Return the log of visits `start` to `stop - 1`, read in blocks where this one is."""
        return self._selected(RowSpan(start, stop)) if self.is_streamed else self.rows(slice(start, stop))

    def _selected(self, selection: RowSelection | RowSpan) -> "Log":
        """Return the log of selected visits, read in blocks as this one."""
        arrays = {name: getattr(self, name) for name in PER_VISIT}
        taken: dict[str, Any] = {name: selection.of(array) for name, array in arrays.items() if array is not None}
        for part in ("columns", "rewards_by_name"):
            taken[part] = {name: selection.of(array) for name, array in getattr(self, part).items()}
        if self.candidate_sources is not None:
            taken["candidate_sources"] = self.candidate_sources.taken(selection.of)
        numbers = RowArray((len(self),), np.int64, np.arange) if self.numbers is None else self.numbers
        taken["numbers"] = selection.of(numbers)
        return replace(self, **taken)

    def _numbers_of(self, chosen: Any) -> IntArray:
        """Return the rows of the source that chosen visits come from."""
        if self.numbers is not None:
            return np.asarray(self.numbers[chosen])
        if isinstance(chosen, slice):
            return np.arange(*chosen.indices(len(self)))
        return np.flatnonzero(chosen) if chosen.dtype == bool else np.asarray(chosen)
