"""Every built-in policy keeps the contract, and every check finds the fault that it is there for."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.caches import use_cache
from zoosim import Context, Policy, PolicySpec
from zoosim.core.errors import ConfigError, PolicyError
from zoosim.policies.checks.contract import Check, run_check
from zoosim.policies.checks.maker import Maker
from zoosim.policies.checks.policy import check_policy
from zoosim.policies.checks.products import PRODUCT_CHECKS
from zoosim.policies.checks.shop import SHOPS
from zoosim.policies.registry import BUILT_IN, find_class

NAMES = [check.name for check in PRODUCT_CHECKS]
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in BUILT_IN if "boosts" not in find_class(name).chooses),
    ("linucb", {"floor": 0.1}),
    ("adaptive", {"floor": 1.0}),
    ("greedy", {"epsilon": 0.0}),
    ("greedy", {"epsilon": 1.0}),
    ("linucb", {"alpha": 0.0, "regularization": 1e-3}),
    ("d-linucb", {"discount": 0.9}),
    ("shared-lin-ts", {"memory": "all"}),
    ("product-linucb", {"memory": "all"}),
    ("neural-linear-online", {"hidden": 3, "embedding": 2}),
    ("neural-ucb", {"form": "dual", "train_every": 7, "memory": 5}),
    ("neural-ucb", {"history": "published", "discount": 1.0, "hidden": "5-3", "mean": "network"}),
    ("neural-ucb", {"history": "published", "discount": 1.0, "hidden": "1", "normalise": False}),
    ("neural-ucb", {"form": "last-layer", "hidden": "4"}),
    ("neural-ts", {"form": "last-layer", "train_every": 7, "batch_size": 5}),
    ("neural-ts", {"form": "primal", "mean": "network"}),
    ("neural-ts", {"form": "primal", "hidden": "4", "mean": "network", "train_every": 1}),
    ("ppo", {"rollout": 10, "batch_size": 4, "hidden": "4"}),
    ("neural-linear-stable", {"memory": 20, "batch_size": 5, "train_every": 7}),
    ("cluster-linucb", {"clusters": 4, "listed": 3, "period": 5}),
]

RELATED = ("neural-linear-online", "neural-linear-head", "neural-linear-stable", "iql", "qmdp")
"""Policies that are made from the parts of others, for the slow tests."""

OF_THE_CLASS = ("makes", "acts", "inputs", "draws")
"""Checks of what a class does whatever its parameters are, which others ask along the way, too."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the models that `fit` trains out of the user's cache."""
    use_cache(monkeypatch, tmp_path / "cache")


def _label(variant: tuple[str, dict[str, Any]]) -> str:
    return "-".join([variant[0], *(f"{key}={value}" for key, value in variant[1].items())])


def _cases() -> Iterator[Any]:
    """Yield each variant with each check that its parameters can break."""
    for name, params in VARIANTS:
        for check in PRODUCT_CHECKS:
            if not params or check.name not in OF_THE_CLASS:
                marks = pytest.mark.slow if name in RELATED else ()
                yield pytest.param(name, params, check, marks=marks, id=f"{_label((name, params))}-{check.name}")


@pytest.mark.parametrize(("name", "params", "check"), list(_cases()))
def test_built_in(name: str, params: dict[str, Any], check: Check) -> None:
    run_check(check, Maker(find_class(name), params))


def test_check_policy_asks_every_check_in_order() -> None:
    results = check_policy("linucb")
    assert [result.name for result in results] == NAMES
    assert all(result.ok and result.asked and not result.message for result in results)


def test_what_a_check_needs_is_asked_before_it() -> None:
    assert all(set(check.needs) < set(NAMES[:place]) | {""} for place, check in enumerate(PRODUCT_CHECKS))


def test_the_shops_hold_what_the_checks_need() -> None:
    masks = [shop.context(visit).available for shop in SHOPS[1:] for visit in range(60)]
    assert all(mask.any() for mask in masks)
    assert {int(mask.sum()) == 1 for mask in masks} == {bool(mask.all()) for mask in masks} == {True, False}
    assert SHOPS[0].n_products == 1
    context = SHOPS[2].context(0, frozen=True)
    assert not any(context[name].flags.writeable for name in ("user", "products", "product_ids", "available"))


