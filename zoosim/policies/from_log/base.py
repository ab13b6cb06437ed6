"""Policies that learn from logs alone: show what a model of the rewards favours, and now and then anything."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from zoosim.core.errors import PolicyError
from zoosim.core.limits import IDS
from zoosim.core.parameters import parameter
from zoosim.core.state import blank, saved_length
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PastLog, Progress
from zoosim.policies.base import policy_name, reads_blocks
from zoosim.policies.candidates import AttachingPolicy
from zoosim.policies.from_log.best_guess import Weights, best_guesses
from zoosim.policies.from_log.traits import Traits
from zoosim.policies.requests import check_finite, checked_past_features, checked_request
from zoosim.policies.tabulating import TabulatingPolicy


class FromLog(AttachingPolicy, TabulatingPolicy):
    """Show the product with the highest guessed reward, and with probability `explore` any product.

    A guess follows from a representation h of the visitor, at its plainest linearly: the product's own weights times h,
    plus its traits times weights that all products share. A product that the log did not know has its traits, and
    stands for the rest as all others do in the mean.

    A subclass trains the weights in `_fit_model`; it may represent visitors and products in other ways. Rewards of the
    policy's own decisions teach it nothing: only `fit` does.
    """

    learns_online = False
    predicts = True
    row_readers = ("fit", "_fit_model")
    at_once: ClassVar = {"tabulate": ("propensities", "_guesses"), "_in_order": ("_guess",)}
    learned = ("_model", "rng")
    _model: Annotated[dict[str, np.ndarray], {"product_ids": (IDS,)}]
    past_visits: int = parameter(
        20_000, low=10, high=100_000_000, help="logged visits to learn from in a simulated shop"
    )
    explore: float = parameter(0.1, low=0, high=1, help="share of decisions spent on a random product")

    def __init__(self, spec: Any, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that cannot decide before `fit` or `load_state_dict`.

        Args:
            spec: The dimensions of its task.
            rng: The source of its random draws.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(spec, rng, **params)
        self._model = {}

    @abstractmethod
    def _fit_model(self, log: PastLog, progress: Progress) -> tuple[Traits, dict[str, FloatArray]]:
        """Train on a log of K products; return their p traits, and the arrays that make guesses, by name.

        These are `own (K + 1, D)`, whose last row stands for unknown products, `shared (p, D)`, `centre` and `scale`
        `(d_u,)`, and what else the subclass needs. Each pair of names in `_by_product` is like `own` and `shared`.
        """

    @abstractmethod
    def _shapes(self, products: int, traits: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of what `_fit_model` returns."""

    _by_product: ClassVar[Mapping[str, str]] = {"own": "shared"}
    """The names of products' own weights, and of those that products share by their traits."""

    def _represent(self, user: FloatArray) -> FloatArray:
        """Return what guesses follow from `(D,)`, of a visitor `(d_u,)`: the scaled features, after a leading 1."""
        return np.concatenate(([1.0], (user - self._model["centre"]) * self._model["scale"]))

    def _guess(self, weights: Mapping[str, FloatArray], represented: FloatArray) -> FloatArray:
        """Return the guessed rewards `(K,)` of products, by their whole weights `(K, D)`."""
        return np.asarray(weights["own"] @ represented)

    def _in_order(self, weights: Mapping[str, FloatArray]) -> Weights:
        """Return the weights by which products are in the order of their guesses, of products' whole weights."""
        return Weights(weights["own"], weights["own"][:0])

    def _candidates(self, ids: IntArray, products: FloatArray) -> dict[str, FloatArray]:
        """Return products' whole weights `(K, D)`: their own and, by their traits, those that all share."""
        model = self._model
        places = self._places(ids)
        centred = products - model["trait_mean"]
        return {
            own: model[own][places] + np.linalg.multi_dot([centred, model["trait_weights"], model[shared]])
            for own, shared in self._by_product.items()
        }

    @reads_blocks
    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Learn from a log of the past, and forget what was learned before.

        Raises:
            PolicyError: the log has other features than the policy is made for, or too few.
        """
        checked_past_features(log, self.spec)
        # By id, as `_places` searches them.
        order = np.argsort(log.product_ids)
        with threadpool_limits(1):  # with more, the last digits depend on how many there are
            traits, model = self._fit_model(log, progress)
        for name in self._by_product:
            model[name] = np.vstack([model[name][order], model[name][-1:]])
        known = {"product_ids": log.product_ids[order], "trait_mean": traits.mean, "trait_weights": traits.weights}
        self._model = {**known, **model}
        self._forget_candidates()
        return {}

    def select_action(self, context: Context) -> int:
        """Draw an action."""
        chances = self.propensities(context)
        return int(self.rng.choice(len(chances), p=chances))

    def propensities(self, context: Context) -> FloatArray:
        """Return the probability of each candidate `(K,)`; moves no state."""
        guesses, available = self._guesses(context)
        chances = self._explored(available)
        chances[guesses.argmax()] += 1.0 - self.explore
        return np.asarray(chances)

    def _explored(self, available: BoolArray) -> FloatArray:
        return np.asarray(self.explore * available / available.sum())

    def attach_block(self, product_ids: IntArray, products: FloatArray, decisions: int) -> Any:
        """Return what is derived from candidates that stay the same for a number of decisions."""
        self._check_trained()
        return self.attach(Context(product_ids=product_ids, products=products))

    def readers(self, candidates: Any, count: int) -> list[tuple[Any, Any]]:
        """Return the same arrays so many times, as reading writes nothing."""
        return [(self._model, candidates)] * count

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
        represented = np.stack([self._represent(user) for user in users])
        places, is_close = best_guesses(self._in_order(candidates), represented, masks, mask_of)
        # What rounding may decide is decided as for a single request.
        for row in np.flatnonzero(is_close).tolist():
            guesses = self._guess(candidates, represented[row])
            places[row] = int(np.where(masks[mask_of[row]], guesses, -np.inf).argmax())
        explored = [self._explored(available) for available in masks]
        for row, place in enumerate(places):
            out[row] += explored[mask_of[row]]
            out[row, place] += 1.0 - self.explore

    def recommend(self, context: Context) -> int:
        """Return the candidate with the highest guess; moves no state."""
        return int(self._guesses(context)[0].argmax())

    def predict(self, context: Context) -> FloatArray:
        """Return the guessed reward of each candidate `(K,)`, -inf for what is not available; moves no state."""
        return self._guesses(context)[0]

    def expected_rewards(self, context: Context) -> FloatArray:
        """Return the guessed reward of each candidate `(K,)`; moves no state."""
        return self._guesses(context)[0]

    def update(self, *visit: Any, **more: Any) -> None:
        """Learn nothing: the policy learns from logs alone, by `fit`."""

    def _guesses(self, context: Context) -> tuple[FloatArray, BoolArray]:
        """Return the guessed reward of each candidate `(K,)`, -inf for what is not available, and the mask `(K,)`."""
        self._check_trained()
        request = checked_request(context, self.spec)
        guesses = self._guess(self.attach(context), self._represent(request.user))
        return np.where(request.available, guesses, -np.inf), request.available

    def _check_trained(self) -> None:
        if not self._model:
            raise PolicyError(f"{policy_name(type(self))}: not trained; call fit(log) first, or load a saved state")

    def _places(self, ids: IntArray) -> IntArray:
        """Return where the weights of products `(K,)` stand; the last place for those that the log did not know."""
        known = self._model["product_ids"]
        places = np.searchsorted(known, ids)
        is_known = known[np.minimum(places, len(known) - 1)] == ids
        return np.where(is_known, places, len(known))

    def _state_loaded(self) -> None:
        self._forget_candidates()

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        model = saved.get("model")
        if not isinstance(model, Mapping) or not model:
            return {"model": {}}
        products = saved_length(model, "product_ids")
        weights = model.get("trait_weights")
        traits = weights.shape[-1] if isinstance(weights, np.ndarray) and weights.ndim else 0
        shapes = {
            "product_ids": (products,),
            "trait_mean": (self.spec.product_dim,),
            "trait_weights": (self.spec.product_dim, traits),
            **self._shapes(products, traits),
        }
        types = {name: np.int64 if name == "product_ids" else np.float64 for name in shapes}
        return {"model": {name: blank(types[name], *shape) for name, shape in shapes.items()}}

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        ids = values["model"].get("product_ids", np.zeros(1, np.int64))
        if not len(ids) or (ids[1:] <= ids[:-1]).any():
            yield "model.product_ids is empty, not sorted, or holds one twice"


def standardised(features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the inverse of the standard deviation of each column `(d,)`, 0 where it does not vary."""
    check_finite("features", np.ascontiguousarray(features))
    centre = features.mean(axis=0)
    spread = features.std(axis=0)
    scale = np.where(spread > 0.0, 1.0 / np.where(spread > 0.0, spread, 1.0), 0.0)
    return centre, scale
