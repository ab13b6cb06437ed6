"""The contract of a boost policy as a list of checks; see `zoosim.policies.contract`."""

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from zoosim.core.errors import PolicyError, ZoosimError
from zoosim.core.types import Context, FloatArray
from zoosim.policies.base import Policy
from zoosim.policies.boosts import BoostPolicy, BoostSpec, ProductTable
from zoosim.policies.contract import Check, ContractViolation, Maker
from zoosim.policies.sameness import same

VISITS = 40
WRONG = (float("nan"), float("inf"), -float("inf"))


@dataclass(frozen=True)
class BoostShop:
    """A made-up search shop of `n_products` that shows `k` of them; clicks go with the position alone."""

    name: str
    n_products: int
    k: int
    a_max: float
    told: tuple[int, int, int]
    seed: int

    @cached_property
    def spec(self) -> BoostSpec:
        """Say what a policy is told when it is made."""
        count, rng = self.n_products, np.random.default_rng(self.seed)
        numbers = np.exp(rng.normal(2.0, 0.5, (2, count)))
        flags = rng.random((3, count))
        table = ProductTable(
            ids=7 + 3 * np.arange(count),
            category=rng.integers(0, 3, count),
            price=numbers[0],
            cm2=0.1 * numbers[0] - 0.2,
            discount=np.where(flags[0] < 0.3, 0.1, 0.0),
            label=(flags[1] < 0.4).astype(float),
            bestseller=numbers[1],
            strategic=flags[2] < 0.2,
        )
        segments, kinds, tastes = self.told
        told: dict[str, Any] = {"n_segments": segments, "n_kinds": kinds, "n_tastes": tastes, "k": self.k}
        size: dict[str, Any] = {"n_products": count, "user_dim": 8, "product_dim": 4, "steps": VISITS}
        return BoostSpec(products=table, a_max=self.a_max, **told, **size)

    def context(self, visit: int, *, frozen: bool = True) -> Context:
        """Return the context of a visit in arrays of its own."""
        rng, spec = np.random.default_rng((self.seed, visit)), self.spec
        features = rng.normal(size=spec.user_dim)
        start = 0
        for size in self.told[:2]:
            features[start : start + size] = np.eye(size)[rng.integers(size)] if size else 0.0
            start += size
        arrays: dict[str, np.ndarray] = {
            "features": features,
            "product_ids": spec.products.ids.copy(),
            "base_scores": rng.normal(size=spec.n_products),
            "boost_features": rng.normal(size=(spec.n_products, spec.product_dim)),
        }
        for array in arrays.values():
            array.flags.writeable = not frozen
        return Context(user_id=visit % 5, **arrays)

    def feedback(self, visit: int, action: FloatArray) -> tuple[float, dict[str, Any]]:
        """Return what boosts earn at a visit, and what the shop would log of it."""
        context, rng, table = self.context(visit), np.random.default_rng((self.seed, visit, 1)), self.spec.products
        scores = context.base_scores + context.boost_features @ action
        shown = np.argsort(-scores, kind="stable")[: self.k]
        clicks = rng.random(len(shown)) < 0.6 / (1.0 + np.arange(len(shown)))
        purchases = clicks & (rng.random(len(shown)) < 0.5)
        parts = {"gmv": table.price, "cm2": table.cm2, "strategic": table.strategic}
        sums = {name: float(column[shown[purchases]].sum()) for name, column in parts.items()}
        reward = sums["gmv"] + 0.4 * sums["cm2"] + 2.0 * sums["strategic"] + 0.1 * float(clicks.sum())
        return reward, {
            "shown": table.ids[shown],
            "products": {name: getattr(table, name)[shown] for name in ProductTable._fields if name != "ids"},
            "boost_features": context.boost_features[shown],
            "base_scores": context.base_scores[shown],
            "clicks": clicks,
            "purchases": purchases,
            "reward_parts": {**sums, "clicks": int(clicks.sum()), "rank_change": 0},
        }


ONE_PRODUCT = BoostShop("a search shop of 1 product", n_products=1, k=1, a_max=0.5, told=(0, 0, 0), seed=1)
SMALL = BoostShop("a search shop of 12 products", n_products=12, k=5, a_max=2.0, told=(3, 2, 0), seed=2)
LARGER = BoostShop("a search shop of 60 products", n_products=60, k=20, a_max=0.5, told=(3, 2, 2), seed=3)
SHOPS = (ONE_PRODUCT, SMALL, LARGER)