class Honest(Policy):
    """The mean reward of each product, no chance: keeps the contract, and is the base of what does not."""

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        super().__init__(spec, rng, **params)
        self.sums, self.counts = np.ones(20_000), np.ones(20_000)  # by the product's id

    def scores(self, context: Context) -> np.ndarray:
        means = self.sums[context.product_ids] / self.counts[context.product_ids]
        return np.where(context.available, means, -np.inf)

    def select_action(self, context: Context) -> int:
        return int(np.argmax(self.scores(context)))

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Any = None,
    ) -> None:
        product = context.product_ids[action]
        self.sums[product] += reward
        self.counts[product] += 1

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self.sums.copy(), "counts": self.counts.copy(), "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sums, self.counts = state["sums"].copy(), state["counts"].copy()
        self.rng.bit_generator.state = state["rng"]


class Uniform(Honest):
    """Draws, and says so."""

    def select_action(self, context: Context) -> int:
        return int(self.rng.choice(np.flatnonzero(context.available)))

    def propensities(self, context: Context) -> np.ndarray:
        return np.asarray(context.available / context.available.sum())


class TakesTurns(Honest):
    """Chooses otherwise at every call without drawing."""

    def select_action(self, context: Context) -> int:
        self.counts[0] += 1
        return int(np.flatnonzero(context.available)[int(self.counts[0]) % context.available.sum()])


class NotMade(Honest):
    def __init__(self, spec: PolicySpec, rng: np.random.Generator) -> None:
        raise RuntimeError("no such thing")


class NoneChosen(Honest):
    def select_action(self, context: Context) -> Any:
        return None


class FloatChosen(Honest):
    def select_action(self, context: Context) -> Any:
        return float(super().select_action(context))


class BoolChosen(Honest):
    def select_action(self, context: Context) -> Any:
        return bool(super().select_action(context))


class OutOfRange(Honest):
    def select_action(self, context: Context) -> int:
        return len(context.available)


class Negative(Honest):
    def select_action(self, context: Context) -> int:
        return -1


class NeedsHistory(Honest):
    """Cannot choose before it has learned."""

    last: int

    def select_action(self, context: Context) -> int:
        return self.last

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Any = None,
    ) -> None:
        self.last = action


class IgnoresTheMask(Honest):
    def scores(self, context: Context) -> np.ndarray:
        return np.asarray(self.sums[context.product_ids] / self.counts[context.product_ids])


class FailsWithOneLeft(Honest):
    """Keeps to the mask, except when a single product is left."""

    def select_action(self, context: Context) -> int:
        return super().select_action(context) if context.available.sum() > 1 else 0


class WritesToTheContext(Honest):
    def select_action(self, context: Context) -> int:
        context.products[:] *= 0.5
        return super().select_action(context)


class WritesInUpdate(Honest):
    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Any = None,
    ) -> None:
        super().update(context, action, reward)
        context.available[action] = False


class UnlocksTheContext(Honest):
    def select_action(self, context: Context) -> int:
        context.user.flags.writeable = True
        context.user[0] += 1
        return super().select_action(context)


class OnlyClicks(Honest):
    """Takes rewards of 0 and 1 alone."""

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Any = None,
    ) -> None:
        super().update(context, action, {0.0: 0.0, 1.0: 1.0}[reward])


class GlobalChance(Honest):
    """Draws from numpy's global generator."""

    def select_action(self, context: Context) -> int:
        return int(np.random.choice(np.flatnonzero(context.available)))  # noqa: NPY002


class SharedMemory(Honest):
    """Keeps what it learned on the class."""

    everywhere: ClassVar[dict[int, float]] = {}

    def scores(self, context: Context) -> np.ndarray:
        means = np.array([self.everywhere.get(int(product), 0.5) for product in context.product_ids])
        return np.where(context.available, means, -np.inf)

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Any = None,
    ) -> None:
        product = int(context.product_ids[action])
        self.everywhere[product] = 0.9 * self.everywhere.get(product, 0.5) + 0.1 * reward


class DoesNotAddUp(Uniform):
    def propensities(self, context: Context) -> np.ndarray:
        return np.asarray(0.9 * super().propensities(context))


class OverOne(Uniform):
    def propensities(self, context: Context) -> np.ndarray:
        return np.full(len(context.available), 1.5)


