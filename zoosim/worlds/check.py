"""The contract of a world as a list of checks: for the tests, and for whoever checks a world of their own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from zoosim.action_spaces import find_action_space
from zoosim.core.types import Context, FloatArray
from zoosim.policies.checks.contract import Check, CheckResult, ask_checks, must
from zoosim.policies.checks.sameness import same
from zoosim.worlds.base import Outcome, World
from zoosim.worlds.contexts import context_fault
from zoosim.worlds.episodes import MOST_STEPS, checked_next
from zoosim.worlds.registry import find_world

VISITS = 40
"""Visits that most checks look at."""

LONG = 3_000
"""Over how many visits, or visitors who come back, rewards are averaged."""

FOLLOWED = 100
"""For how many decisions most checks follow a visitor who comes back."""

ERRORS = 5.0
"""Standard errors that the mean reward may lie from the truth."""

ROUNDING = 1e-9


class Asked(NamedTuple):
    """A question to a world: a visit, of a visitor to whom the `actions` were shown before."""

    visitor: int
    actions: tuple[Any, ...]
    visit: Any
    context: Context

    def __str__(self) -> str:
        later = f", after {len(self.actions)} decisions for this visitor" if self.actions else ""
        return f"visit {self.visitor}{later}"


@dataclass(frozen=True)
class MadeWorlds:
    """The worlds of the class that is checked: `make` returns one anew for a seed."""

    cls: type[World]
    make: Callable[[int], World]

    def arrivals(self, seed: int = 0) -> list[Context]:
        """Return the contexts of visits 0 to `VISITS - 1` of a new world."""
        world = self.make(seed)
        return [world.context(world.arrive(visitor)) for visitor in range(VISITS)]

    def visits(self) -> Iterator[tuple[World, Asked]]:
        """Yield visits 0 to `VISITS - 1` of a new world; where visitors come back, what follows random actions, too."""
        world = self.make(0)
        for visitor in range(VISITS):
            visit = world.arrive(visitor)
            actions: tuple[Any, ...] = ()
            rng = np.random.default_rng(visitor)
            while len(actions) < FOLLOWED:
                context = world.context(visit)
                yield world, Asked(visitor, actions, visit, context)
                if not world.episodic:
                    break
                actions = (*actions, _any_action(world, context, rng))
                following = checked_next(world, world.serve(visit, actions[-1]))
                if following is None or following.cut_off:
                    break
                visit = following.visit


def check_world(source: str) -> list[CheckResult]:
    """Ask every check about a world `FILE.py:Class`, with its default parameters.

    Raises:
        WorldError: there is no such class.
    """
    cls = find_world(source)
    return check_worlds_of(cls, lambda seed: cls(seed, max(LONG, cls.default_steps)))


def check_worlds_of(cls: type[World], make: Callable[[int], World]) -> list[CheckResult]:
    """Ask every check about worlds of a class.

    Args:
        cls: The class.
        make: Returns the world of a seed.
    """
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
    for world, asked in worlds.visits():
        fault = context_fault(asked.context, world.action_space, world.spec(VISITS))
        must(not fault, f"{asked}: {fault}")


def _any_order(worlds: MadeWorlds) -> None:
    forward = worlds.arrivals()
    world = worlds.make(0)
    for step in reversed(range(VISITS)):
        context = world.context(world.arrive(step))
        must(same(context, forward[step]), f"visit {step} is another one when visits are asked for in another order")


def _seeds(worlds: MadeWorlds) -> None:
    first = worlds.arrivals(0)
    second = worlds.arrivals(1)
    differ = any(not same(one, other) for one, other in zip(first, second, strict=True))
    must(differ, f"seeds 0 and 1 bring the same {VISITS} visits; draw from self.rng, which depends on the seed")


def _outcomes(worlds: MadeWorlds) -> None:
    rng = np.random.default_rng(0)
    other = worlds.make(0)
    low, high = other.reward_range
    for world, asked in worlds.visits():
        action = _any_action(world, asked.context, rng)
        first = world.serve(asked.visit, action)
        must(np.isfinite(first.reward), f"{asked}: the reward is {first.reward!r}, expected a finite number")
        inside = low <= first.reward <= high
        must(inside, f"{asked}: the reward {first.reward:g} lies outside reward_range, {low:g} to {high:g}")
        # Another action in between, which must leave no trace.
        world.serve(asked.visit, _any_action(world, asked.context, rng))
        again = world.serve(asked.visit, action)
        must(first.reward == again.reward, f"{asked}: the same action earned {first.reward:g}, then {again.reward:g}")
        must(_same_next(world, first, again), f"{asked}: something else followed the same action the second time")
        elsewhere = other.serve(_followed(other, asked), action)
        must(
            first.reward == elsewhere.reward and _same_next(world, first, elsewhere),
            f"{asked}: an action earned {first.reward:g}, and {elsewhere.reward:g} or led elsewhere where other "
            "actions came before; what happens at a visit may depend on its number alone, and where visitors come "
            "back, on what this visitor was shown",
        )


def _followed(world: World, asked: Asked) -> Any:
    """Return a visit as a world brings it that was asked nothing else."""
    visit = world.arrive(asked.visitor)
    for action in asked.actions:
        following = checked_next(world, world.serve(visit, action))
        visit = None if following is None else following.visit
        must(visit is not None, f"{asked}: the visitor has gone before where other actions came before")
    return visit


def _same_next(world: World, one: Outcome, other: Outcome) -> bool:
    """Return whether the same follows two outcomes."""
    first = checked_next(world, one)
    second = checked_next(world, other)
    if first is None or second is None:
        return first is second
    kinds = [(following.same_visit, following.cut_off) for following in (first, second)]
    return kinds[0] == kinds[1] and same(world.context(first.visit), world.context(second.visit))


def _truth(worlds: MadeWorlds) -> None:
    rng = np.random.default_rng(0)
    for world, asked in worlds.visits():
        truth = world.truth(asked.visit)
        must(np.isfinite(truth.best_reward), f"{asked}: best_reward is {truth.best_reward!r}")
        if truth.best_action is not None:
            best = truth.expected_reward(truth.best_action)
            agrees = abs(best - truth.best_reward) <= ROUNDING
            must(agrees, f"{asked}: best_action is worth {best:g}, but best_reward is {truth.best_reward:g}")
        action = _any_action(world, asked.context, rng)
        expected = truth.expected_reward(action)
        must(np.isfinite(expected), f"{asked}: the expected reward of action {action} is {expected!r}")
        if find_action_space(world.action_space).oracle_is_best:
            worse = expected <= truth.best_reward + ROUNDING
            must(worse, f"{asked}: action {action} is worth {expected:g}, more than the best {truth.best_reward:g}")


def _averages(worlds: MadeWorlds) -> None:
    rng = np.random.default_rng(0)
    world = worlds.make(0)
    lives = np.array([_lived(world, visitor, rng) for visitor in range(LONG)])
    surprise: FloatArray = lives[:, 0] - lives[:, 1]
    error = surprise.std(ddof=1) / np.sqrt(LONG)
    limit = ERRORS * error + ROUNDING
    rewards, expected = lives.mean(axis=0)
    must(
        abs(surprise.mean()) <= limit,
        f"over {LONG:,} visits random actions earned {rewards:.4g} on average, and the truth expects {expected:.4g}; "
        f"they may lie {limit:.2g} apart, {ERRORS:g} standard errors",
    )


def _lived(world: World, visitor: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return what a visitor brings who is shown random actions, and what the truth expects of these."""
    visit = world.arrive(visitor)
    earned = expected = 0.0
    for step in range(MOST_STEPS):
        action = _any_action(world, world.context(visit), rng)
        outcome = world.serve(visit, action)
        truth = world.truth(visit)
        earned += outcome.reward
        # The truth expects the best from each action on, so that later actions add what they lose against the best.
        expected += truth.expected_reward(action) - (truth.best_reward if step else 0.0)
        following = checked_next(world, outcome)
        if following is None:
            return earned, expected
        visit = following.visit
        if following.cut_off:
            # What the truth still expected there, and the cut took away.
            return earned + world.truth(visit).best_reward, expected
    must(False, f"visit {visitor}: the visitor is still there after {MOST_STEPS:,} decisions")
    return earned, expected