def _made(maker: Maker, shop: BoostShop, seed: int = 0) -> BoostPolicy:
    policy: Policy = maker.cls(shop.spec, np.random.default_rng(seed), **maker.params)
    if not isinstance(policy, BoostPolicy):
        raise ContractViolation(f"{type(policy).__name__} is no BoostPolicy; derive it from one")
    return policy


def _makes(maker: Maker) -> None:
    for shop in SHOPS:
        _made(maker, shop)


def _acts(maker: Maker) -> None:
    for shop in SHOPS:
        policy = _made(maker, shop)
        for visit in range(3):
            for method in ("select_action", "recommend"):
                _must_be_inside(getattr(policy, method)(shop.context(visit)), shop, f"{method}, before it has learned")


def _must_be_inside(action: Any, shop: BoostShop, where: str) -> None:
    expected = f"{shop.spec.product_dim} numbers in [-{shop.a_max:g}, {shop.a_max:g}]"
    if not isinstance(action, np.ndarray) or action.shape != (shop.spec.product_dim,) or action.dtype != np.float64:
        raise ContractViolation(f"{shop.name}: {where} returned {action!r}; expected {expected}, as an array of floats")
    if not (np.abs(action) <= shop.a_max).all():
        raise ContractViolation(f"{shop.name}: {where} returned {action}; expected {expected}")


def _learns(maker: Maker) -> None:
    for shop in SHOPS:
        policy = _made(maker, shop)
        for action in _walk(policy, shop):
            _must_be_inside(action, shop, "select_action")
        _must_be_inside(policy.recommend(shop.context(0)), shop, "recommend, after it has learned")


def _walk(policy: BoostPolicy, shop: BoostShop, visits: int = VISITS) -> list[FloatArray]:
    """Let `policy` decide and learn; return its boosts."""
    actions = []
    for visit in range(visits):
        context = shop.context(visit)
        actions.append(policy.select_action(context))
        policy.update(context, actions[-1], *shop.feedback(visit, actions[-1]))
    return actions


def _leaves_inputs_alone(maker: Maker) -> None:
    """Hand out writable arrays, so that the change is named."""
    for shop in SHOPS:
        policy = _made(maker, shop)
        for visit in range(5):
            context, before = shop.context(visit, frozen=False), shop.context(visit)
            action = policy.select_action(context)
            policy.recommend(context)
            reward, feedback = shop.feedback(visit, action)
            kept, chosen = copy.deepcopy(feedback), action.copy()
            policy.update(context, action, reward, feedback)
            if not same(dict(context), dict(before)):
                raise ContractViolation(f"{shop.name}: the context was changed; copy what you want to change")
            if not same(feedback, kept) or not same(action, chosen):
                raise ContractViolation(f"{shop.name}: update changed its arguments; copy what you want to change")


def _repeats(maker: Maker) -> None:
    for shop in SHOPS:
        one, two = (_walk(_made(maker, shop, 7), shop) for _ in range(2))
        if not same(one, two):
            raise ContractViolation(f"{shop.name}: two objects with one seed differ; draw only from the rng given")


def _recommends(maker: Maker) -> None:
    for shop in SHOPS:
        asked, other = _made(maker, shop), _made(maker, shop)
        for policy in (asked, other):
            _walk(policy, shop)
        answers = [asked.recommend(shop.context(visit)) for visit in (3, 4, 3)]
        if not same(answers[0], answers[2]):
            raise ContractViolation(
                f"{shop.name}: recommend gives two answers to one question; expected it not to draw"
            )
        if not same(asked.state_dict(), other.state_dict()) or not same(_walk(asked, shop), _walk(other, shop)):
            raise ContractViolation(
                f"{shop.name}: recommend moved the state or the generator; expected it only to read"
            )


def _refuses(maker: Maker) -> None:
    for shop in SHOPS:
        policy, other = _made(maker, shop), _made(maker, shop)
        for each in (policy, other):
            _walk(each, shop)
        context = shop.context(0)
        action = np.zeros(shop.spec.product_dim)
        for wrong in WRONG:
            _must_refuse(policy, context, action, wrong, shop)
            _must_refuse(policy, context, np.full_like(action, wrong), 1.0, shop)
        _must_be_alike(policy, other, shop)
        _must_refuse(policy, context, np.full_like(action, 2.0 * shop.a_max), 1.0, shop)
        for broken in _broken(context):
            _must_refuse(policy, broken, action, 1.0, shop)
            _refuse_or_answer(policy, broken, shop)
        _must_be_alike(policy, other, shop)