class IsNan(Uniform):
    def propensities(self, context: Context) -> np.ndarray:
        return np.full(len(context.available), np.nan)


class OneNumber(Uniform):
    def propensities(self, context: Context) -> Any:
        return 1.0


class CountsTheUnavailable(Uniform):
    def propensities(self, context: Context) -> np.ndarray:
        return np.full(len(context.available), 1 / len(context.available))


class ChoosesTheImpossible(Honest):
    """Says that it takes the last available product, takes the best."""

    def propensities(self, context: Context) -> np.ndarray:
        return np.asarray(np.arange(len(context.available)) == np.flatnonzero(context.available)[-1], float)


class MovesTheGenerator(Uniform):
    def propensities(self, context: Context) -> np.ndarray:
        self.rng.random()
        return super().propensities(context)


class MovesSomethingUnsaved(Uniform):
    """Its `propensities` move what `state_dict` does not show."""

    skip = 0

    def select_action(self, context: Context) -> int:
        allowed = np.flatnonzero(context.available)
        return int(allowed[(int(self.rng.integers(len(allowed))) + self.skip) % len(allowed)])

    def propensities(self, context: Context) -> np.ndarray:
        self.skip += 1
        return super().propensities(context)


class SaysUniformButIsGreedy(Honest):
    def propensities(self, context: Context) -> np.ndarray:
        return np.asarray(context.available / context.available.sum())


class KnowsPlaces(Honest):
    """Keeps what it learns by a product's place among the candidates."""

    def scores(self, context: Context) -> np.ndarray:
        means = self.sums[: len(context.available)] / self.counts[: len(context.available)]
        return np.where(context.available, means, -np.inf)

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Any = None,
    ) -> None:
        self.sums[action] += reward
        self.counts[action] += 1


class ExpectsRewardsAtOnce(Honest):
    """Takes each reward for that of its last decision."""

    def select_action(self, context: Context) -> int:
        self.last = context
        return super().select_action(context)

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Any = None,
    ) -> None:
        if context is not getattr(self, "last", context):
            raise RuntimeError("not my last decision")
        super().update(context, action, reward)


class FitsInSilence(Honest):
    def fit(self, log: Any, progress: Any = None) -> Any:
        return None


class DrawsInSecret(Honest):
    def select_action(self, context: Context) -> int:
        if self.rng.random() < 0.1:
            return int(self.rng.choice(np.flatnonzero(context.available)))
        return super().select_action(context)


class SavesNothing(Honest):
    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pass


class SavesHalf(Honest):
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sums = state["sums"].copy()


class SavesItself(Honest):
    """Gives out its own arrays, which learn on."""

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self.sums, "counts": self.counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sums, self.counts = state["sums"].copy(), state["counts"].copy()


class ForgetsTheGenerator(Uniform):
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sums, self.counts = state["sums"].copy(), state["counts"].copy()


