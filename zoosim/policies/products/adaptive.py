"""The policy to take without thinking: it learns what pays in a shop by several models at once, and by which of them.

Three kinds of models predict whether a visit pays:

- *cells*: visitors are told apart by segment and products by category, the distinct patterns in the columns that hold
  nothing but 0 and 1, and each (segment, category) has a Bayes filter of its click probability, which finds jumps
  (`zoosim.models.change_filter`);
- *effects* of categories, brands, numbers and single products, for all and for visitors' features, each shrunk towards
  what it has in common with others (`zoosim.models.shrunk_effects`), with three memories from endless to short; those
  that never forget learn how large effects are;
- *curves*: effects of how near a visitor is to each of some earlier ones, for what is not linear in features.

They are weighed by how well they predicted lately. What a visit pays if it does is a model of its own
(`zoosim.policies.products.adaptive_sizes`), so that any reward will do. A decision is Thompson sampling, wider once
there are rewards enough to try categories, brands and single products, so that those are found that are better than
expected. While cells lead, a category that was not shown for long is shown as soon as what may have changed is worth a
visit.

What a decision moves (when a category was shown last) and what a reward moves (everything else) are kept apart, so that
rewards may come late: otherwise a category would stay overdue, and be shown to everybody, until its rewards are in.
"""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from zoosim.core.arrays import copy_overlap
from zoosim.core.claims import claim
from zoosim.core.id_table import UNKNOWN, capacity_for, grown, new_id_table
from zoosim.core.normals import new_remembered
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key
from zoosim.core.state import saved_length
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PastLog, Progress, frozen_view
from zoosim.models.shrunk_effects import grown_effects, new_effects
from zoosim.models.standard_scores import new_scales
from zoosim.policies.choice import DRAWS
from zoosim.policies.from_log.traits import MOST_TRAITS
from zoosim.policies.kernel import KernelPolicy
from zoosim.policies.products.adaptive_explained import Explanation, explanation
from zoosim.policies.products.adaptive_from_log import (
    OWN,
    TEMPERATURE,
    LogModel,
    fit_log_model,
    new_log_model,
    weights_in_common,
)
from zoosim.policies.products.adaptive_kernel import KERNEL, distribution_of_new, distributions, move_clocks, note_shown
from zoosim.policies.products.adaptive_parts import CELLS, LEADING_WEIGHT, PARTS, part_weights
from zoosim.policies.products.adaptive_sizes import new_sizes
from zoosim.policies.products.adaptive_state import (
    BLOCKS,
    CURVE_PRIORS,
    MAX_NUMBERS,
    NEVER,
    NUMBERS,
    PRIORS,
    AdaptiveCandidates,
    AdaptiveState,
    ProductColumnKinds,
    count_tried,
    new_candidates,
    new_cells,
)
from zoosim.policies.products.categories import FIRST_CATEGORIES
from zoosim.policies.products.segments import new_segments
from zoosim.policies.requests import CheckedRequest, checked_candidates, checked_request

MAX_SEGMENTS, MAX_CATEGORIES, MAX_CELLS = 256, 2_048, 200_000
"""Most segments, categories and (segment, category) cells."""

MAX_ENTRIES = 16_000_000
"""Most numbers in the covariances of columns' effects."""

MAX_CROSSED = 128
"""Most products of a visitor's feature and a number of products."""

FIRST_PRODUCTS, MAX_PRODUCTS = 64, 100_000
FIRST_COLUMNS = 8

MAX_LOGGED = 10_000_000
"""Most products of a log of which a saved state may hold a model."""

MODEL_SHARE = 0.8
"""Weight of a log's mixed model right after the log. In shops where what is learned row by row predicts as well, even
weights are no better; where it lacks what matters, such as what a visitor's number does to a single product, they are
5% worse."""

MOST_REMEMBERED = 256
"""Most numbers of each posterior draw that are kept for the next request: where it takes more, they are made anew."""

LANDMARKS = 64
"""Most earlier visitors whom others are compared with."""


