"""The exact worth of what a shop may do with visitors who come back: no simulation, sparse linear systems alone.

A visitor is a Markov decision process over states (persona, category clicked last, satisfaction, clicks of the visit)
with a reward of 1 a click, and ends when the visitor has gone for good (Puterman 1994, section 7: an undiscounted model
in which every policy ends). A policy is a table of probabilities `(P, states, kinds)`; its worth is the expected number
of clicks of a new visitor. What policies are worth that guess the persona is simulated, with a standard error.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from zoosim.core.digests import short_hash
from zoosim.core.types import BoolArray, FloatArray, IntArray
from zoosim.worlds.sessions.config import SessionConfig
from zoosim.worlds.sessions.laws import SOUND, TEASER, Laws, first_there, laws_of, states_after_click
from zoosim.worlds.sessions.simulation import BeliefPolicy, Lives, simulate, simulate_beliefs

MOST_ROUNDS = 1_000
"""Rounds of policy iteration, at most: each is better than the one before, and a dozen are the rule."""

BETTER = 1e-10
"""What an action must bring more, in clicks, to take the place of another one."""

WEIGHTS = np.linspace(-1.0, 3.0, 41)
"""Weights of satisfaction that are tried for a bandit with a shaped reward."""

BARRED = 1e4
"""What is taken off the score of a kind that may be shown only where all others are sold out."""

RULES = (
    "no teasers",
    "best product",
    "shaped bandit",
    "teasers where satisfaction is full",
    "shaped bandit, felt",
)
"""Rungs of the ladder that plan nothing, the simplest first. The last two know how satisfied visitors are."""

GUESSED = 200_000
"""Visitors whose lives say what it is worth to guess the persona."""

MOST_TRIED = 5_000
"""The most states of a persona for which policies that see less are searched."""


class Step(NamedTuple):
    """A rung of the ladder: a policy by name, its clicks of a new visitor, and its share of the optimum.

    `error` is the standard error of the clicks, 0 where they are exact.
    """

    name: str
    clicks: float
    share: float
    error: float = 0.0


class Guessed(NamedTuple):
    """A new visitor under a policy that guesses the persona: `clicks`, their standard `error`, and `decisions`."""

    clicks: float
    error: float
    decisions: float


class _System(NamedTuple):
    """The linear system of a policy: its LU `factors`, and the `values (states,)` that solve it."""

    factors: Any
    values: FloatArray


class SessionTruth:
    """The exact values of a shop with visitors who come back; `hides_persona` says whether policies do not see it."""

    hides_persona = False

    def __init__(self, config: SessionConfig, table: FloatArray | None = None) -> None:
        """Lay out the states.

        Args:
            config: The shop.
            table: Click probabilities `(personas, categories)`; those of the first visitor if not given.
        """
        self.hides_persona = config.observe in ("anonymous", "behaviour")
        self._lay_out(laws_of(config, config.tables()[0] if table is None else table))

    @classmethod
    def of_laws(cls, laws: Laws) -> "SessionTruth":
        """Return what is true where visitors keep to some laws."""
        truth = cls.__new__(cls)
        truth._lay_out(laws)
        return truth

    def _lay_out(self, laws: Laws) -> None:
        self.laws = laws
        self.after_click = states_after_click(self.laws)
        self._n_states = len(self.after_click)
        # Of each state: its level, its clicks, and the state of the next visit if the visitor returns.
        grid = np.indices(self.laws.shape).reshape(3, -1)
        self._last, satisfaction, self._count = grid
        self._level = satisfaction % laws.levels
        carried = self._level * laws.levels + self._level if laws.is_felt_later else satisfaction
        none = self.laws.shape[0] - 1
        none_yet = np.full(self._n_states, none)
        self._next_visit = np.ravel_multi_index((none_yet, carried, np.zeros_like(none_yet)), self.laws.shape)
        self._returns = self.laws.returns[satisfaction, self._count]
        self.start = int(np.ravel_multi_index((none, self.laws.first, 0), self.laws.shape))

    @property
    def n_personas(self) -> int:
        """Return the number of personas."""
        return len(self.laws.shares)

    @cached_property
    def clicks(self) -> FloatArray:
        """The chance of a click on each kind in each state, `(P, states, kinds)`."""
        return self.laws.clicks[:, self._last]

    @cached_property
    def onward(self) -> sparse.csr_matrix:
        """From the state after a decision to that of the next one, whichever visit it is of, `(states, states)`."""
        rows = np.tile(np.arange(self._n_states), 2)
        columns = np.concatenate([np.arange(self._n_states), self._next_visit])
        chances = [np.full(self._n_states, self.laws.goes_on), (1.0 - self.laws.goes_on) * self._returns]
        return sparse.csr_matrix((np.concatenate(chances), (rows, columns)), shape=(self._n_states,) * 2)

    @cached_property
    def _within(self) -> sparse.csr_matrix:
        """The same within a visit alone."""
        return sparse.identity(self._n_states, format="csr") * self.laws.goes_on

    def action_values(self, values: FloatArray, persona: int, *, within_visit: bool = False) -> FloatArray:
        """Return the clicks from here on by kind that is shown, `(states, kinds)`, where `values` follow.

        Args:
            values: Clicks from each state on, `(states,)`.
            persona: Number of the persona.
            within_visit: Whether those of this visit are counted alone.
        """
        onward = (self._within if within_visit else self.onward) @ values
        chance = self.clicks[persona]
        result: FloatArray = chance * (1.0 + onward[self.after_click]) + (1.0 - chance) * onward[:, np.newaxis]
        return result

    def values(self, policy: FloatArray, persona: int, *, within_visit: bool = False) -> FloatArray:
        """Return the clicks from each state on, `(states,)`, under a policy `(states, kinds)` of probabilities."""
        return self._factored(policy, persona, within_visit=within_visit).values

    def _factored(self, policy: FloatArray, persona: int, *, within_visit: bool = False) -> "_System":
        rewards = (policy * self.clicks[persona]).sum(axis=1)
        moves = self._moves(policy, persona) @ (self._within if within_visit else self.onward)
        factors = splu((sparse.identity(self._n_states, format="csc") - moves).tocsc())
        return _System(factors, factors.solve(rewards))

    def _moves(self, policy: FloatArray, persona: int) -> sparse.csr_matrix:
        """Return the chances from each state to that after the decision."""
        states = np.arange(self._n_states)
        chosen, kind = np.nonzero(policy)
        weights = policy[chosen, kind]
        chances = self.clicks[persona][chosen, kind]
        rows = np.concatenate([chosen, chosen])
        columns = np.concatenate([self.after_click[chosen, kind], states[chosen]])
        data = np.concatenate([weights * chances, weights * (1.0 - chances)])
        return sparse.csr_matrix((data, (rows, columns)), shape=(self._n_states,) * 2)

    def value(self, policy: FloatArray) -> float:
        """Return the expected clicks of a new visitor.

        Args:
            policy: Probability of each kind in each state, `(P, states, kinds)`.
        """
        return float(self.laws.shares @ self.by_persona(policy))

    def by_persona(self, policy: FloatArray) -> FloatArray:
        """Return the expected clicks of a new visitor of each persona, `(P,)`."""
        return np.array([self.values(policy[p], p)[self.start] for p in range(self.n_personas)])

    def occupancy(self, policy: FloatArray) -> FloatArray:
        """Return how many decisions a new visitor brings in each state, `(P, states)`, by persona with its share."""
        start = np.zeros(self._n_states)
        start[self.start] = 1.0
        found = np.empty((self.n_personas, self._n_states))
        for p in range(self.n_personas):
            found[p] = self.laws.shares[p] * self._factored(policy[p], p).factors.solve(start, "T")
        return found

    def best(self, allowed: BoolArray | None = None, *, within_visit: bool = False) -> FloatArray:
        """Return the best policy, `(P, states, kinds)`, by policy iteration (Howard 1960).

        Where products sell out, which is decided anew at each decision, a policy is an order of kinds in each state, of
        which the first is shown that is there; the best order is that of what the kinds bring from there on.

        Args:
            allowed: Which kinds may be shown in which state, `(states, kinds)`, others if these are sold out alone; all
                by default.
            within_visit: Whether the clicks of a visit are to be the most, not those of the visitor's whole life.
        """
        barred = np.zeros((self._n_states, self.laws.kinds)) if allowed is None else np.where(allowed, 0.0, BARRED)
        found = np.empty((self.n_personas, self._n_states, self.laws.kinds))
        for p in range(self.n_personas):
            policy = self.shows(self.clicks[p] - barred)
            for _ in range(MOST_ROUNDS):
                values = self.values(policy, p, within_visit=within_visit)
                worth = self.action_values(values, p, within_visit=within_visit) - barred
                greedy = self.shows(worth)
                better = (greedy * worth).sum(axis=1) > (policy * worth).sum(axis=1) + BETTER
                if not better.any():
                    break
                policy = np.where(better[:, np.newaxis], greedy, policy)
            found[p] = policy
        return found

    def shows(self, scores: FloatArray) -> FloatArray:
        """Return the policy that shows of the kinds that are there the one with the highest score.

        Args:
            scores: Score of each kind, `(..., kinds)`; of equal ones the first is taken.

        Returns:
            Probability of each kind, `(..., kinds)`.
        """
        if not self.laws.missing:
            return _certain(scores.argmax(axis=-1), self.laws.kinds)
        return first_there(self.laws, np.argsort(-scores, axis=-1, kind="stable"))

    @cached_property
    def optimum(self) -> FloatArray:
        """The best policy, `(P, states, kinds)`."""
        return self.best()

    @property
    def myopic(self) -> FloatArray:
        """The policy that shows what is clicked most now, `(P, states, kinds)`."""
        return self.shows(self.clicks)

    @cached_property
    def optimal_values(self) -> FloatArray:
        """The clicks from here on by kind, if the best follows, `(P, states, kinds)`."""
        return np.array([self.action_values(self.values(self.optimum[p], p), p) for p in range(self.n_personas)])

    def ladder(self) -> list[Step]:
        """Return what simpler policies are worth, the optimum last.

        Where the persona is hidden, those that guess it are among them: see `guessed`. The others are told it.
        `persona and last click` is a local optimum among policies that see these two alone; it is left out where there
        are too many states to search, and where products sell out.
        """
        top = self.value(self.optimum)
        worth = {name: self.value(policy) for name, policy in self.rungs.items()}
        guessed = [Step(name, guess.clicks, guess.clicks / top, guess.error) for name, guess in self.guessed.items()]
        told = [Step(name, clicks, clicks / top) for name, clicks in worth.items()]
        return [*told, *guessed, Step("optimum", top, 1.0)]

    @cached_property
    def guessed(self) -> Mapping[str, Guessed]:
        """What policies are worth that know all laws, and guess the persona by Bayes' rule; none where it is seen.

        `myopic, persona guessed` shows what is most likely to be clicked now by its belief, `QMDP, persona guessed`
        what brings the most by it if the persona were known from the next decision on (see `BeliefPolicy`).
        """
        if not self.hides_persona:
            return {}
        optimum = simulate(self.laws._replace(paid=1.0), self.optimum, GUESSED, seed=0)
        values = {"myopic, persona guessed": self.clicks, "QMDP, persona guessed": self.optimal_values}
        return {name: self._guessed(self.belief_policy(worth), optimum) for name, worth in values.items()}

    def belief_policy(self, values: FloatArray) -> BeliefPolicy:
        """Return the policy that knows all laws, and by its belief of the persona shows what is worth the most.

        Args:
            values: What each kind is worth in each state of each persona, `(P, states, kinds)`.
        """
        return BeliefPolicy(
            prior=self.laws.shares,
            values=values,
            chances=self.clicks,
            after_click=self.after_click,
            after_visit=self._next_visit,
            start=self.start,
        )

    def _guessed(self, policy: BeliefPolicy, optimum: Lives) -> Guessed:
        lives = simulate_beliefs(self.laws, policy, GUESSED, seed=0)
        # The same visitors under the optimum, whose worth is exact, tell how much of the result is luck: a control
        # variate (Lavenberg & Welch 1981).
        covariance = np.cov(lives.clicks, optimum.clicks)
        weight = covariance[0, 1] / covariance[1, 1]
        without_luck = lives.clicks - weight * (optimum.clicks - self.value(self.optimum))
        error = float(without_luck.std() / np.sqrt(GUESSED))
        return Guessed(float(without_luck.mean()), error, float(lives.steps.mean()))

    @cached_property
    def rungs(self) -> Mapping[str, FloatArray]:
        """The policies of the ladder but the optimum, by name, each `(P, states, kinds)`."""
        kinds = self.laws.kinds
        shape = (self.n_personas, self._n_states)
        sound = np.broadcast_to(np.arange(kinds) % 2 != TEASER, (self._n_states, kinds))
        is_full = (self._level == self.laws.levels - 1)[:, np.newaxis]
        constant = self._worth_of_constants()
        rungs = {
            "random": np.full((*shape, kinds), 1.0 / kinds),
            "best product": self.shows(np.broadcast_to(constant[:, np.newaxis], (*shape, kinds))),
            "myopic": self.myopic,
            "best for this visit": self.best(within_visit=True),
            "no teasers": self.shows(self.clicks - BARRED * ~sound),
            "no teasers, planned": self.best(sound),
            "shaped bandit": self._best_shaped(is_felt=False),
            "shaped bandit, felt": self._best_shaped(is_felt=True),
            "teasers where satisfaction is full": self.shows(self.clicks - BARRED * ~(sound | is_full)),
        }
        if self._n_states <= MOST_TRIED and not self.laws.missing:
            rungs["persona and last click"] = self._best_by_last_click()
        return rungs

    def _alone(self, category: int) -> "SessionTruth":
        """Return what is true of the shop with the products of a category alone."""
        none = self.laws.shape[0] - 1
        kinds = [2 * category, 2 * category + 1]
        clicks = self.laws.clicks[:, [category, none]][:, :, kinds]
        return SessionTruth.of_laws(self.laws._replace(clicks=clicks))

    def _worth_of_constants(self) -> FloatArray:
        """Return what each kind is worth that is always shown, `(P, kinds)`."""
        worth = np.empty((self.laws.kinds, self.n_personas))
        for category in range(self.laws.kinds // 2):
            # Nothing else is ever clicked, so that a tenth of the states and less will do.
            alone = self._alone(category)
            for sort in (SOUND, TEASER):
                always = _certain(np.full((self.n_personas, alone._n_states), sort), 2)
                worth[2 * category + sort] = alone.by_persona(always)
        return worth.T

    def _best_shaped(self, *, is_felt: bool) -> FloatArray:
        """Return the best policy that takes the most of click x (1 + w x change of satisfaction) for any weight w.

        The change is one level up or down; if `is_felt`, none where satisfaction cannot rise or fall any more.
        """
        top = self.laws.levels - 1
        step = np.where(np.arange(self.laws.kinds) % 2 == TEASER, -1, 1)
        change = np.broadcast_to(step, self.after_click.shape)
        if is_felt:
            change = np.clip(self._level[:, np.newaxis] + step, 0, top) - self._level[:, np.newaxis]
        best = self.myopic
        most = -np.inf
        tried = set[bytes]()
        for weight in WEIGHTS:
            table = self.shows(self.clicks * (1.0 + weight * change))
            digest = short_hash(table.tobytes())
            if digest in tried:  # many weights choose alike
                continue
            tried.add(digest)
            clicks = self.value(table)
            if clicks > most:
                best = table
                most = clicks
        return best

    def _best_by_last_click(self) -> FloatArray:
        """Return a policy by persona and last click that no change at one last click promises to improve."""
        kinds = self.laws.kinds
        tables = []
        for p in range(self.n_personas):
            sound = np.where(np.arange(kinds) % 2 != TEASER, self.laws.clicks[p], -1.0).argmax(axis=1)
            starts = [self.laws.clicks[p].argmax(axis=1), sound]
            climbed = [self._climbed(start, p) for start in starts]
            tables.append(max(climbed, key=lambda table: self.values(table, p)[self.start]))
        return np.array(tables)

    def _climbed(self, chosen: IntArray, persona: int) -> FloatArray:
        """Improve what is `chosen (C + 1,)` by last click, one change after another; return the policy."""
        table = _certain(chosen[self._last], self.laws.kinds)
        system = self._factored(table, persona)
        while True:
            changes = self._promised(table, system, persona)
            for last, kind in changes:
                other = table.copy()
                other[self._last == last] = np.eye(self.laws.kinds)[kind]
                other_system = self._factored(other, persona)
                if other_system.values[self.start] > system.values[self.start] + BETTER:
                    table = other
                    system = other_system
                    break
            else:
                return table

    def _promised(self, table: FloatArray, system: "_System", persona: int) -> list[tuple[int, int]]:
        """Return the changes (last click, kind) that bring more clicks at the rate of the gradient, the most first.

        The gradient is that of Sutton, McAllester, Singh & Mansour (2000), theorem 1: what a kind brings more in a
        state, by how often visitors are in that state.
        """
        start = np.zeros(self._n_states)
        start[self.start] = 1.0
        decisions = system.factors.solve(start, "T")
        advantages = self.action_values(system.values, persona) - system.values[:, np.newaxis]
        lasts = self.laws.shape[0]
        gains = (decisions[:, np.newaxis] * advantages).reshape(lasts, -1, self.laws.kinds).sum(axis=1)
        order = np.argsort(-gains, axis=None)
        promising = order[gains.ravel()[order] > BETTER]
        return [(int(place) // self.laws.kinds, int(place) % self.laws.kinds) for place in promising]


def _certain(chosen: IntArray, kinds: int) -> FloatArray:
    """Return the policy `(..., kinds)` that shows what is `chosen (...)`."""
    table: FloatArray = np.eye(kinds)[chosen]
    return table