def _asking(worlds: MadeWorlds) -> None:
    quiet = worlds.make(0)
    rng = np.random.default_rng(0)
    for world, asked in worlds.visits():
        context = asked.context
        before = {name: np.copy(value) for name, value in context.items() if isinstance(value, np.ndarray)}
        world.truth(asked.visit)
        world.serve(asked.visit, _any_action(world, context, rng))
        changed = [name for name, value in before.items() if not np.array_equal(value, context[name])]
        must(not changed, f"{asked}: serving changed {', '.join(changed)} of the context")
        must(
            same(quiet.context(quiet.arrive(asked.visitor)), world.context(world.arrive(asked.visitor))),
            f"visit {asked.visitor} is another one after earlier visits were served",
        )


def _products(worlds: MadeWorlds) -> None:
    world = worlds.make(0)
    listed = world.all_products()
    if listed is None or not find_action_space(world.action_space).has_catalogue:
        return
    order = np.argsort(listed.ids, kind="stable")
    for _, asked in worlds.visits():
        products = asked.context.product_ids
        rows = order[np.searchsorted(listed.ids, products, sorter=order).clip(max=len(order) - 1)]
        missing = products[listed.ids[rows] != products]
        must(not len(missing), f"{asked}: product {missing[:1].sum()} is not in all_products()")
        differs = (listed.features[rows] != asked.context.products).any(axis=1)
        must(
            not differs.any(),
            f"{asked}: product {products[differs.argmax()]} has other features than in all_products()",
        )


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
