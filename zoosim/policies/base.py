"""The contract of a policy, and the base class that makes a first policy two methods."""

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np

from zoosim.core.errors import PolicyError
from zoosim.core.parameters import check_parameters
from zoosim.core.state import Stateful
from zoosim.core.types import (
    NOBODY,
    BoolArray,
    Context,
    Distribution,
    FloatArray,
    IntArray,
    PastLog,
    PolicySpec,
    Progress,
)
from zoosim.policies.requests import checked_action, dense_propensities

FIT_CHUNK = 1_000
"""Logged visits that are learned from between two lines of progress, at most."""

Fit = TypeVar("Fit", bound=Callable[..., Any])


def reads_blocks(fit: Fit) -> Fit:
    """Mark a method that takes rows by slices, and never all of them, so that they need not fit in memory."""
    fit.reads_blocks = True  # type: ignore[attr-defined]
    return fit


def learns_by_blocks(policy_class: "type[Policy]") -> bool:
    """Return whether policies of a class learn from a log whose rows are read in blocks."""
    return all(getattr(getattr(policy_class, name), "reads_blocks", False) for name in policy_class.row_readers)


class Policy(Stateful, ABC):
    """Choose a product for each visitor and learn from the rewards, whenever they come.

    A policy is made by `Class(spec, rng, **params)`; parameters are declared as class attributes with
    `zoosim.parameter`, checked, and then stand on the instance. Two methods are enough: `select_action` and `update`.
    A policy that draws its actions must also give the probabilities that it draws from, by `propensities`.

    The candidates are part of each request, and differ from one request to the next: what a policy remembers about a
    product it keeps by the product's id (`context.product_ids`), never by its place among the candidates.

    What it has learned it names in `learned`, from which `state_dict` and `load_state_dict` follow (see `Stateful`), or
    it defines both: after `load_state_dict(state_dict())` of another one it must decide alike.
    """

    name: str = ""
    """Name of the policy on the command line; the class name in kebab case when left empty."""

    past_visits: int = 0
    """Visits of a uniformly random past that `fit` wants before the first decision; 0 for none."""

    chooses: ClassVar[tuple[str, ...]] = ("products", "templates")
    """The action spaces that the policy can choose in: of "products", "templates" and "boosts"."""

    learns: ClassVar[bool] = True
    """True where the policy learns from rewards or logs, so that it is worth little before it has."""

    learns_online: ClassVar[bool] = True
    """True where rewards of its decisions teach the policy anything; else logs alone do."""

    looks_ahead: bool = False
    """True where `update` must be told what followed: by a reward alone, each decision were a visitor's last one."""

    learns_from_logs: ClassVar[bool] = True
    """True where a log teaches the policy anything; else `fit` refuses it with `PolicyError`."""

    row_readers: ClassVar[tuple[str, ...]] = ("fit",)
    """The methods that read a log's rows: where all of them are marked by `reads_blocks`, it may be read in blocks."""

    learns_by_candidates: ClassVar[bool] = False
    """True where `update` and `note_decision` must be told all candidates; else the one that was shown is enough."""

    clocks: ClassVar[tuple[str, ...]] = ()
    """The learned arrays that a decision moves at once, before the learner of a service has confirmed it."""

    baseline_only: ClassVar[bool] = False
    """True where the policy is kept as it was published, with its faults, to be compared with; do not choose it."""

    losses: tuple[float, ...] = ()
    """The mean loss in each epoch of the last `fit`, where it takes epochs."""

    predicts: ClassVar[bool] = False
    """True where `expected_rewards` returns the reward that is expected of each candidate."""

    needs_user_ids: ClassVar[bool] = False
    """True where the policy knows visitors by their id, so that it cannot work where they are never recognised."""

    reads_user_ids: ClassVar[bool] = False
    """True where decisions of a kernel depend on who comes, beside what features and candidates are."""

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has learned nothing.

        Args:
            spec: The dimensions of its task.
            rng: The only source of its random draws.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        self.spec = spec
        self.rng = rng
        for name, value in check_parameters(policy_name(type(self)), type(self), params).items():
            setattr(self, name, value)

    @abstractmethod
    def select_action(self, context: Context) -> Any:
        """Return the action to take now.

        Args:
            context: What the shop knows of this request.

        Returns:
            An index into `context.product_ids` where `context.available` is true; of a `BoostPolicy`, boosts.
        """

    @abstractmethod
    def update(
        self,
        context: Context,
        action: Any,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn what an action earned; called in any order, and any time after the decision.

        Args:
            context: The request as it was when the action was chosen.
            action: The action that was taken, by this policy or another.
            reward: What it earned.
            feedback: What else the shop logged of the visit; in a world that is episodic also `visit_ended`, `ended`
                (the visitor has gone for good) and `censored` (the world ends there).
            next_context: The visitor's next request in a world that is episodic; None where the visitor has gone.
        """

    def propensities(self, context: Context) -> FloatArray | Distribution:
        """Return the probabilities that `select_action` draws from, without moving any state.

        A number for each candidate `(K,)`, or a `Distribution` over some of them.

        The default is right for a policy that decides without chance: 1 for the action it would choose, else 0.
        """
        chances = np.zeros(len(context.available))
        # Asked of a copy, as a decision may move state.
        chances[checked_action(copy.deepcopy(self).select_action(context), len(chances))] = 1.0
        return chances

    def density(self, context: Context, action: Any) -> float:
        """Return the density with which boosts would be chosen now, over boosts in their own units; moves no state.

        The default is right for a policy that chooses no boosts, or decides without chance.

        Raises:
            PolicyError: the policy has none.
        """
        raise PolicyError(
            f"{policy_name(type(self))}: has no density over boosts; log random-boosts or normal-boosts where "
            "propensities are needed"
        )

    def recommend(self, context: Context) -> Any:
        """Return the action that seems best, without exploring and without moving any state.

        The default is the action of the highest propensity, the first on ties.
        """
        return int(np.argmax(dense_propensities(self, context)))

    def expected_rewards(self, context: Context) -> FloatArray | None:
        """Return the reward that is expected of each candidate `(K,)`; None where the policy predicts none.

        No state moves. A service compares it with what comes.
        """
        return None

    def note_decision(self, context: Context, action: Any, is_confirmed: bool = True) -> None:
        """Move what a decision moves, for one that was made elsewhere by this policy, or changed before it was served.

        A service decides in one process and learns in another; a guardrail changes decisions. By default nothing moves.

        Args:
            context: The request.
            action: What was shown, a place among the candidates; the boosts that made a ranking.
            is_confirmed: False where the service decides, until its learner confirms the decision: of what is known,
                the `clocks` move for the moment, and nothing new is entered. Asked of policies with `clocks` alone.
        """
        return None

    @property
    def goes_by_clocks(self) -> bool:
        """True where decisions depend on the `clocks`, as long as nothing is learned; else moving them can wait."""
        return bool(self.clocks)

    @property
    def learns_from_rewards(self) -> bool:
        """True where a decision and its reward teach the policy, as `Model.learn` and a service tell them."""
        return self.learns_online and not self.looks_ahead

    @reads_blocks
    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Learn from a log of the past, of this policy or another.

        The default takes the logged choices one after another as its own updates.

        Args:
            log: n logged choices.
            progress: Called with a line about how far it is.

        Returns:
            Figures worth keeping, such as a validation loss.

        Raises:
            PolicyError: no log can train the policy.
        """
        for start in range(0, len(log), FIT_CHUNK):
            stop = min(start + FIT_CHUNK, len(log))
            rows = slice(start, stop)
            visitors = [NOBODY] * (stop - start) if log.user_ids is None else log.user_ids[rows].tolist()
            visits = zip(visitors, log.features[rows], log.available(start, stop), strict=True)
            actions = log.actions[rows].tolist()
            rewards = log.rewards[rows].tolist()
            for (user_id, user, available), action, reward in zip(visits, actions, rewards, strict=True):
                context = Context(
                    user_id=user_id,
                    user=user,
                    product_ids=log.product_ids,
                    products=log.products,
                    available=available,
                )
                self.update(context, action, reward)
            progress(f"learned from {stop:,} of {len(log):,} visits")
        return {}

    def reseed(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on; what was learned stays.

        So several runs that begin with one trained policy draw independently. The default replaces `self.rng`.
        """
        self.rng = rng

    def prepare(self) -> None:
        """Do now what the first requests would have to wait for, such as compiling; nothing learned moves."""
        return None

    def _state_label(self) -> str:
        return policy_name(type(self))


def logged_context(log: PastLog, row: int, available: BoolArray, candidates: IntArray | None = None) -> Context:
    """Return the request of a logged visit.

    Args:
        log: The log.
        row: The number of the visit.
        available: The mask of the candidates.
        candidates: Indices of the products that are the candidates, as many. Default: all products of the log.
    """
    product_ids = log.product_ids
    products = log.products
    if candidates is not None:
        product_ids = product_ids[candidates]
        products = products[candidates]
        product_ids.flags.writeable = products.flags.writeable = False
    return Context(
        user_id=NOBODY if log.user_ids is None else int(log.user_ids[row]),
        user=log.features[row],
        product_ids=product_ids,
        products=products,
        available=available,
    )


def policy_name(cls: type) -> str:
    """Return how a policy class is called: its `name`, or the class name in kebab case."""
    given = getattr(cls, "name", "")
    if isinstance(given, str) and given:
        return given
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__).lower()
