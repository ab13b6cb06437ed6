"""The contract of a boost policy as a list of checks; see `zoosim.policies.checks.products`."""

import copy
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

from zoosim.core.errors import PolicyError, ZoosimError
from zoosim.core.types import Context, FloatArray, IntArray, frozen
from zoosim.policies.base import Policy
from zoosim.policies.boosts.base import BoostPolicy, BoostSpec
from zoosim.policies.checks.products import Check, ContractViolation, Maker
from zoosim.policies.checks.sameness import same
from zoosim.ranking.product_table import ProductTable

VISITS = 40
WRONG = (float("nan"), float("inf"), -float("inf"))

APART = 1e-6
"""How far boosts may be apart, in units of a_max, where nothing but the order of summation differs."""

DRAWN = 1_000
TRIED = 4_000
ERRORS = 5.0
"""Draws by which the middle and the width of a density are guessed, draws that it is tried on, standard errors."""


@dataclass(frozen=True)
class BoostShop:
    """A made-up search shop of `n_products` that shows `k` of them; clicks depend on the position alone.

    `columns` counts the features that describe segments, query types and tastes.
    """

    name: str
    n_products: int
    k: int
    a_max: float
    columns: tuple[int, int, int]
    seed: int

    @cached_property
    def spec(self) -> BoostSpec:
        """The spec that policies are made with."""
        segments, kinds, tastes = self.columns
        sizes: dict[str, Any] = {"n_segments": segments, "n_kinds": kinds, "n_tastes": tastes, "k": self.k}
        return BoostSpec(a_max=self.a_max, n_categories=3, user_dim=8, product_dim=4, steps=VISITS, **sizes)

    @cached_property
    def ids(self) -> IntArray:
        """Return the ids of the products `(n_products,)`."""
        return frozen(7 + 3 * np.arange(self.n_products))

    @cached_property
    def table(self) -> ProductTable:
        """Return what the shop knows of its products, read-only."""
        count = self.n_products
        rng = np.random.default_rng(self.seed)
        numbers = np.exp(rng.normal(2.0, 0.5, (2, count)))
        flags = rng.random((3, count))
        return ProductTable(
            category=frozen(rng.integers(0, 3, count)),
            price=frozen(numbers[0]),
            cm2=frozen(0.1 * numbers[0] - 0.2),
            discount=frozen(np.where(flags[0] < 0.3, 0.1, 0.0)),
            label=frozen((flags[1] < 0.4).astype(float)),
            bestseller=frozen(numbers[1]),
            strategic=frozen(flags[2] < 0.2),
        )

    def context(self, visit: int, products: IntArray | None = None, *, frozen: bool = True) -> Context:
        """Return the context of a visit in fresh arrays; of `products (K,)`, by index, in place of all.

        All frozen contexts of all products share one table, as those of a shop do.
        """
        rng = np.random.default_rng((self.seed, visit))
        spec = self.spec
        features = rng.normal(size=spec.user_dim)
        start = 0
        for size in self.columns[:2]:
            features[start : start + size] = np.eye(size)[rng.integers(size)] if size else 0.0
            start += size
        chosen = np.arange(self.n_products) if products is None else products
        arrays: dict[str, np.ndarray] = {
            "features": features,
            "product_ids": self.ids[chosen],
            "base_scores": rng.normal(size=self.n_products)[chosen],
            "boost_features": rng.normal(size=(self.n_products, spec.product_dim))[chosen],
        }
        table = self.table
        if products is not None or not frozen:
            table = self.table.rows(chosen)
        for array in (*arrays.values(), *table):
            array.flags.writeable = not frozen
        return Context(user_id=visit % 5, product_table=table, **arrays)

    def feedback(
        self, visit: int, action: FloatArray, products: IntArray | None = None
    ) -> tuple[float, dict[str, Any]]:
        """Return what boosts earn at a visit, and what the shop would log of it."""
        context = self.context(visit, products)
        rng = np.random.default_rng((self.seed, visit, 1))
        table = context.product_table
        scores = context.base_scores + context.boost_features @ action
        shown = np.argsort(-scores, kind="stable")[: self.k]
        clicks = rng.random(len(shown)) < 0.6 / (1.0 + np.arange(len(shown)))
        purchases = clicks & (rng.random(len(shown)) < 0.5)
        parts = {"gmv": table.price, "cm2": table.cm2, "strategic": table.strategic}
        sums = {name: float(column[shown[purchases]].sum()) for name, column in parts.items()}
        reward = sums["gmv"] + 0.4 * sums["cm2"] + 2.0 * sums["strategic"] + 0.1 * float(clicks.sum())
        return reward, {
            "shown": context.product_ids[shown],
            "products": table.rows(shown)._asdict(),
            "boost_features": context.boost_features[shown],
            "base_scores": context.base_scores[shown],
            "clicks": clicks,
            "purchases": purchases,
            "reward_parts": {**sums, "clicks": int(clicks.sum()), "rank_change": 0},
        }


