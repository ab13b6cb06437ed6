"""Every built-in boost policy keeps the contract, and every check finds the fault that it is there for."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

import zoosim
from zoosim import Context
from zoosim.core.errors import ConfigError, DataError, PolicyError, ZoosimError
from zoosim.core.types import FloatArray
from zoosim.policies.boosts.base import BoostPolicy, BoostSpec
from zoosim.policies.boosts.simple import ConstantBoosts, NormalBoosts, RandomBoosts
from zoosim.policies.checks.boosts import BOOST_CHECKS
from zoosim.policies.checks.contract import Check, run_check
from zoosim.policies.checks.maker import Maker
from zoosim.policies.checks.policy import check_policy
from zoosim.policies.checks.sameness import same
from zoosim.policies.checks.search_shop import LARGER, SMALL
from zoosim.policies.registry import BUILT_IN, find_class

NAMES = [check.name for check in BOOST_CHECKS]
BOOSTERS = [name for name in BUILT_IN if find_class(name).chooses == ("boosts",)]


@pytest.mark.parametrize("check", BOOST_CHECKS, ids=NAMES)
@pytest.mark.parametrize("name", BOOSTERS)
def test_built_in(name: str, check: Check) -> None:
    run_check(check, Maker(find_class(name)))


class Honest(RandomBoosts):
    """Draws around the mean of what has paid; the base of what breaks the contract."""

    name = "honest"

    def __init__(self, spec: BoostSpec, rng: np.random.Generator, **params: Any) -> None:
        super().__init__(spec, rng, **params)
        self.total, self.mean = 1.0, np.zeros(spec.product_dim)

    def select_action(self, context: Context) -> FloatArray:
        return np.clip(
            self.recommend(context) + 0.5 * super().select_action(context), -self.spec.a_max, self.spec.a_max
        )

    def recommend(self, context: Context) -> FloatArray:
        return self.mean / self.total

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        self.total += reward
        self.mean = self.mean + reward * action

    def density(self, context: Context, action: Any) -> float:
        raise PolicyError("honest: has no density")

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "total": self.total, "mean": self.mean.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.total, self.mean = state["total"], state["mean"].copy()


class NotMade(Honest):
    def __init__(self, spec: BoostSpec, rng: np.random.Generator) -> None:
        raise RuntimeError("no such thing")


class OutOfTheBox(Honest):
    def recommend(self, context: Context) -> FloatArray:
        return np.full(self.spec.product_dim, 1.001 * self.spec.a_max)


class LeavesTheBox(Honest):
    def select_action(self, context: Context) -> FloatArray:
        return super().select_action(context) * min(self.total, 20.0) / 2.0


class Writes(Honest):
    def select_action(self, context: Context) -> FloatArray:
        if context.base_scores.flags.writeable:
            context.base_scores[:] = 0.0
        return super().select_action(context)


class Forgets(Honest):
    draws: ClassVar[int] = 0

    def select_action(self, context: Context) -> FloatArray:
        Forgets.draws += 1
        return np.full(self.spec.product_dim, self.spec.a_max / Forgets.draws)


class Moves(Honest):
    def recommend(self, context: Context) -> FloatArray:
        self.total += 1.0
        return np.zeros(self.spec.product_dim)


class Trusts(Honest):
    def update(
        self,
        context: Context,
        action: Any,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        self.learn(
            context, np.clip(np.nan_to_num(action), -1, 1), float(np.clip(np.nan_to_num(reward), 0, 9)), feedback
        )


class LearnsOutside(Trusts):
    """Refuses what is no number, and nothing else."""

    def update(
        self,
        context: Context,
        action: Any,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        if not np.isfinite(reward) or not np.isfinite(action).all():
            raise DataError("no number")
        super().update(context, action, reward, feedback)


class Checks(Trusts):
    """Refuses when it is too late."""

    def update(
        self,
        context: Context,
        action: Any,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        super().update(context, action, reward, feedback)
        if not np.isfinite(reward) or not np.isfinite(action).all():
            raise DataError("too late")


class NoChance(Honest):
    def density(self, context: Context, action: Any) -> float:
        return 0.0


class Exaggerates(RandomBoosts):
    """Gives a density that is a tenth too high."""

    name = "exaggerates"

    def density(self, context: Context, action: Any) -> float:
        return 1.1 * super().density(context, action)


class Uncut(NormalBoosts):
    """Draws from a normal law, and puts what lies outside the box on its side."""

    name = "uncut"
    spread: float = zoosim.parameter(0.9, low=0.01, high=100, help="the standard deviation, in units of a_max")

    def select_action(self, context: Context) -> FloatArray:
        drawn = self.rng.normal(self._centre, self.spread * self.spec.a_max)
        return np.clip(drawn, -self.spec.a_max, self.spec.a_max)


class LearnsTheLast(Honest):
    """Takes every reward for that of its last decision."""

    last: FloatArray

    def select_action(self, context: Context) -> FloatArray:
        self.last = context.features[:4].clip(0.0, self.spec.a_max)
        return super().select_action(context)

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        super().learn(context, getattr(self, "last", action), reward, feedback)


class LearnsItsOwn(Honest):
    """Wants to have decided whatever it learns about."""

    def select_action(self, context: Context) -> FloatArray:
        self.decided = True
        return super().select_action(context)

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        assert self.decided
        super().learn(context, action, reward, feedback)


class KeepsPlaces(Honest):
    """Keeps what it knows of products by their place among the candidates, and boosts with the first one's features."""

    def recommend(self, context: Context) -> FloatArray:
        self.check(context)
        boosts: FloatArray = 0.5 * self.spec.a_max * np.clip(context.boost_features[0], -1.0, 1.0)
        return boosts


