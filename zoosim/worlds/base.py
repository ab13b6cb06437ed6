"""The protocol of a world: visits that arrive one after another, and what each action would earn at them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.action_space import PRODUCTS
from zoosim.core.feedback import AT_ONCE, FeedbackTiming
from zoosim.core.rng import stream
from zoosim.core.types import BoolArray, Context, FloatArray, IntArray, PolicySpec
from zoosim.worlds.episodes import Next
from zoosim.worlds.facts import AMOUNTS, Change, Measure, Reference, RewardScale, Target, Trait
from zoosim.worlds.parameters import Parametrised

if TYPE_CHECKING:
    from zoosim.schema.schema import FittedSchema
    from zoosim.worlds.compiled import CompiledWorld
    from zoosim.worlds.table import TableWorld


@dataclass(frozen=True)
class Outcome:
    """The outcome of a decision.

    Args:
        reward: What it earned.
        feedback: What a shop would log of it, which policies may learn from.
        parts: What the reward is made of, by name, such as clicks and margin.
        segment: The number of the visitor's segment, where rewards are to be told apart by segment.
        next: What comes next for the same visitor, in worlds that are `episodic`; None for one who has gone for good.
    """

    reward: float
    feedback: Mapping[str, Any] | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    segment: int | None = None
    next: Next | None = None

    @property
    def ended(self) -> bool:
        """True where the visitor has gone for good."""
        return self.next is None

    @property
    def censored(self) -> bool:
        """True where the world ends there, though the visitor might have gone on."""
        return self.next is not None and self.next.cut_off


@dataclass(frozen=True)
class Truth:
    """The expected worth of a visit; only figures and tests see it, never a policy.

    In an episodic world that is the expected return: the sum of what the visitor brings from here on, where the best
    is done after the action in question (the optimal action values `Q*` of Sutton & Barto 2018, section 3.6).

    Args:
        expected_reward: Gives the expected reward of an action.
        best_reward: The expected reward of the best action: what 100% of the oracle is.
        best_action: The best action, None where it is not known.
    """

    expected_reward: Callable[[Any], float]
    best_reward: float
    best_action: Any = None


def truth_of_candidates(rewards: FloatArray, available: BoolArray | None = None) -> Truth:
    """Return the truth where each candidate's expected reward is known.

    Args:
        rewards: Expected reward of each candidate, `(K,)`.
        available: Which candidates may be chosen, `(K,)`; all of them by default.
    """
    known = rewards if available is None else np.where(available, rewards, np.nan)
    best = int((rewards if available is None else np.where(available, rewards, -np.inf)).argmax())
    return Truth(lambda action: float(known[action]), float(known[best]), best)


WORLD_FILE = ".world"
"""Ending of the files of fitted worlds."""


class ProductList(NamedTuple):
    """All products that there ever are in a world.

    `ids (P,)`, features `(P, d_p)` in 64 bits, or in 32 where they are many, and a name of each product's group, such
    as its category, `(P,)`. `names (P,)` are what a shop calls the products, where `ids` are made of them. `version`
    tells lists apart whose features and names are the same.
    """

    ids: IntArray
    features: FloatArray
    group_names: tuple[str, ...]
    names: tuple[str, ...] = ()
    version: str = ""


class World(Parametrised, ABC):
    """A shop to try policies in: who comes at each visit, what may be shown, and what each action would earn.

    A world of your own derives from this class, names its `action_space`, and has the five methods below. It is made
    by `Class(seed, steps, **parameters)`, where parameters are declared as class attributes with `zoosim.parameter`,
    or where they are more than numbers and words, as the fields of a `parameter_record`.

    What happens at a visit may depend on the seed and on the visit's number alone, never on what was asked or shown
    before: then all policies meet the same visitors, who would do the same, and comparisons are paired. Take every
    random number from `self.rng("what it is for", step)`.

    In an `episodic` world visitors may come back: `serve` then returns an `Outcome` with a `Next`, and `arrive` brings
    the first visit of visitor number `step`. What happens later may depend on what this visitor, and no other, was
    shown before. Take random numbers from `self.rng("what it is for", visitor, step, product)`, so that visitors differ
    between policies by what they were shown alone.
    """

    name: str = ""
    """Name of the world in reports; the class name in kebab case when left empty."""

    action_space: str = PRODUCTS
    """Action space of a visit: "products", "templates" or "boosts"."""

    reward_range: tuple[float, float] = (0.0, 1.0)
    """The least and the largest reward of a visit; policies that learn from clicks ask for 0 to 1."""

    feedback: FeedbackTiming = AT_ONCE
    """Delay of rewards, where a run does not say."""

    default_steps: ClassVar[int] = 10_000
    """Visits of a run when the user does not say."""

    reward_scale: RewardScale = AMOUNTS
    """Names, scale and comparison of rewards."""

    episodic: ClassVar[bool] = False
    """True where visitors may come back, so that what is shown may matter later."""

    knows_users: bool = True
    """True where visitors come back and are recognised."""

    slow_start: ClassVar[bool] = False
    """True where the first policy of a seed computes for long what the others then find on disk."""

    oracle_note: ClassVar[str] = ""
    """Meaning of 100% of the oracle, for worlds in which some actions may earn more."""

    description: Any = None
    """The function of a world, a number of visits and a `Progress` that describes it; None where it has no page."""

    optimum: Any = None
    """The function that searches the best actions (see `zoosim.optimum`); None where there is none."""

    def check_seeds(self, seeds: Iterable[int]) -> None:
        """Raise `ConfigError` for parameters that only the worlds of the seeds of a run show to be impossible."""
        return

    @property
    def longest_run(self) -> int | None:
        """Most visits that there are; a run's default length gives way to it."""
        return None

    @property
    def action_spaces(self) -> tuple[str, ...]:
        """The action spaces of policies, first that of a policy that can do more than one."""
        return (self.action_space,)

    def for_policy(self, action_space: str, params: Mapping[str, Any]) -> "World":
        """Return the world as a policy sees it that chooses from an action space; `params` are the policy's."""
        return self

    @property
    def has_past(self) -> bool:
        """True where there are visits before the run, from which policies can learn."""
        return type(self).before is not World.before

    @property
    def lists_products(self) -> bool:
        """True where the world can list all its products, so that logs can be written."""
        return type(self).all_products is not World.all_products

    @property
    def reported_shocks(self) -> tuple[Change, ...]:
        """The changes after which a run tells how fast policies recover, in order."""
        return ()

    @property
    def reported_targets(self) -> tuple[Target, ...]:
        """Groups of products that shocks make popular, of which a run of a table tells who was shown them."""
        return ()

    @property
    def shocks_differ(self) -> bool:
        """True where each seed's world draws shocks of its own, as many and of the same names."""
        return False

    def reported_traits(self, delay: int) -> Sequence[Trait]:
        """Return what kind of world this is, in a run that brings rewards so many visits late if not 0.

        Empty where all are of one kind.
        """
        return ()

    @property
    def reported_measures(self) -> tuple[Measure, ...]:
        """Measures of visits beside their reward, made of the parts of rewards."""
        return ()

    @property
    def reported_segments(self) -> tuple[str, ...]:
        """The names of the segments whose visits are reported apart."""
        return ()

    def segments_of(self, parts: Mapping[str, FloatArray]) -> FloatArray:
        """Return the number of each visit's segment among `reported_segments`, `(n,)`."""
        return parts["segment"]

    def reference_values(self) -> tuple[Reference, ...]:
        """Return what is known of how far policies may come, for the tables and drawings of a run."""
        return ()

    def rng(self, purpose: str, step: int = 0, *more: int) -> np.random.Generator:
        """Return a random number generator that depends on the seed, the purpose and the numbers alone.

        Args:
            purpose: What it is for.
            step: The number of the visit; in an episodic world, of the visitor.
            *more: Further numbers, such as the visitor's step and a product's id.
        """
        return stream(self.seed, purpose, str(step), *map(str, more))

    @abstractmethod
    def spec(self, steps: int) -> PolicySpec:
        """Return what a policy is told when it is made: dimensions and the planned number of visits."""

    @abstractmethod
    def arrive(self, step: int) -> Any:
        """Return visit number `step`, 0 or more: an object of the world's own, which the other methods take.

        In an episodic world it is the first visit of visitor number `step`.
        """

    @abstractmethod
    def context(self, visit: Any) -> Context:
        """Return what the shop knows of a visit when it must choose, in read-only arrays."""

    @abstractmethod
    def serve(self, visit: Any, action: Any) -> Outcome:
        """Return what an action earns at a visit; the same each time it is asked."""

    @abstractmethod
    def truth(self, visit: Any) -> Truth:
        """Return what actions are worth at a visit in expectation, over what the visitor might do."""

    def as_table(self) -> "TableWorld | None":
        """Return the world as arrays that compiled loops run through; None where it is none."""
        return None

    def as_compiled(self) -> "CompiledWorld | None":
        """Return a world of visitors who come back as compiled functions; None where it is none."""
        return None

    def before(self) -> "TableWorld | None":
        """Return the world as it stood before visit 0, with visitors of its own, for policies that train on the past.

        None where the world has no past.
        """
        return None

    def all_products(self) -> ProductList | None:
        """Return all products there ever are, so that runs can write logs; None where the world cannot list them."""
        return None

    def schema(self) -> "FittedSchema | None":
        """Return how features are made of a shop's columns, which logs keep; made-up features are columns themselves.

        None where there are too many features for a schema.
        """
        from zoosim.schema.schema import plain_schema

        spec = self.spec(self.steps)
        return plain_schema(numbered("visitor", spec.user_dim), numbered("product", spec.product_dim))

    def log_columns(self, start: int, actions: Any) -> dict[str, Any]:
        """Return further columns of a log of the visits from `start` on, by name; none without an override."""
        return {}

    def write_log_tables(self, folder: Path) -> dict[str, Any]:
        """Write what the further columns of a log need beside it to a folder; return what its metadata must say."""
        return {}


def numbered(name: str, count: int) -> tuple[str, ...]:
    """Return names for features that have none.

    Args:
        name: What the features are of, such as "visitor".
        count: Number of features; they are called `visitor 1`, `visitor 2` and so on.
    """
    return tuple(f"{name} {number}" for number in range(1, count + 1))