ONE_PRODUCT = BoostShop("a search shop of 1 product", n_products=1, k=1, a_max=0.5, columns=(0, 0, 0), seed=1)
SMALL = BoostShop("a search shop of 12 products", n_products=12, k=5, a_max=2.0, columns=(3, 2, 0), seed=2)
LARGER = BoostShop("a search shop of 60 products", n_products=60, k=20, a_max=0.5, columns=(3, 2, 2), seed=3)
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


def _update(policy: BoostPolicy, shop: BoostShop, visit: int, action: FloatArray) -> None:
    """Let `policy` learn what boosts earn at a visit, from fresh arrays."""
    policy.update(shop.context(visit), action.copy(), *shop.feedback(visit, action))


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
            context = shop.context(visit, frozen=False)
            before = shop.context(visit)
            action = policy.select_action(context)
            policy.recommend(context)
            with suppress(PolicyError):  # of those that have none
                policy.density(context, action)
            reward, feedback = shop.feedback(visit, action)
            kept = copy.deepcopy(feedback)
            chosen = action.copy()
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
        asked, other = _taught_twins(maker, shop)
        answers = [asked.recommend(shop.context(visit)) for visit in (3, 4, 3)]
        if not same(answers[0], answers[2]):
            raise ContractViolation(
                f"{shop.name}: recommend gives two answers to one question; expected it not to draw"
            )
        _must_be_alike(asked, other, shop, "recommend moved the state or the generator; expected it only to read")


def _refuses(maker: Maker) -> None:
    for shop in SHOPS:
        policy, other = _taught_twins(maker, shop)
        context = shop.context(0)
        action = np.zeros(shop.spec.product_dim)
        for wrong in WRONG:
            _must_refuse(policy, context, action, wrong, shop)
            _must_refuse(policy, context, np.full_like(action, wrong), 1.0, shop)
        _must_be_alike(policy, other, shop, "what update refused has moved the state; check before you learn")
        _must_refuse(policy, context, np.full_like(action, 2.0 * shop.a_max), 1.0, shop)
        for broken in _broken(context):
            _must_refuse(policy, broken, action, 1.0, shop)
            _refuse_or_answer(policy, broken, shop)
        _must_be_alike(policy, other, shop, "what update refused has moved the state; check before you learn")


def _taught_twins(maker: Maker, shop: BoostShop) -> tuple[BoostPolicy, BoostPolicy]:
    """Return two policies that were made alike and have learned the same."""
    one = _made(maker, shop)
    two = _made(maker, shop)
    for policy in (one, two):
        _walk(policy, shop)
    return one, two


def _must_be_alike(policy: BoostPolicy, other: BoostPolicy, shop: BoostShop, fault: str) -> None:
    if not same(policy.state_dict(), other.state_dict()) or not same(_walk(policy, shop), _walk(other, shop)):
        raise ContractViolation(f"{shop.name}: {fault}")


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
    contexts = []
    for name in ("features", "base_scores", "boost_features"):
        spoilt = context[name].copy()
        spoilt.flat[-1] = np.nan
        contexts += [Context(**{**context, name: array}) for array in (spoilt, context[name][:-1])]
    return contexts


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
        policy, other = _taught_twins(maker, shop)
        action = copy.deepcopy(other).select_action(shop.context(0))
        try:
            density = policy.density(shop.context(0), action)
        except PolicyError:
            density = 1.0
        if not density > 0.0 or not np.isfinite(density):
            raise ContractViolation(f"{shop.name}: a chosen action has density {density}; expected more than 0")
        _must_be_alike(policy, other, shop, "density moved the state or the generator; expected it only to read")


def _density_is_honest(maker: Maker) -> None:
    """Compare draws with their density by the mean of g / density, which is 1 for any density g of the same box.

    g is a normal law cut to the box, about where the draws are and as wide, so that no single draw weighs much.
    """
    policy = _made(maker, SMALL)
    context = SMALL.context(0)
    _walk(policy, SMALL)
    try:
        policy.density(context, copy.deepcopy(policy).select_action(context))
        first = np.array([policy.select_action(context) for _ in range(DRAWN)])
        middle = first.mean(axis=0)
        width = first.std(axis=0) + 1e-9
        low, high = ((end - middle) / width for end in (-SMALL.a_max, SMALL.a_max))
        ratios = np.empty(TRIED)
        for n in range(TRIED):
            before = copy.deepcopy(policy)
            action = policy.select_action(context)
            density = before.density(context, action)
            law = np.exp(-0.5 * ((action - middle) / width) ** 2) / (np.sqrt(2.0 * np.pi) * width)
            ratios[n] = (law / (ndtr(high) - ndtr(low))).prod() / density
    except PolicyError:
        return  # it refuses where it has none
    mean = ratios.mean()
    error = ratios.std() / np.sqrt(TRIED)
    if not abs(mean - 1.0) <= ERRORS * error + 1e-9:
        raise ContractViolation(
            f"{SMALL.name}: its draws weigh {mean:.3f} by its density, expected 1 (standard error {error:.3f})"
        )


