"""Policies that learn from logs alone: show what a model of the rewards favours, and now and then anything."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from zoosim.core.checks import check_generator_state
from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.limits import first_flaw
from zoosim.core.parameters import parameter
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PastLog, Progress
from zoosim.policies.base import policy_name
from zoosim.policies.candidates import AttachingPolicy
from zoosim.policies.from_log.traits import Traits
from zoosim.policies.requests import check_finite, checked_past_features, checked_request


class FromLog(AttachingPolicy):
    """Show the product with the highest guessed reward, and with probability `explore` any product.

    A guess follows from a representation h of the visitor, at its plainest linearly: the product's own weights times h,
    plus its traits times weights that all products share. A product that the log did not know has its traits, and
    stands for the rest as all others do in the mean.

    A subclass trains the weights in `_fit_model`; it may represent visitors and products in other ways. Rewards of the
    policy's own decisions teach it nothing: only `fit` does.
    """

    learns_online = False
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
        self._model: dict[str, np.ndarray] = {}

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

    def _candidates(self, ids: IntArray, products: FloatArray) -> dict[str, FloatArray]:
        """Return products' whole weights `(K, D)`: their own and, by their traits, those that all share."""
        model = self._model
        places = self._places(ids)
        centred = products - model["trait_mean"]
        return {
            own: model[own][places] + np.linalg.multi_dot([centred, model["trait_weights"], model[shared]])
            for own, shared in self._by_product.items()
        }

    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Learn from a log of the past, and forget what was learned before.

        Raises:
            PolicyError: the log has other features than the policy is made for, or too few.
        """
        checked_past_features(log, self.spec)
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
        chances = self.explore * available / available.sum()
        chances[guesses.argmax()] += 1.0 - self.explore
        return np.asarray(chances)

    def recommend(self, context: Context) -> int:
        """Return the candidate with the highest guess; moves no state."""
        return int(self._guesses(context)[0].argmax())

    def predict(self, context: Context) -> FloatArray:
        """Return the guessed reward of each candidate `(K,)`, -inf for what is not available; moves no state."""
        return self._guesses(context)[0]

    def update(self, *visit: Any, **more: Any) -> None:
        """Learn nothing: the policy learns from logs alone, by `fit`."""

    def _guesses(self, context: Context) -> tuple[FloatArray, BoolArray]:
        """Return the guessed reward of each candidate `(K,)`, -inf for what is not available, and the mask `(K,)`."""
        if not self._model:
            raise PolicyError(f"{policy_name(type(self))}: not trained; call fit(log) first, or load a saved state")
        request = checked_request(context, self.spec)
        guesses = self._guess(self.attach(context), self._represent(request.user))
        return np.where(request.available, guesses, -np.inf), request.available

    def _places(self, ids: IntArray) -> IntArray:
        """Return where the weights of products `(K,)` stand; the last place for those that the log did not know."""
        known = self._model["product_ids"]
        places = np.searchsorted(known, ids)
        is_known = known[np.minimum(places, len(known) - 1)] == ids
        return np.where(is_known, places, len(known))

    def state_dict(self) -> dict[str, Any]:
        """Return copies of what was learned, and where the generator stands."""
        model = {name: array.copy() for name, array in self._model.items()}
        return {"model": model, "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a saved state; raises `ConfigError` or `DataError`, and then changes nothing, if it is broken."""
        label = f"{policy_name(type(self))}: the saved state"
        if not isinstance(state, Mapping) or set(state) != {"model", "rng"}:
            raise ConfigError(f"{label} is of another policy, or broken")
        rng_state = check_generator_state(label, state["rng"])
        model = self._checked_model(label, state["model"])
        self.rng.bit_generator.state = rng_state
        self._model = model
        self._forget_candidates()

    def _checked_model(self, label: str, model: Any) -> dict[str, np.ndarray]:
        """Return copies of saved arrays whose shapes fit together; none for a policy that had learned nothing."""
        try:
            arrays = {str(name): np.array(value) for name, value in dict(model).items()}
            if all(array.dtype.kind in "biuf" for array in arrays.values()):
                types = {name: np.int64 if name == "product_ids" else np.float64 for name in arrays}
                arrays = {name: array.astype(types[name], casting="safe") for name, array in arrays.items()}
                if not arrays or self._fits(arrays):
                    return arrays
        except (TypeError, ValueError, LookupError):
            pass
        raise ConfigError(f"{label} is of another policy, task or parameters, or broken")

    def _fits(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Return whether arrays have the names and shapes of a model, and hold numbers within their limits."""
        ids = arrays["product_ids"]
        if not len(ids) or (ids[1:] <= ids[:-1]).any():
            return False
        n_traits = arrays["trait_weights"].shape[-1]
        shapes: dict[str, tuple[int, ...]] = {
            "product_ids": (len(ids),),
            "trait_mean": (self.spec.product_dim,),
            "trait_weights": (self.spec.product_dim, n_traits),
            **self._shapes(len(ids), n_traits),
        }
        return set(arrays) == set(shapes) and all(
            arrays[name].shape == shape and (name == "product_ids" or not first_flaw(name, arrays[name]))
            for name, shape in shapes.items()
        )


def standardised(features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the inverse of the standard deviation of each column `(d,)`, 0 where it does not vary."""
    check_finite("features", np.ascontiguousarray(features))
    centre = features.mean(axis=0)
    spread = features.std(axis=0)
    scale = np.where(spread > 0.0, 1.0 / np.where(spread > 0.0, spread, 1.0), 0.0)
    return centre, scale