BROKEN: dict[type[Policy], tuple[str, str]] = {
    NotMade: ("makes", "RuntimeError: no such thing"),
    NoneChosen: ("acts", "returned None, a NoneType; expected an integer"),
    FloatChosen: ("acts", "returned 0.0, a float; expected an integer"),
    BoolChosen: ("acts", "returned False, a bool; expected an integer"),
    OutOfRange: ("acts", "returned 1, expected 0 to 0"),
    Negative: ("acts", "returned -1, expected 0 to 0"),
    NeedsHistory: ("acts", "AttributeError"),
    IgnoresTheMask: ("available", "a shop of 5 products, only product 1 available: chose 0, which is not available"),
    FailsWithOneLeft: ("available", "only product 1 available: chose 0"),
    WritesToTheContext: ("inputs", "select_action changed context.products; copy what you want to change"),
    WritesInUpdate: ("inputs", "update changed context.available"),
    UnlocksTheContext: ("inputs", "select_action changed context.user"),
    OnlyClicks: ("learns", "KeyError: 0.5"),
    GlobalChance: ("repeats", "two objects with one seed choose"),
    SharedMemory: ("repeats", "draw only from the rng given to __init__"),
    DoesNotAddUp: ("propensities", "propensities add up to 0.9 over all actions, expected 1"),
    OverOne: ("propensities", "propensity of 0 is np.float64(1.5), expected a number from 0 to 1"),
    IsNan: ("propensities", "propensity of 0 is np.float64(nan)"),
    OneNumber: ("propensities", "propensities are float64 (), expected numbers (1,)"),
    CountsTheUnavailable: ("propensities", "expected 0: it is not available"),
    ChoosesTheImpossible: ("propensities", "whose propensity is 0; expected more than 0"),
    MovesTheGenerator: ("reads", "visit 0: propensities or recommend changed the state"),
    MovesSomethingUnsaved: ("reads", "propensities and recommend must only read"),
    SaysUniformButIsGreedy: ("honest", "times of 400, expected about 80.0 by its propensities"),
    DrawsInSecret: ("draws", "draws, but gives no propensities"),
    KnowsPlaces: ("products", "the order of the candidates changes what it learns: keep what you know by"),
    ExpectsRewardsAtOnce: ("late", "RuntimeError: not my last decision"),
    FitsInSilence: ("fits", "fit returned NoneType, expected a mapping of figures"),
    SavesNothing: ("saves", "state_dict must hold all that decisions depend on"),
    SavesHalf: ("saves", "the state after loading is not the state that was saved"),
    SavesItself: ("saves", "a saved state changed as the policy learned on; return copies"),
    ForgetsTheGenerator: ("saves", "the state after loading is not the state that was saved"),
}


@pytest.mark.parametrize("cls", [Honest, Uniform, TakesTurns])
def test_a_policy_of_ones_own_that_keeps_the_contract_passes(cls: type[Policy]) -> None:
    assert [result for result in check_policy(cls) if not result.ok] == []


@pytest.mark.parametrize("cls", BROKEN, ids=lambda cls: cls.__name__)
def test_a_broken_policy_fails_the_check_that_is_meant_for_it(cls: type[Policy]) -> None:
    results = check_policy(cls)
    check, message = BROKEN[cls]
    assert [result.name for result in results if result.asked and not result.ok] == [check]
    [failed] = [result for result in results if result.name == check]
    assert message in failed.message
    assert "\n" not in failed.message


def test_every_check_has_a_broken_policy() -> None:
    assert {check for check, _ in BROKEN.values()} == set(NAMES)


def test_what_follows_a_failed_check_is_not_asked() -> None:
    results = {result.name: result for result in check_policy(NotMade)}
    assert not any(result.ok or result.asked for name, result in results.items() if name != "makes")
    assert results["acts"].message == "not asked: it needs 'makes', which failed"


SOURCE = """
class Mine:
    def select_action(self, context):
        return int(context.available.argmax())

    def update(self, context, action, reward, feedback=None):
        return 1 / (reward - 0.5)


class TwoMethods(Mine):
    def update(self, context, action, reward, feedback=None):
        pass


class Leaves(TwoMethods):
    def select_action(self, context):
        raise SystemExit("bye")
"""


def test_a_file_is_checked_and_an_exception_comes_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    failed = [result for result in check_policy(f"{file}:Mine") if result.asked and not result.ok]
    assert [(r.name, r.message) for r in failed] == [("learns", "mine.py:7: ZeroDivisionError: float division by zero")]
    assert all(result.ok for result in check_policy(f"{file}:TwoMethods"))
    assert check_policy(f"{file}:Leaves")[1].message == "mine.py:17: SystemExit: bye"
    for module in [name for name in sys.modules if name.startswith("zoosim_user_mine_")]:
        del sys.modules[module]


def test_a_policy_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown policy 'lin-ucb'"):
        check_policy("lin-ucb")
    with pytest.raises(PolicyError, match="lacks select_action and update"):
        check_policy(int)


class Historian(Honest):
    """Wants a past, more than it will get here."""

    past_visits = 100_000
    seen: ClassVar[list[int]] = []

    def fit(self, log: Any, progress: object = None) -> dict[str, float]:
        self.seen.append(len(log))
        products = log.product_ids[log.actions]
        np.add.at(self.sums, products, log.rewards)
        np.add.at(self.counts, products, 1)
        return {}


def test_a_policy_that_wants_a_past_gets_a_short_one() -> None:
    assert all(result.ok for result in check_policy(Historian))
    assert set(Historian.seen) == {60, 600}
