"""Exploration by visitor: one policy decides for most visitors, another one for a share of them, for all their lives.

What looks ahead pays after several decisions, and a bandit that explores decision by decision never makes them one
after another. A log in which some visitors are shown something else throughout holds what that leads to, and as an A/B
test by visitor it tells what each of the two policies is worth.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from zoosim.core.claims import claim
from zoosim.core.digests import hashed_share
from zoosim.core.errors import PolicyError
from zoosim.core.id_table import IdTable, claim_slot, find_slot, index_ids, new_id_table
from zoosim.core.limits import Limits
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key
from zoosim.core.types import NOBODY, Context, FloatArray, PastLog, PolicySpec, Progress
from zoosim.policies.base import Policy
from zoosim.policies.registry import find_class
from zoosim.policies.requests import checked_action, dense_propensities

MOST_ODDS = 50.0
"""The largest logarithm of odds that are kept: exp(50) is as good as certain."""


class ByVisitor(Policy):
    """Decides by `policy` for most visitors, and by `other` throughout for a `share` of them, by a hash of the id.

    A propensity is the probability of the action given all that the visitor was shown before, and not given whose the
    visitor is: an average over both policies, by how likely each is to have made the visitor's decisions so far (the
    balance heuristic, Veach & Guibas 1995, with the two taken as one policy that remembers). It is what estimators need
    that go by decision, and its product over a visitor's decisions is the probability of these, which estimators need
    that go by visitor. Weights against it stay below 1/share for whatever resembles either policy; those against the
    policy that decided alone would be next to 0 for all visitors of the other one.

    Both learn from all decisions; one that learns from its own alone (`ppo`), from those of its visitors.
    """

    name = "by-visitor"
    needs_user_ids = True
    learns_by_candidates = True
    learned = ("salt", "_visitors", "_odds", "main", "aside")
    salt: np.ndarray
    _odds: Annotated[FloatArray, Limits(-MOST_ODDS, MOST_ODDS)]
    policy: str = parameter("linucb", help="who decides for most visitors: a policy by name, with its own defaults")
    other: str = parameter("random", help="who decides for the others, likewise")
    share: float = parameter(0.1, low=0, high=1, help="the share of visitors for whom the other one decides")
    visitors: int = parameter(
        10_000, low=1, high=10_000_000, help="visitors whose past decisions count, the newest ones"
    )

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make both policies.

        Args:
            spec: The dimensions of the task.
            rng: The source of their random draws, and of the salt of the hash.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
            PolicyError: one of the two chooses no products, or is itself one by visitor.
        """
        super().__init__(spec, rng, **params)
        claim(self.visitors)
        self.salt = np.array([draw_key(rng)])
        self._visitors = new_id_table(self.visitors + 1)
        self._odds = np.zeros(self.visitors + 1)
        self.main = self._made("policy", rng)
        self.aside = self._made("other", rng)
        self.looks_ahead = self.main.looks_ahead or self.aside.looks_ahead

    _visitors: IdTable
    main: Policy
    aside: Policy

    def _made(self, parameter_name: str, rng: np.random.Generator) -> Policy:
        source = getattr(self, parameter_name)
        cls = find_class(source)
        if "products" not in cls.chooses or issubclass(cls, ByVisitor):
            raise PolicyError(f"by-visitor.{parameter_name}: got {source}, expected a policy that chooses products")
        return cls(self.spec, rng)

    def select_action(self, context: Context) -> int:
        """Decide by the visitor's policy, and remember how likely the decision was under each."""
        main, aside = self._chances(context)
        action = checked_action(self._decider(context).select_action(context), len(main))
        self._remember(context, main[action], aside[action])
        return action

    def note_decision(self, context: Context, action: int, is_confirmed: bool = True) -> None:
        """Move what a decision moves, for one that was made elsewhere; see `Policy.note_decision`."""
        main, aside = self._chances(context)
        self._decider(context).note_decision(context, action, is_confirmed)
        self._remember(context, main[action], aside[action])

    def propensities(self, context: Context) -> FloatArray:
        """Return the probability of each candidate `(K,)`, given all that the visitor was shown before."""
        main, aside = self._chances(context)
        weight = self._share_now(context)
        return (1.0 - weight) * main + weight * aside

    def recommend(self, context: Context) -> int:
        """Return what the policy of most visitors takes for best."""
        return int(self.main.recommend(context))

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Teach both, or a policy that no log can train the decisions of its own visitors alone."""
        for policy in (self.main, self.aside):
            if policy.learns_from_logs or policy is self._decider(context):
                policy.update(context, action, reward, feedback, next_context)

    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Teach both by a log."""
        self.aside.fit(log, progress)
        return self.main.fit(log, progress)

    def reseed(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on; what was learned, and whose visitors are, stays."""
        super().reseed(rng)
        self.main.reseed(rng)
        self.aside.reseed(rng)

    def prepare(self) -> None:
        """Compile what both need."""
        self.main.prepare()
        self.aside.prepare()

    def is_aside(self, user_id: int) -> bool:
        """Return whether the other policy decides for a visitor; for nobody in particular it never does."""
        content = f"visitor/{user_id}".encode()
        return user_id != NOBODY and hashed_share(content, self.salt.tobytes()) < self.share

    def _decider(self, context: Context) -> Policy:
        return self.aside if self.is_aside(context.user_id) else self.main

    def _chances(self, context: Context) -> tuple[FloatArray, FloatArray]:
        return dense_propensities(self.main, context), dense_propensities(self.aside, context)

    def _share_now(self, context: Context) -> float:
        """Return how likely the visitor is the other policy's, by the decisions so far."""
        if context.user_id == NOBODY:
            return 0.0
        ratio = np.exp(self._odds[find_slot(self._visitors, context.user_id)])
        return float(self.share * ratio / (self.share * ratio + 1.0 - self.share))

    def _remember(self, context: Context, main: float, aside: float) -> None:
        """Multiply the odds of a visitor by how much likelier a decision was under the other policy."""
        if context.user_id == NOBODY:
            return
        slot, is_new = claim_slot(self._visitors, context.user_id)
        if is_new:
            self._odds[slot] = 0.0
        # A policy that never decides so has lost the visitor; both cannot be 0, since one of them decided.
        least = np.exp(-2.0 * MOST_ODDS)
        odds = self._odds[slot] + np.log(max(aside, least)) - np.log(max(main, least))
        self._odds[slot] = min(max(odds, -MOST_ODDS), MOST_ODDS)

    def _state_loaded(self) -> None:
        index_ids(self._visitors)
