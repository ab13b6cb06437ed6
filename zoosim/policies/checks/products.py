"""The contract of a policy that chooses a product or a template, as a list of checks.

Each check plays a few small made-up shops: one product, masks, features that are no one-hot labels. Every check hands
out fresh arrays, so each fault is found by the one check that asks about it.
"""

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.types import Context, FloatArray, IntArray
from zoosim.policies.base import Policy
from zoosim.policies.checks.contract import Check, ContractViolation, must
from zoosim.policies.checks.every_policy import (
    Question,
    is_made,
    leaves_inputs_alone,
    must_choose_alike,
    repeats,
    saves,
)
from zoosim.policies.checks.maker import Maker, walk
from zoosim.policies.checks.sameness import same
from zoosim.policies.checks.shop import APART, LARGER, SHOPS, SMALL, VISITS, Shop
from zoosim.policies.requests import dense_propensities

ASKED = 200
"""Times that a policy is asked the same thing to see whether it draws."""

NEAR = 0.25
"""Largest total variation distance of two distributions of one policy when only draws differ."""


def _acts(maker: Maker) -> None:
    for shop in SHOPS:
        policy = maker.ready(shop)
        for visit in range(5):
            action: Any = policy.select_action(shop.everything(visit))
            is_whole = isinstance(action, int | np.integer) and not isinstance(action, bool)
            must(is_whole, f"select_action returned {action!r}, a {type(action).__name__}; expected an integer")
            in_range = 0 <= action < shop.n_products
            must(in_range, f"select_action returned {action}, expected 0 to {shop.n_products - 1}")


def _chooses_what_is_available(maker: Maker) -> None:
    for shop in SHOPS:
        for only in range(shop.n_products):
            context = shop.context(only, np.arange(shop.n_products) == only)
            _must_be_available(maker.ready(shop), context, f"{shop.name}, only product {only} available")
        policy = maker.ready(shop)
        for visit in range(VISITS):
            context = shop.context(visit)
            action = _must_be_available(policy, context, f"{shop.name}, visit {visit}")
            policy.update(context, action, *shop.feedback(visit, action))


def _must_be_available(policy: Policy, context: Context, where: str) -> int:
    action = int(policy.select_action(context))
    is_available = 0 <= action < len(context.available) and context.available[action]
    must(is_available, f"{where}: chose {action}, which is not available (see context.available)")
    return action


def _learns(maker: Maker) -> None:
    for shop in SHOPS:
        policy = maker.ready(shop)
        for visit in range(VISITS):
            context = shop.everything(visit)
            action = int(policy.select_action(context))
            reward = (0.0, 1.0, 0.5)[visit % 3]
            policy.update(context, action, reward, {"shown": np.array([action]), "clicks": np.array([reward > 0])})


def _gives_propensities(maker: Maker) -> None:
    for shop in SHOPS:
        policy = maker.ready(shop)
        for visit in range(20):
            context = shop.context(visit)
            where = f"{shop.name}, visit {visit}"
            chances = _chances(policy, context, where)
            action = int(policy.select_action(context))
            must(chances[action] > 0, f"{where}: chose {action}, whose propensity is 0; expected more than 0")
            policy.update(context, action, *shop.feedback(visit, action))


def _chances(policy: Policy, context: Context, where: str) -> FloatArray:
    """Return the propensity of every action, each checked, and so is their sum."""
    chances = np.asarray(dense_propensities(policy, context))
    expected_shape = context.available.shape
    must(
        chances.shape == expected_shape and chances.dtype.kind == "f",
        f"{where}: propensities are {chances.dtype} {chances.shape}, expected numbers {expected_shape}",
    )
    for action, chance in enumerate(chances):
        came = f"{where}: propensity of {action} is"
        must(0 <= chance <= 1 + 1e-9, f"{came} {chance!r}, expected a number from 0 to 1")
        must(chance == 0 or context.available[action], f"{came} {chance:g}, expected 0: it is not available")
    total = chances.sum()
    must(abs(total - 1) <= 1e-9, f"{where}: propensities add up to {total:.10g} over all actions, expected 1")
    return chances


