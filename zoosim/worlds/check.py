"""The contract of a world as a list of checks: for the tests, and for whoever checks a world of their own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.core.types import Context, FloatArray
from zoosim.policies.checks.contract import Check, CheckResult, ask_checks, must
from zoosim.policies.checks.sameness import same
from zoosim.worlds.base import World
from zoosim.worlds.contexts import context_fault
from zoosim.worlds.registry import find_world

VISITS = 40
"""How many visits most checks look at."""

LONG = 3_000
"""Over how many visits rewards are averaged."""

ERRORS = 5.0
"""How many standard errors the mean reward may lie from the truth."""

ROUNDING = 1e-9


@dataclass(frozen=True)
class MadeWorlds:
    """The worlds of the class that is checked: `make` returns one anew for a seed."""

    cls: type[World]
    make: Callable[[int], World]

    def visits(self, seed: int = 0, n: int = VISITS) -> Iterator[tuple[int, World, Any, Context]]:
        """Yield visits 0 to `n - 1` of a new world: number, world, visit and context."""
        world = self.make(seed)
        for step in range(n):
            visit = world.arrive(step)
            yield step, world, visit, world.context(visit)


def check_world(source: str) -> list[CheckResult]:
    """Ask every check about a world `FILE.py:Class`, with its default parameters.

    Raises:
        WorldError: there is no such class.
    """
    cls = find_world(source)
    return check_worlds_of(cls, lambda seed: cls(seed, max(LONG, cls.default_steps)))


def check_worlds_of(cls: type[World], make: Callable[[int], World]) -> list[CheckResult]:
    """Ask every check about worlds of a class, which `make` returns for each seed."""
    return ask_checks(CHECKS, MadeWorlds(cls, make))


def _any_action(world: World, context: Context, rng: np.random.Generator) -> Any:
    """Return an action that can be taken at a visit, by chance."""
    return find_action_space(world.action_space).any_action(context, world.spec(VISITS), rng=rng)


def _makes(worlds: MadeWorlds) -> None:
    for seed in (0, 1):
        world = worlds.make(seed)
        must(world.seed == seed, f"world.seed is {world.seed!r}, expected {seed}; call super().__init__")
        spec = world.spec(VISITS)
        must(spec.steps == VISITS, f"spec({VISITS}).steps is {spec.steps}, expected {VISITS}")


def _contexts(worlds: MadeWorlds) -> None:
    for step, world, _, context in worlds.visits():
        fault = context_fault(context, world.action_space, world.spec(VISITS))
        must(not fault, f"visit {step}: {fault}")


def _any_order(worlds: MadeWorlds) -> None:
    forward = [context for *_, context in worlds.visits()]
    world = worlds.make(0)
    for step in reversed(range(VISITS)):
        context = world.context(world.arrive(step))
        must(same(context, forward[step]), f"visit {step} is another one when visits are asked for in another order")


def _seeds(worlds: MadeWorlds) -> None:
    first, second = ([context for *_, context in worlds.visits(seed)] for seed in (0, 1))
    differ = any(not same(one, other) for one, other in zip(first, second, strict=True))
    must(differ, f"seeds 0 and 1 bring the same {VISITS} visits; draw from self.rng, which depends on the seed")


def _outcomes(worlds: MadeWorlds) -> None:
    rng = np.random.default_rng(0)
    other = worlds.make(0)
    low, high = other.reward_range
    for step, world, visit, context in worlds.visits():
        action = _any_action(world, context, rng)
        first = world.serve(visit, action)
        must(np.isfinite(first.reward), f"visit {step}: the reward is {first.reward!r}, expected a finite number")
        inside = low <= first.reward <= high
        must(inside, f"visit {step}: the reward {first.reward:g} lies outside reward_range, {low:g} to {high:g}")
        world.serve(visit, _any_action(world, context, rng))
        again = world.serve(visit, action).reward
        must(first.reward == again, f"visit {step}: the same action earned {first.reward:g}, and then {again:g}")
        elsewhere = other.serve(other.arrive(step), action).reward
        must(
            first.reward == elsewhere,
            f"visit {step}: an action earned {first.reward:g}, and {elsewhere:g} where other actions came before; "
            "what happens at a visit may depend on its number alone",
        )


def _truth(worlds: MadeWorlds) -> None:
    rng = np.random.default_rng(0)
    for step, world, visit, context in worlds.visits():
        truth = world.truth(visit)
        must(np.isfinite(truth.best_reward), f"visit {step}: best_reward is {truth.best_reward!r}")
        if truth.best_action is not None:
            best = truth.expected_reward(truth.best_action)
            agrees = abs(best - truth.best_reward) <= ROUNDING
            must(agrees, f"visit {step}: best_action is worth {best:g}, but best_reward is {truth.best_reward:g}")
        action = _any_action(world, context, rng)
        expected = truth.expected_reward(action)
        must(np.isfinite(expected), f"visit {step}: the expected reward of action {action} is {expected!r}")
        if find_action_space(world.action_space).oracle_is_best:
            worse = expected <= truth.best_reward + ROUNDING
            must(
                worse, f"visit {step}: action {action} is worth {expected:g}, more than the best {truth.best_reward:g}"
            )


def _averages(worlds: MadeWorlds) -> None:
    rng = np.random.default_rng(0)
    rewards: list[float] = []
    expected: list[float] = []
    for _, world, visit, context in worlds.visits(n=LONG):
        action = _any_action(world, context, rng)
        rewards.append(world.serve(visit, action).reward)
        expected.append(world.truth(visit).expected_reward(action))
    surprise: FloatArray = np.array(rewards) - np.array(expected)
    error = surprise.std(ddof=1) / np.sqrt(LONG)
    limit = ERRORS * error + ROUNDING
    must(
        abs(surprise.mean()) <= limit,
        f"over {LONG:,} visits random actions earned {np.mean(rewards):.4g} on average, and the truth expects "
        f"{np.mean(expected):.4g}; they may lie {limit:.2g} apart, {ERRORS:g} standard errors",
    )


def _asking(worlds: MadeWorlds) -> None:
    quiet = worlds.make(0)
    rng = np.random.default_rng(0)
    for step, world, visit, context in worlds.visits():
        before = {name: np.copy(value) for name, value in context.items() if isinstance(value, np.ndarray)}
        world.truth(visit)
        world.serve(visit, _any_action(world, context, rng))
        changed = [name for name, value in before.items() if not np.array_equal(value, context[name])]
        must(not changed, f"visit {step}: serving changed {', '.join(changed)} of the context")
        must(
            same(quiet.context(quiet.arrive(step)), world.context(world.arrive(step))),
            f"visit {step} is another one after earlier visits were served",
        )


def _products(worlds: MadeWorlds) -> None:
    world = worlds.make(0)
    listed = world.all_products()
    if listed is None or not find_action_space(world.action_space).has_catalogue:
        return
    row_of = {int(product): row for row, product in enumerate(listed.ids)}
    for step, _, _, context in worlds.visits():
        for product, features in zip(context.product_ids.tolist(), context.products, strict=True):
            must(product in row_of, f"visit {step}: product {product} is not in all_products()")
            equal = np.array_equal(listed.features[row_of[product]], features)
            must(equal, f"visit {step}: product {product} has other features than in all_products()")


MADE = "is made for a seed and tells its dimensions"
CONTEXTS = "gives contexts with every field, read-only and of the right shapes"
FIRST = (MADE, CONTEXTS)
"""The checks that all others need."""

CHECKS = (
    Check(MADE, _makes),
    Check(CONTEXTS, _contexts, (MADE,)),
    Check("brings the same visits in any order", _any_order, FIRST),
    Check("brings other visits for another seed", _seeds, FIRST),
    Check("gives an action the same reward whatever was asked before", _outcomes, FIRST),
    Check("names the best action and no better one is found", _truth, FIRST),
    Check("rewards average to their expectation", _averages, FIRST),
    Check("does not change when asked", _asking, FIRST),
    Check("lists all products, where it lists any", _products, FIRST),
)
"""The checks, by what a world does that keeps the contract."""