def _learns_late(maker: Maker) -> None:
    """Decide many visits before any reward comes; then learn from them in another order, and from another's boosts."""
    for shop in SHOPS:
        policy = _made(maker, shop)
        rng = np.random.default_rng(0)
        actions = [policy.select_action(shop.context(visit)) for visit in range(VISITS)]
        other = copy.deepcopy(policy)
        for visit in rng.permutation(VISITS):
            for each in (policy, other):
                _update(each, shop, int(visit), actions[visit])
        if not same(policy.state_dict(), other.state_dict()):
            raise ContractViolation(f"{shop.name}: two copies that learned the same differ in their states")
        _must_be_inside(policy.select_action(shop.context(VISITS)), shop, "select_action, after late rewards")
        undecided = _made(maker, shop)
        for visit in range(VISITS):
            _update(undecided, shop, visit, rng.uniform(-shop.a_max, shop.a_max, shop.spec.product_dim))
        _must_be_inside(undecided.recommend(shop.context(0)), shop, "recommend, after another's boosts")
    _learns_what_update_names(maker)


def _learns_what_update_names(maker: Maker) -> None:
    """Find a policy that learns about its own last decision, whatever visit and boosts `update` names.

    Its state depends on which decision was the last, and not on the arguments of `update`.
    """
    first = _made(maker, SMALL)
    last = _made(maker, SMALL)
    for policy, order in ((first, (0, 1)), (last, (1, 0))):
        for visit in order:
            policy.select_action(SMALL.context(visit))
    taught_otherwise = copy.deepcopy(last)
    boosts = np.linspace(-1.0, 1.0, SMALL.spec.product_dim)
    before = same(first.state_dict(), last.state_dict())
    _, feedback = SMALL.feedback(2, boosts)
    for policy in (first, last):
        policy.update(SMALL.context(2), boosts, 1.0, feedback)
    _, feedback = SMALL.feedback(3, -boosts)
    taught_otherwise.update(SMALL.context(3), -boosts, 1.0, feedback)
    alike = same(last.state_dict(), taught_otherwise.state_dict())
    if alike and before and not same(first.state_dict(), last.state_dict()):
        raise ContractViolation(
            f"{SMALL.name}: update learns about the last decision; expected it to learn what it is given"
        )


def _takes_other_candidates(maker: Maker) -> None:
    for shop in SHOPS:
        policy = _made(maker, shop)
        rng = np.random.default_rng(0)
        for visit in range(VISITS):
            products = rng.permutation(shop.n_products)[: rng.integers(1, shop.n_products + 1)]
            context = shop.context(visit, products)
            action = policy.select_action(context)
            _must_be_inside(action, shop, f"select_action, {len(products)} products")
            policy.update(context, action, *shop.feedback(visit, action, products))
        _answers_each_request_alone(policy, shop, rng)
        _ignores_the_order(policy, shop, rng.permutation(shop.n_products))


def _answers_each_request_alone(policy: BoostPolicy, shop: BoostShop, rng: np.random.Generator) -> None:
    """Ask one object about some products, as many others, and the first at other prices, in the very same arrays."""
    some, others = (rng.permutation(shop.n_products)[: (shop.n_products + 1) // 2] for _ in range(2))
    context = shop.context(0, some, frozen=False)
    policy.recommend(context)
    _must_answer_as_a_copy(policy, shop, shop.context(0, others), "other products")
    context.product_table.price[:] = context.product_table.price[::-1].copy()
    context.product_table.cm2[:] = 3.0
    _must_answer_as_a_copy(policy, shop, context, "other prices in arrays that can change")


def _must_answer_as_a_copy(policy: BoostPolicy, shop: BoostShop, context: Context, what: str) -> None:
    fresh = copy.deepcopy(policy)
    fresh.load_state_dict(policy.state_dict())
    if not same(policy.recommend(context), fresh.recommend(copy.deepcopy(context))):
        raise ContractViolation(f"{shop.name}: {what}: the answer goes by those before; derive all from the context")


def _ignores_the_order(policy: BoostPolicy, shop: BoostShop, order: IntArray) -> None:
    for method in ("recommend", "select_action"):
        one, other = (getattr(copy.deepcopy(policy), method)(shop.context(0, part)) for part in (None, order))
        if not (np.abs(one - other) <= APART * shop.a_max).all():
            raise ContractViolation(
                f"{shop.name}: {method}: products in another order get other boosts; keep what you know of products "
                "by their ids"
            )


def _saves(maker: Maker) -> None:
    for shop in SHOPS:
        policy = _made(maker, shop)
        loaded = _made(maker, shop, 1)
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
    Check("density", "Does it give a density without moving, or refuse?", _gives_densities, ("repeats",)),
    Check("honest", "Are its draws those of its density?", _density_is_honest, ("density",)),
    Check("late", "Does it learn late, in any order, from whoever decided?", _learns_late, ("repeats",)),
    Check(
        "candidates", "Does it take other products, more, fewer, in any order?", _takes_other_candidates, ("repeats",)
    ),
    Check("saves", "Does a loaded state decide as the saved one?", _saves, ("repeats",)),
)
"""All checks of a boost policy, in the order in which they are asked."""
