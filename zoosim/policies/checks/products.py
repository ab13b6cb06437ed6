"""The contract of a policy as a list of checks, for the tests and for `zoosim check-policy`.

Each check plays a few small made-up shops: one product, masks, features that are no one-hot labels. Every check hands
out fresh arrays, so each fault is found by the one check that asks about it.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from zoosim.core.blame import source_file, user_place
from zoosim.core.parameters import parameters_of
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec
from zoosim.policies.base import Policy
from zoosim.policies.checks.sameness import same
from zoosim.policies.registry import find_class

VISITS = 60
ASKED = 200
"""How often a policy is asked the same thing to see whether it draws."""

NEAR = 0.25
"""How far apart two distributions of one policy may be on average when only draws differ."""


class ContractViolation(Exception):
    """A policy does not keep the contract; the message says in one line where and what was expected."""


@dataclass(frozen=True)
class Check:
    """One question about a policy; `run` raises `ContractViolation` when the answer is no.

    A check is asked when all that it `needs` went well: a policy that cannot be made is not told so twelve times.
    """

    name: str
    question: str
    run: Callable[["Maker"], None]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckResult:
    """How a check ended; one that was not `asked`, because one before it failed, is not `ok` either."""

    name: str
    ok: bool
    message: str = ""
    asked: bool = True


@dataclass(frozen=True)
class Shop:
    """A made-up task: `VISITS` visitors of `n_users`, and a click table that depends on the product alone."""

    name: str
    n_products: int
    user_dim: int
    product_dim: int
    n_users: int
    seed: int

    @cached_property
    def spec(self) -> PolicySpec:
        """The spec that policies are made with."""
        return PolicySpec(user_dim=self.user_dim, product_dim=self.product_dim, n_users=self.n_users, steps=VISITS)

    @cached_property
    def _arrays(self) -> tuple[FloatArray, FloatArray, IntArray, BoolArray, FloatArray]:
        """Draw users, products, visitors `(VISITS,)`, masks `(VISITS, K)` and rewards `(VISITS, K)`."""
        rng = np.random.default_rng(self.seed)
        k = self.n_products
        users = rng.normal(0, 1, (self.n_users, self.user_dim)) * (rng.random((self.n_users, self.user_dim)) < 0.8)
        products = rng.normal(0, 1, (k, self.product_dim)) * (rng.random((k, self.product_dim)) < 0.8)
        masks = rng.random((VISITS, k)) < 0.6
        masks[::4] = True
        masks[1::4] = False
        masks[np.arange(VISITS), rng.integers(0, k, VISITS)] = True
        rewards = (rng.random((VISITS, k)) < np.linspace(0.1, 0.7, k)).astype(np.float64)
        return users, products, rng.integers(0, self.n_users, VISITS), masks, rewards

    def context(self, visit: int, available: Iterable[bool] | None = None, *, frozen: bool = False) -> Context:
        """Return the context of a visit in fresh arrays, writable or `frozen`; `available` replaces its mask."""
        users, products, visitors, masks, _ = self._arrays
        user_id = int(visitors[visit % VISITS])
        arrays: dict[str, np.ndarray] = {
            "user": users[user_id].copy(),
            "product_ids": self.product_ids,
            "products": products.copy(),
            "available": masks[visit % VISITS].copy() if available is None else np.array(list(available)),
        }
        for array in arrays.values():
            array.flags.writeable = not frozen
        return Context(user_id=user_id, **arrays)

    @property
    def product_ids(self) -> IntArray:
        """Return the ids of the products `(K,)`: numbers that are no places among the candidates."""
        return 100 + 7 * np.arange(self.n_products)

    def rearranged(self, visit: int, places: IntArray, newcomers: int = 0) -> Context:
        """Return the context of a visit with the products at `places`, in that order, and some new ones behind."""
        context = self.everything(visit)
        fresh = np.random.default_rng(self.seed + 2).normal(0, 1, (newcomers, self.product_dim))
        return Context(
            user_id=context.user_id,
            user=context.user,
            product_ids=np.concatenate([context.product_ids[places], 10_000 + np.arange(newcomers)]),
            products=np.vstack([context.products[places], fresh]),
            available=np.ones(len(places) + newcomers, bool),
        )

    def everything(self, visit: int) -> Context:
        """Return the context of a visit with every product available."""
        return self.context(visit, np.ones(self.n_products, bool))

    def reward(self, visit: int, action: int) -> float:
        """Return what `action` earns at a visit."""
        return float(self._arrays[4][visit % VISITS, action])

    def log(self, visits: int) -> "ShopLog":
        """Return a past of uniformly random choices, as `Policy.fit` takes it."""
        rng = np.random.default_rng(self.seed + 1)
        users, products, _, _, _ = self._arrays
        user_ids = rng.integers(0, self.n_users, visits)
        return ShopLog(
            actions=rng.integers(0, self.n_products, visits),
            rewards=(rng.random(visits) < 0.3).astype(np.float64),
            propensities=np.full(visits, 1 / self.n_products),
            features=users[user_ids],
            products=products,
            user_ids=user_ids,
            product_ids=self.product_ids,
        )


@dataclass(frozen=True)
class ShopLog:
    """A log of a made-up shop in which every product could always be shown; see `PastLog`."""

    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    features: FloatArray
    products: FloatArray
    user_ids: IntArray
    product_ids: IntArray

    def __len__(self) -> int:
        return len(self.actions)

    def available(self, start: int, stop: int) -> BoolArray:
        """Return what could be shown in rows `start` to `stop - 1`: everything."""
        return np.ones((stop - start, len(self.products)), bool)


ONE_PRODUCT = Shop("a shop of 1 product", n_products=1, user_dim=1, product_dim=1, n_users=1, seed=1)
SMALL = Shop("a shop of 5 products", n_products=5, user_dim=3, product_dim=2, n_users=4, seed=2)
LARGER = Shop("a shop of 12 products", n_products=12, user_dim=6, product_dim=4, n_users=30, seed=3)
APART = Shop("a shop of 6 products", n_products=6, user_dim=1, product_dim=6, n_users=1, seed=4)
SHOPS = (ONE_PRODUCT, SMALL, LARGER)


@dataclass(frozen=True)
class Maker:
    """Makes policies of one class; a `past_visits` that the class declares as a parameter is set low."""

    cls: type[Policy]
    params: Mapping[str, Any] = field(default_factory=dict)

    def fresh(self, shop: Shop, seed: int) -> Policy:
        """Make a policy that has seen nothing."""
        declared = parameters_of(self.cls).get("past_visits")
        params = dict(self.params)
        if declared is not None:
            params.setdefault("past_visits", max(VISITS, int(declared.low or 0)))
        return self.cls(shop.spec, np.random.default_rng(seed), **params)

    def ready(self, shop: Shop, seed: int) -> Policy:
        """Make a policy that can decide: one that wants a past has learned from a short one."""
        policy = self.fresh(shop, seed)
        if policy.past_visits:
            policy.fit(shop.log(min(policy.past_visits, 10 * VISITS)))
        return policy

    @property
    def draws_openly(self) -> bool:
        """Whether the class defines `propensities` itself."""
        return self.cls.propensities is not Policy.propensities


def check_policy(source: str | type) -> list[CheckResult]:
    """Ask every check about a policy: a built-in name, `FILE.py:Class` or a class.

    Raises `PolicyError` or `ConfigError` when there is no such class.
    """
    maker = Maker(find_class(source))
    results = dict[str, CheckResult]()
    for check in checks_of(maker.cls):
        failed = [name for name in check.needs if not results[name].ok]
        if failed:
            message = f"not asked: it needs {failed[0]!r}, which failed"
            results[check.name] = CheckResult(check.name, False, message, asked=False)
        else:
            results[check.name] = _result(check, maker)
    return list(results.values())


def checks_of(cls: type[Policy]) -> tuple[Check, ...]:
    """Return the checks for a class: those of boost policies, or `CHECKS`."""
    from zoosim.policies.boosts.base import BoostPolicy
    from zoosim.policies.checks.boosts import BOOST_CHECKS

    return BOOST_CHECKS if issubclass(cls, BoostPolicy) else CHECKS


def run_check(check: Check, maker: Maker) -> None:
    """Ask one check; raises `ContractViolation`, also for whatever the policy raised, with the place in its file."""
    try:
        check.run(maker)
    except ContractViolation:
        raise
    except (Exception, SystemExit) as error:
        place = user_place(error, source_file(maker.cls))
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
        raise ContractViolation(f"{place}: {reason}" if place else reason) from error


def _result(check: Check, maker: Maker) -> CheckResult:
    try:
        run_check(check, maker)
    except ContractViolation as violation:
        return CheckResult(check.name, False, str(violation))
    return CheckResult(check.name, True)


def _makes(maker: Maker) -> None:
    for shop in SHOPS:
        maker.ready(shop, 0)


def _acts(maker: Maker) -> None:
    for shop in SHOPS:
        policy = maker.ready(shop, 0)
        for visit in range(5):
            action: Any = policy.select_action(shop.everything(visit))
            if isinstance(action, bool) or not isinstance(action, int | np.integer):
                kind = type(action).__name__
                raise ContractViolation(f"select_action returned {action!r}, a {kind}; expected an integer")
            if not 0 <= action < shop.n_products:
                raise ContractViolation(f"select_action returned {action}, expected 0 to {shop.n_products - 1}")


def _chooses_what_is_available(maker: Maker) -> None:
    for shop in SHOPS:
        for only in range(shop.n_products):
            context = shop.context(only, np.arange(shop.n_products) == only)
            _must_be_available(maker.ready(shop, 0), context, f"{shop.name}, only product {only} available")
        policy = maker.ready(shop, 0)
        for visit in range(VISITS):
            context = shop.context(visit)
            action = _must_be_available(policy, context, f"{shop.name}, visit {visit}")
            policy.update(context, action, shop.reward(visit, action))


def _must_be_available(policy: Policy, context: Context, where: str) -> int:
    action = int(policy.select_action(context))
    if not 0 <= action < len(context.available) or not context.available[action]:
        raise ContractViolation(f"{where}: chose {action}, which is not available (see context.available)")
    return action


def _leaves_inputs_alone(maker: Maker) -> None:
    """Hand out writable arrays first, so that the change is named; then frozen ones, as a run does."""
    for frozen in (False, True):
        for shop in SHOPS:
            policy = maker.ready(shop, 0)
            for visit in range(5):
                context = shop.context(visit, frozen=frozen)
                before = shop.context(visit)
                action = int(policy.select_action(context))
                _must_be_as_before(context, before, "select_action", shop)
                policy.propensities(context)
                _must_be_as_before(context, before, "propensities", shop)
                policy.recommend(context)
                _must_be_as_before(context, before, "recommend", shop)
                policy.update(context, action, 1.0)
                _must_be_as_before(context, before, "update", shop)


def _must_be_as_before(context: Context, before: Context, method: str, shop: Shop) -> None:
    changed = [name for name in before if name not in context or not same(context[name], before[name])]
    changed += sorted(set(context) - set(before))
    if changed:
        raise ContractViolation(f"{shop.name}: {method} changed context.{changed[0]}; copy what you want to change")


def _learns(maker: Maker) -> None:
    for shop in SHOPS:
        policy = maker.ready(shop, 0)
        for visit in range(VISITS):
            context = shop.everything(visit)
            action = int(policy.select_action(context))
            reward = (0.0, 1.0, 0.5)[visit % 3]
            policy.update(context, action, reward, {"shown": np.array([action]), "clicks": np.array([reward > 0])})


def _repeats(maker: Maker) -> None:
    for shop in SHOPS:
        one, two = (_walk(maker.ready(shop, 7), shop) for _ in range(2))
        _must_be_equal(one, two, f"{shop.name}: two objects with one seed", "draw only from the rng given to __init__")


def _gives_propensities(maker: Maker) -> None:
    for shop in SHOPS:
        policy = maker.ready(shop, 0)
        for visit in range(20):
            context = shop.context(visit)
            where = f"{shop.name}, visit {visit}"
            chances = _chances(policy, context, where)
            action = int(policy.select_action(context))
            if not chances[action] > 0:
                raise ContractViolation(f"{where}: chose {action}, whose propensity is 0; expected more than 0")
            policy.update(context, action, shop.reward(visit, action))


def _chances(policy: Policy, context: Context, where: str) -> FloatArray:
    """Return the propensity of every action, each checked, and so is their sum."""
    chances = np.asarray(policy.propensities(context))
    if chances.shape != context.available.shape or chances.dtype.kind != "f":
        expected = f"expected numbers {context.available.shape}"
        raise ContractViolation(f"{where}: propensities are {chances.dtype} {chances.shape}, {expected}")
    for action, chance in enumerate(chances):
        if not 0 <= chance <= 1 + 1e-9:
            raise ContractViolation(f"{where}: propensity of {action} is {chance!r}, expected a number from 0 to 1")
        if chance > 0 and not context.available[action]:
            raise ContractViolation(f"{where}: propensity of {action} is {chance:g}, expected 0: it is not available")
    if abs(chances.sum() - 1) > 1e-9:
        raise ContractViolation(f"{where}: propensities add up to {chances.sum():.10g} over all actions, expected 1")
    return chances


def _propensities_only_read(maker: Maker) -> None:
    asked = maker.ready(SMALL, 7)
    not_asked = maker.ready(SMALL, 7)
    for visit in range(VISITS // 2):
        context = SMALL.context(visit)
        before = copy.deepcopy(asked.state_dict())
        asked.propensities(context)
        recommended = asked.recommend(context)
        if not context.available[recommended]:
            raise ContractViolation(f"visit {visit}: recommended {recommended}, which is not available")
        if not same(asked.state_dict(), before):
            raise ContractViolation(
                f"visit {visit}: propensities or recommend changed the state (see state_dict); they must only read"
            )
        _must_be_equal(
            _walk(asked, SMALL, visit, 1),
            _walk(not_asked, SMALL, visit, 1),
            f"visit {visit}, one object asked for propensities and one not",
            "propensities and recommend must only read",
        )


def _propensities_are_honest(maker: Maker) -> None:
    """Compare how often each action is chosen with its propensities; 5 standard errors are let pass, and a little."""
    if not maker.draws_openly:
        return
    policy = maker.ready(SMALL, 0)
    _walk(policy, SMALL)
    counts, expected, variance = np.zeros((3, SMALL.n_products))
    for _ in range(2 * ASKED):
        context = SMALL.everything(0)
        chances = policy.propensities(context)
        counts[int(policy.select_action(context))] += 1
        expected += chances
        variance += chances * (1 - chances)
    excess = np.abs(counts - expected) - 5 * np.sqrt(variance) - 1e-6
    worst = int(np.argmax(excess))
    if excess[worst] > 0:
        seen = f"chose {worst} {counts[worst]:.0f} times of {2 * ASKED}"
        raise ContractViolation(f"{seen}, expected about {expected[worst]:.1f} by its propensities")


def _knows_products_by_id(maker: Maker) -> None:
    _learns_alike_in_any_order(maker)
    _goes_on_as_products_change(maker)


def _learns_alike_in_any_order(maker: Maker) -> None:
    """Teach two policies the same, of products in one order and in changing ones.

    Distributions are compared by their total variation distance: 256 draws of a policy that samples leave some .1.
    """
    everything = np.arange(APART.n_products)
    taught = []
    for moves in (False, True):
        policy = maker.ready(APART, 0)
        for turn in range(20):
            order = np.roll(everything, turn) if moves else everything
            for place, product in sorted(enumerate(order), key=lambda pair: pair[1]):
                policy.update(_of_apart(order), place, _reward_of_apart(int(product), turn))
        taught.append(policy.propensities(_of_apart(everything)))
    distance = 0.5 * np.abs(taught[0] - taught[1]).sum()
    if distance > NEAR:
        raise ContractViolation(
            "the order of the candidates changes what it learns: keep what you know by context.product_ids "
            f"(total variation distance {distance:.2f})"
        )


def _goes_on_as_products_change(maker: Maker) -> None:
    policy = maker.ready(LARGER, 0)
    everything = np.arange(LARGER.n_products)
    for visit in range(VISITS):
        for places, newcomers in ((everything[3:], 0), (everything[::-1], 8), (everything[:4], 2)):
            context = LARGER.rearranged(visit, places, newcomers)
            where = f"{LARGER.name}, {len(context.available)} candidates"
            action = _must_be_available(policy, context, where)
            policy.update(context, action, float(visit % 2))
            _chances(policy, context, where)


def _reward_of_apart(product: int, turn: int) -> float:
    """Return the reward of a product at a turn: 1 in (product + 1) / (n + 1) of the turns, evenly spread."""
    share = (product + 1) / (APART.n_products + 1)
    return float(int(share * (turn + 1)) > int(share * turn))


def _of_apart(places: IntArray) -> Context:
    """Return a request of the shop `APART` with its products in another order."""
    return Context(
        user_id=0,
        user=np.ones(1),
        product_ids=APART.product_ids[places],
        products=np.eye(APART.n_products)[places],
        available=np.ones(len(places), bool),
    )


def _learns_late(maker: Maker) -> None:
    """Leave many decisions open, then learn from them in any order, while the candidates are others."""
    for shop in (SMALL, LARGER):
        policy = maker.ready(shop, 0)
        everything = np.arange(shop.n_products)
        waiting = []
        for visit in range(5 * VISITS):
            context = shop.rearranged(visit, everything[visit % 3 :], visit % 2)
            waiting.append((visit, context, _must_be_available(policy, context, f"{shop.name}, visit {visit}")))
        for index in np.random.default_rng(1).permutation(len(waiting)):
            visit, context, action = waiting[index]
            policy.update(context, action, float(visit % 2))
        _chances(policy, shop.everything(0), f"{shop.name}, after late rewards")


def _fits(maker: Maker) -> None:
    for shop in (SMALL, LARGER):
        policy = maker.fresh(shop, 0)
        figures: Any = policy.fit(shop.log(VISITS))
        if not isinstance(figures, Mapping):
            raise ContractViolation(f"fit returned {type(figures).__name__}, expected a mapping of figures")
        _chances(policy, shop.everything(0), f"{shop.name}, after fit")


def _draws_openly(maker: Maker) -> None:
    """Find a policy that draws, but leaves the base class to say that it does not.

    It draws when it answers the same question in different ways without learning in between, and with another
    generator in other ways: a policy that only takes turns answers alike.
    """
    if maker.draws_openly:
        return
    policies = [maker.ready(SMALL, seed) for seed in (0, 1)]
    one, two = ([int(p.select_action(SMALL.everything(0))) for _ in range(ASKED)] for p in policies)
    if len(set(one)) > 1 and one != two:
        raise ContractViolation("draws, but gives no propensities: write propensities(context) -> (K,)")


def _saves(maker: Maker) -> None:
    for shop in SHOPS:
        policy = maker.ready(shop, 0)
        advice = "state_dict must hold all that decisions depend on"
        _walk(policy, shop)
        saved = policy.state_dict()
        kept = copy.deepcopy(saved)
        loaded = maker.fresh(shop, 1)
        loaded.load_state_dict(copy.deepcopy(saved))
        if not same(loaded.state_dict(), kept):
            raise ContractViolation(f"{shop.name}: the state after loading is not the state that was saved")
        one = _walk(policy, shop)
        two = _walk(loaded, shop)
        _must_be_equal(one, two, f"{shop.name}: the original and one loaded from its state", advice)
        if not same(policy.state_dict(), loaded.state_dict()):
            raise ContractViolation(f"{shop.name}: both learned the same after loading, yet their states differ")
        if not same(saved, kept):
            raise ContractViolation(f"{shop.name}: a saved state changed as the policy learned on; return copies")


def _walk(policy: Policy, shop: Shop, start: int = 0, visits: int = VISITS) -> list[int]:
    """Let `policy` decide and learn; return its actions."""
    actions = []
    for visit in range(start, start + visits):
        context = shop.context(visit)
        actions.append(int(policy.select_action(context)))
        policy.update(context, actions[-1], shop.reward(visit, actions[-1]))
    return actions


def _must_be_equal(one: list[int], two: list[int], who: str, advice: str) -> None:
    for visit, (a, b) in enumerate(zip(one, two, strict=True)):
        if a != b:
            raise ContractViolation(f"{who} choose {a} and {b} at decision {visit}; {advice}")


CHECKS = (
    Check("makes", "Is it made by Class(spec, rng)?", _makes),
    Check("acts", "Does it choose an integer in range, before it has learned?", _acts, ("makes",)),
    Check("learns", "Does it learn from rewards of 0, 1 and 0.5?", _learns, ("acts",)),
    Check("available", "Does it only choose what is available?", _chooses_what_is_available, ("learns",)),
    Check("inputs", "Does it leave contexts as they are?", _leaves_inputs_alone, ("learns",)),
    Check("repeats", "Does it choose the same again under the same seed?", _repeats, ("available",)),
    Check("propensities", "Do its propensities add up to 1?", _gives_propensities, ("repeats",)),
    Check("reads", "Do propensities and recommend only read?", _propensities_only_read, ("propensities",)),
    Check(
        "honest",
        "Does it choose as often as its propensities say?",
        _propensities_are_honest,
        ("propensities", "reads"),
    ),
    Check("draws", "Does a policy that draws give propensities?", _draws_openly, ("repeats",)),
    Check("products", "Does it know products by id, as they come and go?", _knows_products_by_id, ("propensities",)),
    Check("late", "Does it learn from rewards that come late, in any order?", _learns_late, ("propensities",)),
    Check("fits", "Does it learn from a log of the past?", _fits, ("propensities",)),
    Check("saves", "Does a loaded state decide as the saved one?", _saves, ("repeats",)),
)
"""All checks, in the order in which they are asked."""
