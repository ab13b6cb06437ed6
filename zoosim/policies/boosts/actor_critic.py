"""Boosts that look ahead: an actor-critic for visitors who come back.

The critic is a Q-ensemble that learns what a visitor brings from a visit on, all later visits included. It judges
boosts by what they bring to the top of a request (`zoosim.ranking.profiles`), as `q-ensemble` does: rewards depend on
boosts through that alone. That has no slopes along which an actor could climb. So the actor learns as in maximum a
posteriori policy optimisation (MPO, Abdolmaleki et al. 2018, section 4): boosts are drawn, the critic weighs them by
exp(Q / eta), and the actor moves towards their weighted mean. A visit is worth its reward and what boosts with these
weights are expected to bring at the visitor's next one, by weights of the critic that trail those that learn (Lillicrap
et al. 2016).
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from zoosim.core.checks import LARGEST, check_array, parse_widths
from zoosim.core.claims import claim
from zoosim.core.errors import PolicyError
from zoosim.core.limits import ANY_SINGLES, FLAGS, Limits, trained_flaws
from zoosim.core.parameters import parameter
from zoosim.core.state import Stateful
from zoosim.core.types import Context, Float32Array, FloatArray, IntArray, Progress
from zoosim.models.actor import Actor
from zoosim.models.ensemble_net import predict_rows
from zoosim.policies.boosts.base import BoostPolicy, BoostSpec
from zoosim.policies.boosts.q_boosts import FADE
from zoosim.policies.boosts.simple import CutNormal
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor
from zoosim.ranking.profiles import position_weights, write_profiles

Held = Annotated[FloatArray, Limits(-LARGEST, LARGEST)]

STEPS = 10_000
"""The visitors over which learning rates fall where nobody says how many there will be."""

CATCH_UP = 15
"""Trainings when the warm-up is over."""


class Visits(Stateful):
    """The last visits, each with boosts that might be taken at the visitor's next one, or here if the visitor has gone.

    `states (n, d_s)`, what was shown as `views (n, d)`, `rewards (n,)`, whether the visitor has `gone (n,)`; of the
    request where boosts might be taken the state, `next_states (n, d_s)`, the boosts `options (n, m, d)`, and what they
    would show, `option_views (n, m, d)`.

    Args:
        capacity: Most visits that are held.
        state_dim, action_dim: Lengths of states and boosts.
        options: Boosts of each visit that might be taken, m.
    """

    learned = ("states", "views", "rewards", "gone", "next_states", "options", "option_views", "_count")
    states: Held
    views: Held
    rewards: Held
    gone: Annotated[IntArray, FLAGS]
    next_states: Held
    options: Held
    option_views: Held

    def __init__(self, capacity: int, state_dim: int, action_dim: int, options: int) -> None:
        self.states = np.zeros((capacity, state_dim))
        self.views = np.zeros((capacity, action_dim))
        self.rewards = np.zeros(capacity)
        self.gone = np.zeros(capacity, np.int64)
        self.next_states = np.zeros((capacity, state_dim))
        self.options = np.zeros((capacity, options, action_dim))
        self.option_views = np.zeros((capacity, options, action_dim))
        self._count = np.zeros(2, np.int64)

    @property
    def seen(self) -> int:
        """The number of visits that were added."""
        return int(self._count[0])

    @property
    def visitors(self) -> int:
        """The number of visitors who have gone."""
        return int(self._count[1])

    def next_place(self, is_last: bool) -> int:
        """Return the place of a further visit, that of the oldest where there is no room, and count it.

        Args:
            is_last: Whether the visitor has gone.
        """
        place = self.seen % len(self.rewards)
        self._count += 1, is_last
        self.gone[place] = is_last
        return place

    def draw(self, n: int, *, rng: np.random.Generator) -> IntArray:
        """Return the places of n visits, drawn with replacement."""
        return rng.integers(min(self.seen, len(self.rewards)), size=n)


class ActorCritic(BoostPolicy):
    """Learn what visitors bring from a visit on, and boosts that bring the most of it; with a density.

    At first, and in a share of its decisions for ever, boosts are drawn anywhere; else around those of the actor, from
    a normal distribution cut to the box. Visitors are known by the features of contexts alone.
    """

    name = "actor-critic"
    learned = ("_q", "_trail", "_actor", "_visits", "_seed", "rng")
    looks_ahead = True
    learns_from_logs = False
    _trail: Annotated[Float32Array, ANY_SINGLES, trained_flaws]
    _seed: Annotated[int, Limits(0, 2**63)]
    n_ensembles: int = parameter(3, low=1, high=100, help="members of the critic")
    hidden: str = parameter("32", help="units of the hidden layers, of the critic and of the actor")
    learning_rate: float = parameter(2e-3, low=1e-6, high=1, help="Adam's learning rate of the critic")
    actor_rate: float = parameter(1e-3, low=1e-6, high=1, help="Adam's learning rate of the actor")
    last_rate: float = parameter(0.05, low=1e-6, high=1, help="share of both that is left after the planned visitors")
    batch_size: int = parameter(64, low=1, high=100_000, help="visits per step of training")
    train_steps: int = parameter(2, low=1, high=10_000, help="steps of training for each visit")
    every: int = parameter(20, low=1, high=100_000, help="visits from one training to the next")
    memory: int = parameter(10_000, low=10, high=10_000_000, help="visits that the replay memory holds")
    warm_up: int = parameter(300, low=1, high=1_000_000, help="visits with boosts drawn anywhere, before training")
    anywhere: float = parameter(0.2, low=0, high=1, help="share of later decisions with boosts drawn anywhere")
    spread: float = parameter(0.2, low=0.001, high=10, help="deviation of boosts around the actor's, in units of a_max")
    options: int = parameter(32, low=2, high=10_000, help="boosts that the critic weighs for each visit")
    temperature: float = parameter(0.005, low=1e-4, high=100, help="eta, in standard deviations of what visitors bring")
    trail: float = parameter(0.01, low=1e-6, high=1, help="step of the trailing weights towards those that learn")
    discount: float = parameter(1.0, low=0, high=1, help="worth of a reward at the next visit, in units of one now")

    def __init__(self, spec: BoostSpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has seen nothing.

        Args:
            spec: The dimensions of its task.
            rng: The source of its random draws.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(spec, rng, **params)
        self._seed = int(rng.integers(2**62))
        widths = parse_widths("actor-critic.hidden", self.hidden)
        states = max(1, spec.user_dim)
        weights = sum(n * (m + 1) for m, n in pairwise((states + spec.product_dim, *widths, 1)))
        claim(self.n_ensembles * weights + self.memory * (2 * states + (1 + 2 * self.options) * spec.product_dim))
        config = QEnsembleConfig(self.n_ensembles, widths, self.learning_rate, seed=self._seed, bootstrap=False)
        self._q = QEnsembleRegressor(states, spec.product_dim, config)
        self._trail = self._q.network().trained.copy()
        self._actor = Actor(
            self._q.network(), spec.a_max, hidden_sizes=widths, learning_rate=self.actor_rate, seed=self._seed
        )
        self._visits = Visits(self.memory, states, spec.product_dim, self.options)

    def select_action(self, context: Context) -> FloatArray:
        """Return boosts drawn anywhere, or around those of the actor."""
        self.check(context)
        if self.rng.random() < self._share_anywhere:
            return np.asarray(self._anywhere(1)[0])
        return self._around(self._boosts(context)).draw(rng=self.rng)

    def recommend(self, context: Context) -> FloatArray:
        """Return the boosts of the actor."""
        self.check(context)
        return self._boosts(context)

    def density(self, context: Context, action: Any) -> float:
        """Return the density with which boosts are drawn, 0 outside the box."""
        self.check(context)
        boosts = check_array("actor-critic: action", action, (self.spec.product_dim,))
        inside = bool((np.abs(boosts) <= self.spec.a_max).all())
        even = float(inside) * (2.0 * self.spec.a_max) ** -self.spec.product_dim
        share = self._share_anywhere
        return share * even + (1.0 - share) * self._around(self._boosts(context)).density(boosts)

    @property
    def _share_anywhere(self) -> float:
        return 1.0 if self._visits.seen < self.warm_up else self.anywhere

    def _anywhere(self, n: int) -> FloatArray:
        boosts: FloatArray = self.rng.uniform(-self.spec.a_max, self.spec.a_max, (n, self.spec.product_dim))
        return boosts

    def _around(self, boosts: FloatArray) -> CutNormal:
        return CutNormal(boosts, self.spread * self.spec.a_max, self.spec.a_max)

    def _boosts(self, context: Context) -> FloatArray:
        boosts: FloatArray = self._actor.act(self._state(context))
        return boosts

    def _state(self, context: Context) -> FloatArray:
        return np.asarray(context.features, float) if self.spec.user_dim else np.zeros(1)

    def _views(self, context: Context, boosts: FloatArray) -> FloatArray:
        """Return what boosts `(n, d)` bring to the top of a request, `(n, d)`."""
        weights = position_weights(min(self.spec.k, len(context.base_scores)), FADE)
        columns = np.array(context.boost_features.T, order="C")  # writable even for one product, as in `ItemCritic`
        views = np.empty(boosts.shape)
        write_profiles(context.base_scores, columns, np.ascontiguousarray(boosts), weights, views)
        return views

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        """Learn from the last visit of a visitor."""
        self.follow(context, action, reward, feedback, None)

    def follow(
        self,
        context: Context,
        action: FloatArray,
        reward: float,
        feedback: Mapping[str, Any] | None,
        next_context: Context | None,
    ) -> None:
        """Remember the visit and what followed, and train on draws of those remembered when it is due."""
        self._remember(context, action, reward, next_context)
        seen = self._visits.seen
        if seen >= self.warm_up and seen % self.every == 0:
            is_first = seen < self.warm_up + self.every
            for _ in range(CATCH_UP if is_first else 1):
                self._train(self.every * self.train_steps)

    def _remember(self, context: Context, action: FloatArray, reward: float, next_context: Context | None) -> None:
        visits = self._visits
        place = visits.next_place(next_context is None)
        visits.states[place] = self._state(context)
        visits.views[place] = self._views(context, action[np.newaxis])[0]
        visits.rewards[place] = reward
        # Of a visitor who has gone the actor learns here: there are states in which all go.
        request = context if next_context is None else next_context
        options = self._anywhere(self.options)
        near = self._around(self._boosts(request))
        for option in range(self.options // 2):
            options[option] = near.draw(rng=self.rng)
        visits.next_states[place] = self._state(request)
        visits.options[place] = options
        visits.option_views[place] = self._views(request, options)

    def _train(self, steps: int) -> None:
        visits = self._visits
        # Actions differ by a few percent of what they are worth: at rates that stay, what is best jumps about.
        rate = self.last_rate ** min(1.0, visits.visitors / (self.spec.steps or STEPS))
        self._q.config = replace(self._q.config, learning_rate=rate * self.learning_rate)
        self._actor.learning_rate = rate * self.actor_rate
        rows = visits.draw(steps * self.batch_size, rng=self.rng)
        next_states = visits.next_states[rows]
        values = self._option_values(next_states, visits.option_views[rows])
        # Softmax, with the largest value taken off so that no power overflows.
        weights = np.exp((values - values.max(axis=1, keepdims=True)) / (self.temperature * self._unit))
        weights /= weights.sum(axis=1, keepdims=True)
        onward = np.where(visits.gone[rows] == 1, 0.0, (weights * values).sum(axis=1))
        targets = visits.rewards[rows] + self.discount * onward
        self._q.update_batch(visits.states[rows], visits.views[rows], targets, 1, self.batch_size)
        kept = np.float32((1.0 - self.trail) ** steps)
        self._trail = kept * self._trail + (1 - kept) * self._q.network().trained
        better = (weights[:, :, np.newaxis] * visits.options[rows]).sum(axis=1)
        self._actor.imitate(next_states, better, max(1, steps // 2), self.batch_size)

    @property
    def _unit(self) -> float:
        return float(self._q.network().reward[1])

    def _option_values(self, states: FloatArray, views: FloatArray) -> FloatArray:
        """Return what the trailing critic expects from `states (n, d_s)` on of `views (n, m, d)`, `(n, m)`."""
        n, m, dim = views.shape
        rows = np.column_stack([np.repeat(states, m, axis=0), views.reshape(n * m, dim)])
        mean = np.empty(len(rows))
        predict_rows(self._q.network()._replace(trained=self._trail), rows, mean, np.empty(len(rows)))
        return mean.reshape(n, m)

    def _state_loaded(self) -> None:
        self._q.config = replace(self._q.config, seed=self._seed)

    def fit(self, log: Any, progress: Progress = lambda line: None) -> dict[str, float]:
        """Refuse: logs of searches do not say what followed.

        Raises:
            PolicyError: always.
        """
        raise PolicyError("actor-critic: learns from visitors as they come back, which no log of searches says")
