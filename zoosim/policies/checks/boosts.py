"""The contract of a policy that boosts products of a search shop, as a list of checks."""

import copy
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from zoosim.core.errors import PolicyError, ZoosimError
from zoosim.core.types import Context, FloatArray, IntArray
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.policies.checks.contract import Check, ContractViolation, must
from zoosim.policies.checks.every_policy import Question, is_made, leaves_inputs_alone, repeats, saves
from zoosim.policies.checks.maker import Maker, walk
from zoosim.policies.checks.sameness import same
from zoosim.policies.checks.search_shop import SHOPS, SMALL, VISITS, BoostShop

WRONG = (float("nan"), float("inf"), -float("inf"))

APART = 1e-6
"""Largest difference of boosts, in units of a_max, where nothing but the order of summation differs."""

DRAWN = 1_000
TRIED = 4_000
ERRORS = 5.0
"""Draws by which the middle and the width of a density are guessed, draws that it is tried on, standard errors."""


def _acts(maker: Maker) -> None:
    for shop in SHOPS:
        policy = maker.ready(shop)
        for visit in range(3):
            for method in ("select_action", "recommend"):
                _must_be_inside(getattr(policy, method)(shop.context(visit)), shop, f"{method}, before it has learned")


def _must_be_inside(action: Any, shop: BoostShop, where: str) -> None:
    n_boosts = shop.spec.product_dim
    expected = f"{n_boosts} numbers in [-{shop.a_max:g}, {shop.a_max:g}]"
    is_vector = isinstance(action, np.ndarray) and action.shape == (n_boosts,) and action.dtype == np.float64
    if not is_vector:
        raise ContractViolation(f"{shop.name}: {where} returned {action!r}; expected {expected}, as an array of floats")
    if not (np.abs(action) <= shop.a_max).all():
        raise ContractViolation(f"{shop.name}: {where} returned {action}; expected {expected}")


def _learns(maker: Maker) -> None:
    for shop in SHOPS:
        policy = maker.ready(shop)
        for action in walk(policy, shop):
            _must_be_inside(action, shop, "select_action")
        _must_be_inside(policy.recommend(shop.context(0)), shop, "recommend, after it has learned")


def _update(policy: BoostPolicy, shop: BoostShop, visit: int, action: FloatArray) -> None:
    """Teach a policy what boosts earn at a visit, from fresh arrays."""
    policy.update(shop.context(visit), action.copy(), *shop.feedback(visit, action))


def _recommends(maker: Maker) -> None:
    for shop in SHOPS:
        asked, other = _taught_twins(maker, shop)
        answers = [asked.recommend(shop.context(visit)) for visit in (3, 4, 3)]
        repeats_itself = same(answers[0], answers[2])
        must(repeats_itself, f"{shop.name}: recommend gives two answers to one question; expected it not to draw")
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
    one = maker.ready(shop)
    two = maker.ready(shop)
    walk(one, shop)
    walk(two, shop)
    return one, two


def _must_be_alike(policy: BoostPolicy, other: BoostPolicy, shop: BoostShop, fault: str) -> None:
    alike = same(policy.state_dict(), other.state_dict()) and same(walk(policy, shop), walk(other, shop))
    must(alike, f"{shop.name}: {fault}")


def _must_refuse(policy: BoostPolicy, context: Context, action: FloatArray, reward: float, shop: BoostShop) -> None:
    _, feedback = shop.feedback(0, np.zeros_like(action))
    try:
        policy.update(context, action, reward, feedback)
    except ZoosimError:
        return
    spoilt = "" if same(dict(context), dict(shop.context(0))) else " in a context that is wrong"
    must(False, f"{shop.name}: update took a reward of {reward} for {action}{spoilt}; expected it to refuse")


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
            unmoved = same(asked.state_dict(), policy.state_dict())
            must(unmoved, f"{shop.name}: {method} moved the state before it refused a context")


def _gives_densities(maker: Maker) -> None:
    for shop in SHOPS:
        policy, other = _taught_twins(maker, shop)
        action = copy.deepcopy(other).select_action(shop.context(0))
        try:
            density = policy.density(shop.context(0), action)
        except PolicyError:
            density = 1.0
        must(0.0 < density < np.inf, f"{shop.name}: a chosen action has density {density}; expected more than 0")
        _must_be_alike(policy, other, shop, "density moved the state or the generator; expected it only to read")


def _density_is_honest(maker: Maker) -> None:
    """Compare draws with their density by the mean of g / density, which is 1 for any density g of the same box.

    g is a normal law cut to the box, about where the draws are and as wide, so that no single draw weighs much.
    """
    policy = maker.ready(SMALL)
    context = SMALL.context(0)
    walk(policy, SMALL)
    try:
        policy.density(context, copy.deepcopy(policy).select_action(context))
        first = np.array([policy.select_action(context) for _ in range(DRAWN)])
        middle = first.mean(axis=0)
        width = first.std(axis=0) + 1e-9
        behind = copy.deepcopy(policy)
        ratios = np.array([_ratio_of_a_draw(policy, behind, context, middle, width) for _ in range(TRIED)])
    except PolicyError:
        return  # it refuses where it has none
    mean = ratios.mean()
    error = ratios.std() / np.sqrt(TRIED)
    must(
        abs(mean - 1.0) <= ERRORS * error + 1e-9,
        f"{SMALL.name}: its draws weigh {mean:.3f} by its density, expected 1 (standard error {error:.3f})",
    )