class CountsOn(Honest):
    """Counts on the products of its first request."""

    count = 0

    def select_action(self, context: Context) -> FloatArray:
        self.count = self.count or len(context.product_ids)
        assert len(context.product_ids) == self.count
        return super().select_action(context)


class KeepsTables(Honest):
    """Derives something from the first table that it sees, and keeps it."""

    dear: FloatArray | None = None

    def recommend(self, context: Context) -> FloatArray:
        if self.dear is None:
            self.dear = context.product_table.price.max()
        return np.full(self.spec.product_dim, 0.1 * self.spec.a_max * np.tanh(0.1 * self.dear))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.dear = None


class Keeps(Honest):
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.total = state["total"]


BROKEN: dict[type[Any], tuple[str, str]] = {
    NotMade: ("makes", "no such thing"),
    OutOfTheBox: ("acts", "expected 4 numbers in [-0.5, 0.5]"),
    LeavesTheBox: ("learns", "expected boosts from -0.5 to 0.5"),
    Writes: ("inputs", "select_action changed context.base_scores"),
    Forgets: ("repeats", "two objects with one seed choose"),
    Moves: ("recommends", "moved the state"),
    Trusts: ("refuses", "update took a reward of nan"),
    Checks: ("refuses", "has moved the state"),
    LearnsOutside: ("refuses", "update took a reward of 1.0 for [1. 1. 1. 1.]; expected it to refuse"),
    NoChance: ("density", "has density 0.0"),
    Exaggerates: ("honest", "its draws weigh 0.9"),
    Uncut: ("honest", "by its density, expected 1"),
    LearnsTheLast: ("late", "update learns about the last decision"),
    LearnsItsOwn: ("late", "decided"),
    KeepsPlaces: ("candidates", "products in another order get other boosts"),
    CountsOn: ("candidates", "AssertionError"),
    KeepsTables: ("candidates", "the answer goes by those before"),
    Keeps: ("saves", "the state after loading is not the state that was saved"),
}


def test_a_policy_that_keeps_the_contract_passes_every_check() -> None:
    results = check_policy(Honest)
    assert [result.name for result in results] == NAMES
    assert [result for result in results if not result.ok] == []


@pytest.mark.parametrize("cls", BROKEN, ids=lambda cls: cls.__name__)
def test_a_broken_policy_fails_the_check_that_is_meant_for_it(cls: type[BoostPolicy]) -> None:
    check, message = BROKEN[cls]
    failed = [result for result in check_policy(cls) if result.asked and not result.ok]
    assert [result.name for result in failed] == [check]
    assert message in failed[0].message
    assert "\n" not in failed[0].message


def test_every_check_has_a_broken_policy() -> None:
    assert {check for check, _ in BROKEN.values()} == set(NAMES)


def test_random_boosts_have_the_density_of_the_box() -> None:
    policy, context = RandomBoosts(SMALL.spec, np.random.default_rng(0)), SMALL.context(0)
    assert policy.density(context, np.full(4, 2.0)) == 4.0**-4
    assert policy.density(context, np.array([0.0, 0.0, 0.0, 2.1])) == 0.0


def test_normal_boosts_have_the_density_of_scipys_law_and_draw_by_it() -> None:
    """Against scipy's truncated normal; means of 2,000 draws within five standard errors of its means."""
    policy = NormalBoosts(SMALL.spec, np.random.default_rng(0), boosts="0.9 0 -0.5 0", spread=0.4)
    context, centre, scale = SMALL.context(0), np.array([1.8, 0.0, -1.0, 0.0]), 0.8
    law = stats.truncnorm((-2.0 - centre) / scale, (2.0 - centre) / scale, loc=centre, scale=scale)
    drawn = np.array([policy.select_action(context) for _ in range(2_000)])
    for action in drawn[:20]:
        assert policy.density(context, action) == pytest.approx(law.pdf(action).prod(), rel=1e-10)
    assert (np.abs(drawn.mean(axis=0) - law.mean()) < 5 * law.std() / np.sqrt(2_000)).all()
    assert policy.density(context, np.array([0.0, 0.0, 0.0, 2.1])) == 0.0
    assert policy.recommend(context).tolist() == centre.tolist()