class Adaptive(KernelPolicy):
    """Weigh several models of what pays by how well they predict, and explore by their uncertainty (recommended).

    Rewards may be any numbers. There are at most 256 segments, of which the last takes all further visitors, and 2,048
    categories that were shown, of which the one that was shown or rewarded longest ago makes room for a new one.
    """

    name = "adaptive"
    kernel = KERNEL
    most_singles = 4_096
    clocks = ("segments.decided", "cells.shown")
    candidates_rest_on = ("columns.binary",)
    learned = (
        "segments",
        "categories",
        "columns",
        "cells",
        "products",
        "scales",
        "product_scales",
        "effects",
        "curves",
        "landmarks",
        "landmarks_found",
        "losses",
        "sizes",
        "model",
        "key",
        "updates",
        "paid",
    )
    hazard: float = parameter(5e-4, low=0, high=0.1, help="probability per visit that one of a segment's cells jumps")
    due: float = parameter(
        1.5e-4, low=0, high=0.1, help="rate at which long unseen categories are tried again; 0 never"
    )
    sharpness: float = parameter(2.0, low=0.1, high=100, help="how much narrower than the posterior cells are sampled")
    together: float = parameter(
        0.1, low=0, high=1, help="probability that a jump in one cell comes with one in another"
    )
    width: float = parameter(0.5, low=0, high=10, help="least width of the draws of effects, in standard deviations")

    margin: float = parameter(
        0.05, low=0, high=1, help="after a log: share below the best expected reward down to which others are tried"
    )

    @property
    def goes_by_clocks(self) -> bool:
        """True while cells lead, so that a category that was not shown for long is shown."""
        return bool(part_weights(self.state)[CELLS] > LEADING_WEIGHT)

    def _decided(self, request: CheckedRequest, candidates: Any, action: int) -> None:
        state: AdaptiveState = self.state
        key = int(candidates.keys[candidates.group_of[action]])
        note_shown(state.segments, state.categories, state.cells, key, request.user)

    def _move_clocks(self, request: CheckedRequest, candidates: Any, action: int) -> None:
        state: AdaptiveState = self.state
        known = candidates.keys, candidates.numbers, candidates.version
        group = int(candidates.group_of[action])
        move_clocks(state.segments, state.categories, state.cells.shown, *known, group, request.user)

    def _new_state(self) -> AdaptiveState:
        return self._state_of(FIRST_CATEGORIES, self._first_columns, FIRST_PRODUCTS, self.rng)

    def _state_of(
        self, categories: int, columns: int, products: int, rng: np.random.Generator, model: LogModel | None = None
    ) -> AdaptiveState:
        users = self.spec.user_dim
        dim = self.spec.product_dim
        claim(LANDMARKS * users + dim)
        segments = _segments_beside(categories)
        numbers = min(dim, MAX_NUMBERS)
        crossed = min(numbers, MAX_CROSSED // max(1, users))
        curved = 1 + users + LANDMARKS
        return AdaptiveState(
            segments=new_segments(segments, users),
            categories=new_id_table(categories),
            columns=ProductColumnKinds(
                np.ones(dim, np.bool_), np.zeros(dim, np.int64), np.zeros(numbers, np.int64), np.array([1, 0])
            ),
            cells=new_cells(segments, categories),
            products=new_id_table(products),
            scales=new_scales(users),
            product_scales=new_scales(dim),
            effects=new_effects(PRIORS, 1 + users, numbers, crossed, columns, products),
            curves=new_effects(CURVE_PRIORS, curved, numbers, 0, columns, products),
            landmarks=np.zeros((LANDMARKS, users)),
            landmarks_found=np.zeros(1, np.int64),
            losses=np.zeros(PARTS),
            sizes=new_sizes(),
            model=new_log_model(self.spec) if model is None else model,
            key=np.array([draw_key(rng)]),
            updates=np.zeros(1, np.int64),
            paid=np.zeros(1, np.int64),
            normals=new_remembered(DRAWS * MOST_REMEMBERED),
            hazard=self.hazard,
            due=self.due,
            sharpness=self.sharpness,
            together=self.together,
            width=self.width,
            margin=self.margin,
            sampling=True,
        )

    def _exploiting(self) -> AdaptiveState:
        state: AdaptiveState = self.state._replace(due=0.0, sampling=False)
        return state

    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Learn from a log row by row, as from rewards of its own, and by a mixed model of all rows.

        From then on the policy decides by both, and explores only what both together expect to be nearly as good as the
        best, until what it has seen since outweighs the log.
        """
        figures = super().fit(log, progress)
        model = fit_log_model(log, self.spec, progress)
        model.rows[0] = self.state.updates[0]
        if len(model.own):
            # `model_weight` is logistic in the difference of losses over
            # `TEMPERATURE`: this one makes it `MODEL_SHARE`.
            model.losses[OWN] = TEMPERATURE * np.log(MODEL_SHARE / (1.0 - MODEL_SHARE))
        self.state = self.state._replace(model=model)
        self._forget_candidates()
        return figures

    def tabulate(
        self,
        state: Any,
        candidates: Any,
        user_ids: IntArray,
        users: FloatArray,
        masks: BoolArray,
        mask_of: IntArray,
        out: FloatArray,
    ) -> None:
        """Add the probability of each candidate at n requests to zeros; see `TabulatingPolicy`."""
        distributions(state, candidates, frozen_view(users), frozen_view(masks), np.array(mask_of), self.floor, out)

    def explain(self, context: Context) -> Explanation:
        """Say what is believed of a request: which part speaks, what moved each candidate's score, how sure it is.

        Args:
            context: The request; nothing moves.

        Returns:
            The weights of the parts, and each candidate's probability, chance and what that is made of.

        Raises:
            PolicyError: features are of a wrong shape, NaN or infinite, or no candidate is available.
        """
        request = checked_request(context, self.spec)
        reader = self._reader(context)
        candidates = reader.attach(context)
        propensities = reader._distribution(request, candidates)
        return explanation(reader.state, candidates, request.user, propensities)

    @property
    def _most_columns(self) -> int:
        """Return how many columns may have effects of their own."""
        sides = (len(PRIORS), 1 + self.spec.user_dim), (len(CURVE_PRIORS), 1 + self.spec.user_dim + LANDMARKS)
        return max(2, MAX_ENTRIES // sum(models * side**2 for models, side in sides))

    @property
    def _first_columns(self) -> int:
        return min(FIRST_COLUMNS, self._most_columns)

    def _candidates(self, ids: IntArray, products: FloatArray) -> AdaptiveCandidates:
        return new_candidates(ids, products, self.state.columns.binary, self.state.model)

    def _passing_distribution(self, request: CheckedRequest, context: Context) -> FloatArray | None:
        if not self._meet_candidates(context):
            return None
        ids, products = checked_candidates(context, self.spec)
        # Copies, as code is compiled for arrays that can be written to, or cannot.
        ids, products = ids.copy(), products.copy()
        in_common = weights_in_common(self.state.model, products)
        out = np.zeros(len(ids))
        new = (ids, products, *in_common, request.user, request.available)
        return out if distribution_of_new(self.state, *new, self.floor, out) else None

    def _forget_learned(self) -> None:
        for attached in (*self._attached, *self._singles.values()):
            attached.candidates.learned[:] = NEVER

    def _make_room(self, candidates: AdaptiveCandidates, decisions: int) -> None:
        # For all candidates at once, whoever asks: how many segments there is room for follows from the capacity, and
        # must be the same in compiled runs as for single requests.
        self._tell_columns(candidates)
        categories = self._room_for(candidates)
        if categories > len(self.state.categories.ids):
            self._grow_cells(categories)
        products = capacity_for(self.state.products, candidates.ids, decisions, MAX_PRODUCTS)
        if products > len(self.state.products.ids):
            self._grow_effects(self.state.effects.columns.shape[1], products)

    def _room_for(self, candidates: AdaptiveCandidates) -> int:
        """Return how many categories there must be room for so that all candidates may be shown."""
        return capacity_for(self.state.categories, candidates.keys, len(candidates.keys), MAX_CATEGORIES)

    def _reader(self, context: Context) -> "Adaptive":
        """Return the policy itself, or where a decision would make room first, a copy that has made it."""
        candidates = self.attach(context)
        are_known = candidates.binary.tobytes() == self.state.columns.binary.tobytes()
        if are_known and self._room_for(candidates) <= len(self.state.categories.ids):
            return self
        reader = copy.deepcopy(self)
        reader._make_room(reader.attach(context), 1)
        return reader

    def _tell_columns(self, candidates: AdaptiveCandidates) -> None:
        """Enter columns that turn out to hold other numbers than 0 and 1, and binary ones that are 1 for once."""
        columns = self.state.columns
        binary = candidates.binary
        if binary.tobytes() != columns.binary.tobytes():
            for column in np.flatnonzero(columns.binary & ~binary)[: len(columns.numbers) - columns.counts[NUMBERS]]:
                columns.numbers[columns.counts[NUMBERS]] = column
                columns.counts[NUMBERS] += 1
            columns.binary[:] = binary
            self._forget_candidates()
        unknown = candidates.columns[columns.block_of[candidates.columns] == UNKNOWN]
        if len(unknown):
            unknown = unknown[: self._most_columns - columns.counts[BLOCKS]]
            columns.block_of[unknown] = columns.counts[BLOCKS] + np.arange(len(unknown))
            columns.counts[BLOCKS] += len(unknown)
            room = self.state.effects.columns.shape[1]
            if columns.counts[BLOCKS] > room:
                wanted = min(max(int(columns.counts[BLOCKS]), 2 * room), self._most_columns)
                self._grow_effects(wanted, len(self.state.products.ids))

    def _grow_effects(self, columns: int, products: int) -> None:
        state = self.state
        table = grown(state.products, products) if products > len(state.products.ids) else state.products
        self.state = state._replace(
            products=table,
            effects=grown_effects(state.effects, columns, products),
            curves=grown_effects(state.curves, columns, products),
        )

    def _grow_cells(self, categories: int) -> None:
        """Make room for more categories; of the segments those found first stay."""
        state = self.state
        cells = new_cells(_segments_beside(categories), categories)
        segments = new_segments(len(cells.shown), self.spec.user_dim)
        for old, new in zip((*state.cells, *state.segments), (*cells, *segments), strict=True):
            copy_overlap(old, new)
        segments.found[0] = min(segments.found[0], len(cells.shown))
        count_tried(cells)
        self.state = state._replace(segments=segments, categories=grown(state.categories, categories), cells=cells)

    def _shaped_as(self, saved: Mapping[str, Any]) -> AdaptiveState:
        categories = saved_length(saved, "categories.ids")
        products = saved_length(saved, "products.ids")
        column_times = saved.get("effects.columns_time")
        columns = -1
        if isinstance(column_times, np.ndarray) and column_times.ndim == 2:
            columns = column_times.shape[1]
        logged = saved_length(saved, "model.own") - 1
        traits = saved_length(saved, "model.shared")
        fits = FIRST_CATEGORIES <= categories <= MAX_CATEGORIES and FIRST_PRODUCTS <= products <= MAX_PRODUCTS
        fits = fits and self._first_columns <= columns <= self._most_columns
        fits = fits and -1 <= logged <= MAX_LOGGED and 0 <= traits <= self.spec.product_dim + MOST_TRAITS
        if not fits:
            unfit: AdaptiveState = self.state
            return unfit
        model = new_log_model(self.spec, logged, traits)
        return self._state_of(categories, columns, products, np.random.default_rng(0), model)


def _segments_beside(categories: int) -> int:
    """Return how many segments there is room for beside so many categories."""
    return min(MAX_SEGMENTS, MAX_CELLS // categories)