def _ratio_of_a_draw(
    policy: BoostPolicy, behind: BoostPolicy, context: Context, middle: FloatArray, width: FloatArray
) -> float:
    """Draw boosts by the policy; return the density of the normal law there over that of the policy.

    A copy, `behind`, is asked for the density before it draws the same.
    """
    action = policy.select_action(context)
    density = behind.density(context, action)
    behind.select_action(context)
    normal = np.exp(-0.5 * ((action - middle) / width) ** 2) / (np.sqrt(2.0 * np.pi) * width)
    within_box = ndtr((SMALL.a_max - middle) / width) - ndtr((-SMALL.a_max - middle) / width)
    return float((normal / within_box).prod() / density)


def _learns_late(maker: Maker) -> None:
    """Decide many visits before any reward comes; then learn from them in another order, and from another's boosts."""
    for shop in SHOPS:
        policy = maker.ready(shop)
        rng = np.random.default_rng(0)
        actions = [policy.select_action(shop.context(visit)) for visit in range(VISITS)]
        other = copy.deepcopy(policy)
        for visit in rng.permutation(VISITS):
            for each in (policy, other):
                _update(each, shop, int(visit), actions[visit])
        alike = same(policy.state_dict(), other.state_dict())
        must(alike, f"{shop.name}: two copies that learned the same differ in their states")
        _must_be_inside(policy.select_action(shop.context(VISITS)), shop, "select_action, after late rewards")
        undecided = maker.ready(shop)
        for visit in range(VISITS):
            _update(undecided, shop, visit, rng.uniform(-shop.a_max, shop.a_max, shop.spec.product_dim))
        _must_be_inside(undecided.recommend(shop.context(0)), shop, "recommend, after another's boosts")
    _learns_what_update_names(maker)


def _learns_what_update_names(maker: Maker) -> None:
    """Find a policy that learns about its own last decision, whatever visit and boosts `update` names.

    Its state depends on which decision was the last, and not on the arguments of `update`.
    """
    first = maker.ready(SMALL)
    last = maker.ready(SMALL)
    for policy, order in ((first, (0, 1)), (last, (1, 0))):
        for visit in order:
            policy.select_action(SMALL.context(visit))
    taught_otherwise = copy.deepcopy(last)
    alike_before = same(first.state_dict(), last.state_dict())
    boosts = np.linspace(-1.0, 1.0, SMALL.spec.product_dim)
    for policy, visit, action in ((first, 2, boosts), (last, 2, boosts), (taught_otherwise, 3, -boosts)):
        _, feedback = SMALL.feedback(visit, action)
        policy.update(SMALL.context(visit), action, 1.0, feedback)
    ignores_arguments = same(last.state_dict(), taught_otherwise.state_dict())
    depends_on_the_last = alike_before and not same(first.state_dict(), last.state_dict())
    must(
        not (ignores_arguments and depends_on_the_last),
        f"{SMALL.name}: update learns about the last decision; expected it to learn what it is given",
    )


def _takes_other_candidates(maker: Maker) -> None:
    for shop in SHOPS:
        policy = maker.ready(shop)
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
    alike = same(policy.recommend(context), fresh.recommend(copy.deepcopy(context)))
    must(alike, f"{shop.name}: {what}: the answer goes by those before; derive all from the context")


def _ignores_the_order(policy: BoostPolicy, shop: BoostShop, order: IntArray) -> None:
    for method in ("recommend", "select_action"):
        one, other = (getattr(copy.deepcopy(policy), method)(shop.context(0, part)) for part in (None, order))
        must(
            (np.abs(one - other) <= APART * shop.a_max).all(),
            f"{shop.name}: {method}: products in another order get other boosts; keep what you know of products "
            "by their ids",
        )


def _ask_density(policy: BoostPolicy, context: Context, action: FloatArray) -> None:
    with suppress(PolicyError):  # of those that have none
        policy.density(context, action)


QUESTIONS: dict[str, Question] = {
    "recommend": lambda policy, context, action: policy.recommend(context),
    "density": _ask_density,
}

BOOST_CHECKS = (
    Check("makes", partial(is_made, shops=SHOPS)),
    Check("acts", _acts, ("makes",)),
    Check("learns", _learns, ("acts",)),
    Check("inputs", partial(leaves_inputs_alone, shops=SHOPS, questions=QUESTIONS), ("learns",)),
    Check("repeats", partial(repeats, shops=SHOPS), ("learns",)),
    Check("recommends", _recommends, ("repeats",)),
    Check("refuses", _refuses, ("repeats",)),
    Check("density", _gives_densities, ("repeats",)),
    Check("honest", _density_is_honest, ("density",)),
    Check("late", _learns_late, ("repeats",)),
    Check("candidates", _takes_other_candidates, ("repeats",)),
    Check("saves", partial(saves, shops=SHOPS), ("repeats",)),
)
"""All checks of a policy that chooses boosts, in the order in which they are asked."""