def test_constant_boosts_are_in_units_of_the_box() -> None:
    policy = ConstantBoosts(SMALL.spec, np.random.default_rng(0), boosts="1 0 -0.5 0")
    assert policy.recommend(SMALL.context(0)).tolist() == [2.0, 0.0, -1.0, 0.0]


@pytest.mark.parametrize("boosts", ["", "one", "1 2 3 4", "0 0", "nan"])
def test_constant_boosts_outside_the_box_are_refused(boosts: str) -> None:
    message = f"constant-boosts.boosts: got {boosts!r}, expected 4 numbers from -1 to 1"
    with pytest.raises(ConfigError, match=re.escape(message)):
        ConstantBoosts(SMALL.spec, np.random.default_rng(0), boosts=boosts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"a_max": 0.0}, "BoostSpec.a_max: got 0.0"),
        ({"n_tastes": 4}, "got 9 named columns, expected at most user_dim = 8"),
        ({"n_categories": 0}, "BoostSpec.n_categories: got 0, expected a whole number, 1 to"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        BoostSpec(**{**LARGER.spec.__dict__, **changes})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_tastes": 3}, "BoostSpec.n_tastes: got 3, expected 2"),
        ({"k": 0}, "BoostSpec.k: got 0, expected a whole number"),
    ],
)
def test_a_spec_that_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(SMALL.spec, **change)


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.parametrize("ids", [np.arange(11), np.arange(12.0), 3, "toys"])
def test_product_ids_that_do_not_fit_are_refused(name: str, ids: Any) -> None:
    policy, context = find_class(name)(SMALL.spec, np.random.default_rng(0)), SMALL.context(0)
    wrong = Context(**{**context, "product_ids": ids})
    with pytest.raises(DataError, match=f"{name}: product_ids: got .*, expected 12 whole numbers"):
        policy.update(wrong, np.zeros(4), 1.0, SMALL.feedback(0, np.zeros(4))[1])


@pytest.mark.parametrize("name", BOOSTERS)
def test_boosts_have_no_propensities_and_few_learn_from_a_log(name: str) -> None:
    policy: Any = find_class(name)(SMALL.spec, np.random.default_rng(0))
    with pytest.raises(PolicyError, match=f"{name}: chooses boosts, which have a density and no propensities"):
        policy.propensities(SMALL.context(0))
    if name != "q-offline":
        with pytest.raises(
            PolicyError,
            match=r"learns (nothing|from what visitors were shown, which the log does not|from visitors as they come)",
        ):
            policy.fit({})


@pytest.mark.parametrize("name", BOOSTERS)
def test_boosts_outside_the_box_are_not_learned_from(name: str) -> None:
    """What rounding adds is inside; the message names the boost and the box."""
    policy = find_class(name)(SMALL.spec, np.random.default_rng(0))
    before, edge = policy.state_dict(), np.array([2.0, -2.0, 0.0, 0.0])
    for boosts in (1.01 * edge, -1e8 * edge):
        with pytest.raises(PolicyError, match=rf"{name}: action: got .* as boost 0, expected boosts from -2 to 2"):
            policy.update(SMALL.context(0), boosts, 1.0, SMALL.feedback(0, edge)[1])
    assert same(policy.state_dict(), before)
    policy.update(SMALL.context(0), edge * (1.0 + 1e-12), *SMALL.feedback(0, edge))


BROKEN_RNG = {"bit_generator": "PCG64", "state": {"state": "x", "inc": 1}, "has_uint32": 0, "uinteger": 0}


@pytest.mark.parametrize("name", ["random-boosts", "normal-boosts", "q-ensemble", "rank-guardrail"])
def test_a_broken_state_is_refused_before_anything_moves(name: str) -> None:
    """Nothing at all, text, an empty one, or one part that is broken."""
    policy, context = find_class(name)(SMALL.spec, np.random.default_rng(0)), SMALL.context(0)
    for visit in range(3):
        policy.update(context, np.zeros(4), 1.0, SMALL.feedback(visit, np.zeros(4))[1])
    good = policy.state_dict()
    other = find_class(name)(SMALL.spec, np.random.default_rng(1))
    before = other.state_dict()
    states: list[Any] = [None, "text", {}]
    for state in [*states, *({**good, key: value} for key in good for value in (None, "text", BROKEN_RNG))]:
        with pytest.raises(ZoosimError):
            other.load_state_dict(state)
        assert same(other.state_dict(), before)
    other.load_state_dict(good)
    assert same(other.state_dict(), good)