def _propensities_only_read(maker: Maker) -> None:
    asked = maker.ready(SMALL, 7)
    not_asked = maker.ready(SMALL, 7)
    for visit in range(VISITS // 2):
        context = SMALL.context(visit)
        before = copy.deepcopy(asked.state_dict())
        asked.propensities(context)
        recommended = asked.recommend(context)
        must(context.available[recommended], f"visit {visit}: recommended {recommended}, which is not available")
        must(
            same(asked.state_dict(), before),
            f"visit {visit}: propensities or recommend changed the state (see state_dict); they must only read",
        )
        must_choose_alike(
            walk(asked, SMALL, [visit]),
            walk(not_asked, SMALL, [visit]),
            f"visit {visit}, one object asked for propensities and one not",
            "propensities and recommend must only read",
        )


def _propensities_are_honest(maker: Maker) -> None:
    """Compare how often each action is chosen with its propensities; 5 standard errors are let pass, and a little."""
    if not _has_propensities(maker):
        return
    policy = maker.ready(SMALL)
    walk(policy, SMALL)
    counts = np.zeros(SMALL.n_products)
    expected = np.zeros(SMALL.n_products)
    variance = np.zeros(SMALL.n_products)
    for _ in range(2 * ASKED):
        context = SMALL.everything(0)
        chances = dense_propensities(policy, context)
        counts[int(policy.select_action(context))] += 1
        expected += chances
        variance += chances * (1 - chances)
    excess = np.abs(counts - expected) - 5 * np.sqrt(variance) - 1e-6
    worst = int(np.argmax(excess))
    came = f"chose {worst} {counts[worst]:.0f} times of {2 * ASKED}"
    must(excess[worst] <= 0, f"{came}, expected about {expected[worst]:.1f} by its propensities")


def _has_propensities(maker: Maker) -> bool:
    """Return whether the class defines `propensities` itself."""
    return maker.cls.propensities is not Policy.propensities


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
        policy = maker.ready(APART)
        for turn in range(20):
            order = np.roll(everything, turn) if moves else everything
            for place, product in sorted(enumerate(order), key=lambda pair: pair[1]):
                policy.update(_of_apart(order), place, _reward_of_apart(int(product), turn))
        taught.append(dense_propensities(policy, _of_apart(everything)))
    distance = 0.5 * np.abs(taught[0] - taught[1]).sum()
    must(
        distance <= NEAR,
        "the order of the candidates changes what it learns: keep what you know by context.product_ids "
        f"(total variation distance {distance:.2f})",
    )


def _goes_on_as_products_change(maker: Maker) -> None:
    policy = maker.ready(LARGER)
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
        policy = maker.ready(shop)
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
        if not maker.cls.learns_from_logs:
            _must_refuse_logs(policy, shop)
            continue
        figures: Any = policy.fit(shop.log(VISITS))
        is_mapping = isinstance(figures, Mapping)
        must(is_mapping, f"fit returned {type(figures).__name__}, expected a mapping of figures")
        _chances(policy, shop.everything(0), f"{shop.name}, after fit")


def _must_refuse_logs(policy: Policy, shop: Shop) -> None:
    before = copy.deepcopy(policy.state_dict())
    try:
        policy.fit(shop.log(VISITS))
    except PolicyError:
        must(
            same(policy.state_dict(), before), f"{shop.name}: fit refused a log, but changed the state (see state_dict)"
        )
        return
    raise ContractViolation(f"{shop.name}: fit took a log, expected a PolicyError, as learns_from_logs is False")


def _draws_openly(maker: Maker) -> None:
    """Find a policy that draws, but leaves the base class to say that it does not.

    It draws when it answers the same question in different ways without learning in between, and with another
    generator in other ways: a policy that only takes turns answers alike.
    """
    if _has_propensities(maker):
        return
    policies = [maker.ready(SMALL, seed) for seed in (0, 1)]
    one, two = ([int(p.select_action(SMALL.everything(0))) for _ in range(ASKED)] for p in policies)
    draws = len(set(one)) > 1 and one != two
    must(not draws, "draws, but gives no propensities: write propensities(context) -> (K,)")


QUESTIONS: dict[str, Question] = {
    "propensities": lambda policy, context, action: dense_propensities(policy, context),
    "recommend": lambda policy, context, action: policy.recommend(context),
}

PRODUCT_CHECKS = (
    Check("makes", partial(is_made, shops=SHOPS)),
    Check("acts", _acts, ("makes",)),
    Check("learns", _learns, ("acts",)),
    Check("available", _chooses_what_is_available, ("learns",)),
    Check("inputs", partial(leaves_inputs_alone, shops=SHOPS, questions=QUESTIONS), ("learns",)),
    Check("repeats", partial(repeats, shops=SHOPS), ("available",)),
    Check("propensities", _gives_propensities, ("repeats",)),
    Check("reads", _propensities_only_read, ("propensities",)),
    Check("honest", _propensities_are_honest, ("propensities", "reads")),
    Check("draws", _draws_openly, ("repeats",)),
    Check("products", _knows_products_by_id, ("propensities",)),
    Check("late", _learns_late, ("propensities",)),
    Check("fits", _fits, ("propensities",)),
    Check("saves", partial(saves, shops=SHOPS), ("repeats",)),
)
"""All checks of a policy that chooses a product or a template, in the order in which they are asked."""
