"""The checks that every policy is asked, whatever it chooses."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zoosim.core.types import Context
from zoosim.policies.base import Policy
from zoosim.policies.checks.contract import ContractViolation, must
from zoosim.policies.checks.maker import MadeUpShop, Maker, walk
from zoosim.policies.checks.sameness import same

Question = Callable[[Any, Context, Any], object]
"""Asks a policy something about a context and an action, which is to move nothing."""


def is_made(maker: Maker, shops: Sequence[MadeUpShop]) -> None:
    """Make a policy for each shop."""
    for shop in shops:
        maker.ready(shop)


def leaves_inputs_alone(maker: Maker, shops: Sequence[MadeUpShop], questions: Mapping[str, Question]) -> None:
    """Check that a policy changes nothing that it is given.

    Writable arrays are handed out first, so that the change is named; then frozen ones, as a run does.

    Args:
        maker: Makes the policy.
        shops: The shops that it decides in.
        questions: What is asked beside `select_action` and `update`, by the name of the method.

    Raises:
        ContractViolation: an argument has changed.
    """
    for frozen in (False, True):
        for shop in shops:
            policy = maker.ready(shop)
            for visit in range(5):
                context = shop.context(visit, frozen=frozen)
                action = policy.select_action(context)
                _must_be_as_before(context, visit, "select_action", shop)
                for method, ask in questions.items():
                    ask(policy, context, action)
                    _must_be_as_before(context, visit, method, shop)
                _update_alters_nothing(policy, context, action, shop.feedback(visit, action), shop)
                _must_be_as_before(context, visit, "update", shop)


def _must_be_as_before(context: Context, visit: int, method: str, shop: MadeUpShop) -> None:
    before = shop.context(visit)
    changed = [name for name in before if name not in context or not same(context[name], before[name])]
    changed += sorted(set(context) - set(before))
    if changed:
        raise ContractViolation(f"{shop.name}: {method} changed context.{changed[0]}; copy what you want to change")


def _update_alters_nothing(policy: Policy, context: Context, action: Any, outcome: Any, shop: MadeUpShop) -> None:
    arguments = copy.deepcopy((action, *outcome))
    policy.update(context, action, *outcome)
    unchanged = same((action, *outcome), arguments)
    must(unchanged, f"{shop.name}: update changed its arguments; copy what you want to change")


def repeats(maker: Maker, shops: Sequence[MadeUpShop]) -> None:
    """Check that two policies that were made with the same seed decide alike.

    Args:
        maker: Makes the policies.
        shops: The shops that they decide and learn in.

    Raises:
        ContractViolation: they differ.
    """
    for shop in shops:
        one, two = (walk(maker.ready(shop, 7), shop) for _ in range(2))
        must_choose_alike(
            one, two, f"{shop.name}: two objects with one seed", "draw only from the rng given to __init__"
        )


def must_choose_alike(one: list[Any], two: list[Any], who: str, advice: str) -> None:
    """Refuse two lists of actions that differ.

    Args:
        one, two: The actions, as many of each.
        who: Whose they are, for the message.
        advice: What to do about it.

    Raises:
        ContractViolation: they differ.
    """
    for visit, (a, b) in enumerate(zip(one, two, strict=True)):
        if not same(a, b):
            fault = f"{who} choose {a} and {b} at decision {visit}; {advice}"
            raise ContractViolation(" ".join(fault.split()))


def saves(maker: Maker, shops: Sequence[MadeUpShop]) -> None:
    """Check that a policy with a loaded state decides and learns as the one that it is of.

    Args:
        maker: Makes the policies.
        shops: The shops that they decide and learn in.

    Raises:
        ContractViolation: their decisions or states differ, or a saved state changed later.
    """
    for shop in shops:
        policy = maker.ready(shop)
        walk(policy, shop)
        saved = policy.state_dict()
        kept = copy.deepcopy(saved)
        loaded = maker.fresh(shop, 1)
        loaded.load_state_dict(copy.deepcopy(saved))
        must(
            same(loaded.state_dict(), kept),
            f"{shop.name}: the state after loading is not the state that was saved",
        )
        must_choose_alike(
            walk(policy, shop),
            walk(loaded, shop),
            f"{shop.name}: the original and one loaded from its state",
            "state_dict must hold all that decisions depend on",
        )
        alike = same(policy.state_dict(), loaded.state_dict())
        must(alike, f"{shop.name}: both learned the same after loading, yet their states differ")
        must(same(saved, kept), f"{shop.name}: a saved state changed as the policy learned on; return copies")