def _must_be_alike(policy: BoostPolicy, other: BoostPolicy, shop: BoostShop) -> None:
    if not same(policy.state_dict(), other.state_dict()) or not same(_walk(policy, shop), _walk(other, shop)):
        raise ContractViolation(f"{shop.name}: what update refused has moved the state; check before you learn")


def _must_refuse(policy: BoostPolicy, context: Context, action: FloatArray, reward: float, shop: BoostShop) -> None:
    _, feedback = shop.feedback(0, np.zeros_like(action))
    try:
        policy.update(context, action, reward, feedback)
    except ZoosimError:
        return
    spoilt = "" if same(dict(context), dict(shop.context(0))) else " in a context that is wrong"
    raise ContractViolation(
        f"{shop.name}: update took a reward of {reward} for {action}{spoilt}; expected it to refuse"
    )


def _broken(context: Context) -> list[Context]:
    """Return contexts that are NaN somewhere, or of another shape."""
    found = []
    for name in ("features", "base_scores", "boost_features"):
        spoilt = context[name].copy()
        spoilt.flat[-1] = np.nan
        found += [Context(**{**context, name: array}) for array in (spoilt, context[name][:-1])]
    return found


def _refuse_or_answer(policy: BoostPolicy, context: Context, shop: BoostShop) -> None:
    """A policy that does not read what is wrong may answer; one that does is to refuse before it moves."""
    for method in ("select_action", "recommend"):
        asked = copy.deepcopy(policy)
        try:
            _must_be_inside(getattr(asked, method)(context), shop, f"{method}, in a context that is wrong")
        except ZoosimError:
            if not same(asked.state_dict(), policy.state_dict()):
                raise ContractViolation(f"{shop.name}: {method} moved the state before it refused a context") from None


def _gives_densities(maker: Maker) -> None:
    for shop in SHOPS:
        policy, other = _made(maker, shop), _made(maker, shop)
        for each in (policy, other):
            _walk(each, shop)
        action = copy.deepcopy(other).select_action(shop.context(0))
        try:
            density = policy.propensity(shop.context(0), action)
        except PolicyError:
            density = 1.0
        if not density > 0.0 or not np.isfinite(density):
            raise ContractViolation(f"{shop.name}: a chosen action has density {density}; expected more than 0")
        if not same(policy.state_dict(), other.state_dict()) or not same(_walk(policy, shop), _walk(other, shop)):
            raise ContractViolation(
                f"{shop.name}: propensity moved the state or the generator; expected it only to read"
            )


def _saves(maker: Maker) -> None:
    for shop in SHOPS:
        policy, loaded = _made(maker, shop), _made(maker, shop, 1)
        _walk(policy, shop)
        saved = policy.state_dict()
        kept = copy.deepcopy(saved)
        loaded.load_state_dict(copy.deepcopy(saved))
        if not same(_walk(policy, shop), _walk(loaded, shop)):
            raise ContractViolation(f"{shop.name}: a loaded state decides otherwise; state_dict must hold all of it")
        if not same(policy.state_dict(), loaded.state_dict()):
            raise ContractViolation(f"{shop.name}: both learned the same after loading, yet their states differ")
        if not same(saved, kept):
            raise ContractViolation(f"{shop.name}: a saved state changed as the policy learned on; return copies")


BOOST_CHECKS = (
    Check("makes", "Is it made by Class(spec, rng)?", _makes),
    Check("acts", "Does it choose boosts inside the box, before it has learned?", _acts, ("makes",)),
    Check("learns", "Does it learn, and stay in the box?", _learns, ("acts",)),
    Check("inputs", "Does it leave contexts, actions and feedback as they are?", _leaves_inputs_alone, ("learns",)),
    Check("repeats", "Does it choose the same again under the same seed?", _repeats, ("learns",)),
    Check("recommends", "Does recommend only read?", _recommends, ("repeats",)),
    Check(
        "refuses", "Does it refuse NaN, infinity and boosts outside the box before it learns?", _refuses, ("repeats",)
    ),
    Check("density", "Is its propensity a density, or a clear refusal?", _gives_densities, ("repeats",)),
    Check("saves", "Does a loaded state decide as the saved one?", _saves, ("repeats",)),
)
"""All checks of a boost policy, in the order in which they are asked."""
