"""The learning loop of a Q-ensemble over boosts: plan, act, remember, train.

Plan: the cross-entropy method searches the boosts with the highest mean + beta std, beta falling as visits pass (UCB;
Kalashnikov et al. 2018 for the loop), or the highest value by one member drawn at each visit (Thompson sampling by
bootstrapped members, Osband et al. 2016), inside a trust region where that is asked: around the same boosts for ever,
or around those served last, so that it walks far in small steps. Act, and remember what was seen, shown and earned.
Train on draws from that memory. Four things make it learn from some hundred visits:

- The critic judges boosts by what they bring to the top of this request (`zoosim.ranking.profiles`). Rewards depend on
  boosts through that alone, and nearly in proportion.
- Rewards are brought to one scale within each segment (`zoosim.policies.boosts.q_replay`).
- A segment that seldom comes is not left to what others like: its visit number n draws boosts from anywhere with chance
  20 / n.
- Decisions are made by a moving average of the weights (Polyak & Juditsky 1992), which trails the noise of training.

Floors and a ceiling add what their quantities are worth to the rewards of all visits remembered, by the multipliers in
force when they are drawn (reward-constrained, Tessler, Mankowitz & Mannor 2019).

Each of the four can be turned off (`view`, `scaled`, `anywhere`, `averaged`), as can the members' own weights of visits
(`bootstrap`): what is left is the plain loop.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from zoosim.core.checks import check_array, parse_widths
from zoosim.core.claims import claim
from zoosim.core.errors import ConfigError
from zoosim.core.limits import ANY_SINGLES, Limits, trained_flaws
from zoosim.core.parameters import parameter
from zoosim.core.rng import stream_key
from zoosim.core.types import Context, Float32Array, FloatArray
from zoosim.models.ensemble_gradient import gradient
from zoosim.models.ensemble_net import Ensemble
from zoosim.models.ensemble_objective import EnsembleObjective
from zoosim.models.ensemble_training import visit_weights
from zoosim.optimizers.cem import CEMConfig, cem_optimize
from zoosim.optimizers.gradient import GradientConfig, gradient_ascent
from zoosim.optimizers.projection import project_trust_region
from zoosim.policies.boosts.base import BoostSpec
from zoosim.policies.boosts.constrained import ConstrainedBoosts
from zoosim.policies.boosts.last_boosts import LastBoosts
from zoosim.policies.boosts.q_held_out import FEWEST, HeldOutVisits, Judged
from zoosim.policies.boosts.q_replay import Replay
from zoosim.policies.boosts.q_student import Student
from zoosim.policies.boosts.simple import read_boosts
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor
from zoosim.ranking.profiles import position_weights, write_profiles
from zoosim.ranking.stability import adaptive_radius, scaled_back

REGIONS = ("none", "fixed", "adaptive", "ranking")
TOP = 10
"""The k of the top k that the trust region `ranking` is about."""

FADE = 0.8
"""Weight of a position in a profile, in units of the one above it."""

FIRST_STEPS = 300
"""Batches to train on when the warm-up is over."""

AVERAGE = 0.9995
"""The largest weight per visit that the moving average of the networks keeps."""

STEPS = 10_000
"""The visits that beta falls over where nobody says how many there will be."""

STARTS, CLIMBS = 8, 10
"""Starts and steps of gradient ascent."""

FULL = 1.0
"""The std, in deviations of a segment's rewards, from which on an adaptive radius is at its widest."""


class Scene(NamedTuple):
    """A request: its `state (d_s,)`, and the function from boosts `(n, d)` to the critic's inputs."""

    state: FloatArray
    view: Callable[[FloatArray], FloatArray]


class Optimism(NamedTuple):
    """What a search adds to the mean: beta scale sqrt(std^2 + floor^2)."""

    beta: float
    scale: float = 1.0
    floor: float = 0.0


GREEDY = Optimism(0.0)


class QEnsemble(ConstrainedBoosts):
    """Learn what boosts earn with an ensemble of networks, and search the best ones with exploration.

    It has no density: but for the draws from anywhere, its boosts are the ends of a search.
    """

    name = "q-ensemble"
    learned = ("_q", "_average", "_replay", "_seed", "rng")
    _average: Annotated[Float32Array, ANY_SINGLES, trained_flaws]
    _seed: Annotated[int, Limits(0, 2**63)]
    n_ensembles: int = parameter(5, low=1, high=100, help="members of the ensemble")
    hidden: str = parameter("16", help="units of the hidden layers, such as 16 or 64-64")
    learning_rate: float = parameter(1e-3, low=1e-6, high=1, help="Adam's learning rate")
    batch_size: int = parameter(64, low=1, high=100_000, help="visits per step of training")
    train_steps: int = parameter(2, low=1, high=10_000, help="steps of training after each visit")
    memory: int = parameter(20_000, low=10, high=10_000_000, help="visits that the replay memory holds")
    warm_up: int = parameter(30, low=1, high=1_000_000, help="visits with boosts drawn anywhere, before training")
    anywhere: float = parameter(
        20.0, low=0, high=1e6, help="visit n of a segment draws boosts anywhere by chance this/n"
    )
    scaled: bool = parameter(True, help="whether rewards are brought to one scale within each segment")
    averaged: bool = parameter(True, help="whether a moving average of the weights decides, or the last ones")
    bootstrap: bool = parameter(True, help="whether each member weighs the visits in its own way")
    view: str = parameter("slate", choices=("slate", "boosts"), help="what the critic judges: what is shown, or boosts")
    explore: str = parameter("thompson", choices=("thompson", "ucb"), help="by a member, or by mean + beta std")
    beta: float = parameter(1.0, low=0, high=100, help="of ucb: the first weight of std")
    schedule: str = parameter(
        "exponential", choices=("exponential", "logarithmic"), help="of ucb: beta falls, or grows as sqrt(log visit)"
    )
    decay: float = parameter(3.0, low=0, high=100, help="of exponential: it falls to exp(-decay) of that")
    confidence: str = parameter(
        "std",
        choices=("std", "recalibrated", "limit"),
        help="of ucb: beta times std, times std as mended by held-out visits, or up to their limit at `level`",
    )
    level: float = parameter(0.95, low=0.5, high=0.999, help="of limit: share of held-out visits below mean + beta std")
    held_out: int = parameter(
        0, low=0, high=1_000_000, help="visits kept with what was predicted before they were learned from: `judged`"
    )
    planner: str = parameter(
        "cem", choices=("cem", "gradient", "actor"), help="searches the boosts; an actor learns from searches by cem"
    )
    lessons: float = parameter(0.2, low=0.001, high=1, help="of actor: share of visits that are searched, and teach it")
    penalty: float = parameter(0.0, low=0, high=100, help="what a boost at the side of the box costs in the search")
    trust_region: str = parameter("none", choices=REGIONS, help="how far boosts may lie from a centre, or rank")
    around: str = parameter(
        "base",
        choices=("base", "previous"),
        help="its centre: base, or the boosts served last to the same segment and query type",
    )
    base: str = parameter("0", help="the centre, or the first one, in units of a_max: a number for each boost, or one")
    radius: float = parameter(0.5, low=1e-6, high=1e6, help="of the trust region; of an adaptive one at its widest")
    narrow: float = parameter(0.1, low=1e-6, high=1e6, help="the radius of an adaptive one at its narrowest")
    limit: int = parameter(3, low=0, high=1_000, help="of ranking: how many of the centre's top 10 may leave")

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
        self._constrain_boosts()
        self._seed = int(rng.integers(2**62))
        self._q = self._untrained()
        self._average = self._q.network().trained.copy()
        n_quantities = len(self._dual.constraints)
        n_columns = max(1, self._visitor_columns)
        self._replay = Replay(self.memory, n_columns, spec.product_dim, max(1, spec.n_segments), n_quantities)
        self._base = read_boosts("q-ensemble.base", self.base, spec)
        self._last = LastBoosts(spec, self._base)
        self._search = CEMConfig.fast(spec.a_max)
        self._climb = GradientConfig(STARTS, CLIMBS, a_max=spec.a_max)
        self._held_out = HeldOutVisits(self.held_out)
        self._student = Student(self._q.network(), spec.a_max, self._seed)
        self._check_choices()

    def _check_choices(self) -> None:
        """Refuse what does not go together."""
        if self.planner == "gradient" and (self.view == "slate" or self.trust_region == "ranking"):
            raise ConfigError(
                f"q-ensemble.planner: got gradient with view {self.view}, trust_region {self.trust_region}, expected "
                "view boosts and another region: what is shown changes in jumps, which have no slope; take cem"
            )
        if self.confidence == "std":
            return
        if self.explore != "ucb" or self.planner == "gradient" or self.n_ensembles == 1:
            raise ConfigError(
                f"q-ensemble.confidence: got {self.confidence}, expected explore ucb, planner cem or actor, and "
                "more than one member with it"
            )
        if self.held_out < FEWEST:
            raise ConfigError(f"q-ensemble.held_out: got {self.held_out}, expected at least {FEWEST} to be fitted to")

    def _untrained(self) -> QEnsembleRegressor:
        widths = parse_widths("q-ensemble.hidden", self.hidden)
        inputs = max(1, self._visitor_columns) + self.spec.product_dim
        claim(self.n_ensembles * sum(n * (m + 1) for m, n in pairwise((inputs, *widths, 1))))
        # Without the regressor's bootstrap, which weighs each occurrence of a row: `_train` hands over weights by
        # visit.
        config = QEnsembleConfig(self.n_ensembles, widths, self.learning_rate, seed=self._seed, bootstrap=False)
        return QEnsembleRegressor(max(1, self._visitor_columns), self.spec.product_dim, config)

    @property
    def _visitor_columns(self) -> int:
        """The number of leading features that describe visitor and query; all where the spec names none."""
        spec = self.spec
        return spec.n_segments + spec.n_kinds + spec.n_tastes or spec.user_dim

    def _learned_attributes(self) -> Mapping[str, str]:
        # Of those that ask for them alone, so that states which others have saved are read as before.
        more = {}
        if self.around == "previous":
            more[""] = "_last"
        if self.held_out:
            more["held_out"] = "_held_out"
        if self.planner == "actor":
            more["student"] = "_student"
        return {**super()._learned_attributes(), **more}

    def select_action(self, context: Context) -> FloatArray:
        """Return uniform boosts at first and ever more rarely, else the best by one member or by mean + beta std."""
        self.check(context)
        action = self._selected(context)
        self._last.record(context, action)
        return action

    def note_decision(self, context: Context, action: Any, is_confirmed: bool = True) -> None:
        """Take the boosts that are served for the last ones."""
        self._last.record(context, action)

    def _selected(self, context: Context) -> FloatArray:
        a_max = self.spec.a_max
        visits = 1 + self._replay.seen_of(self._segment(context))
        chance = self.rng.random()
        if self._replay.seen < self.warm_up or chance * visits < self.anywhere:
            anywhere: FloatArray = self.rng.uniform(-a_max, a_max, self.spec.product_dim)
            return self._inside(context, anywhere)
        if self.planner != "actor":
            return self._searched(context)
        state = self._state(context)
        if self._student.is_ready and self.rng.random() >= self.lessons:
            return self._inside(context, self._student.act(state))
        action = self._searched(context)
        # The best by the mean, which a recommendation stands for: searches for decisions scatter by members.
        self._student.teach(state, self._best(context, self._net(), GREEDY, self.rng))
        return action

    def _searched(self, context: Context) -> FloatArray:
        """Return the best boosts by one member, or by an optimistic value."""
        net = self._net()
        if self.explore == "thompson":
            member = int(self.rng.integers(self.n_ensembles))
            return self._best(context, net._replace(trained=net.trained[member : member + 1]), GREEDY, self.rng)
        return self._best(context, net, self._optimism(), self.rng)

    def recommend(self, context: Context) -> FloatArray:
        """Return the boosts with the highest mean, or what the actor has learned."""
        self.check(context)
        if self.planner == "actor" and self._student.is_ready:
            return self._inside(context, self._student.act(self._state(context)))
        # A generator of its own, as a recommendation must not move that of decisions.
        return self._best(context, self._net(), GREEDY, np.random.default_rng(0))

    def beta_now(self) -> float:
        """Return the weight of std at this visit: beta exp(-decay t / T), or beta sqrt(log t) (Auer et al. 2002).

        With `confidence` limit it is the one that held-out visits ask for, as soon as there are enough.
        """
        fitted = self._held_out.beta(self.level) if self.confidence == "limit" else None
        if fitted is not None:
            return fitted
        if self.schedule == "logarithmic":
            return float(self.beta * np.sqrt(np.log(1.0 + self._replay.seen)))
        return float(self.beta * np.exp(-self.decay * self._replay.seen / (self.spec.steps or STEPS)))

    def judged(self) -> Judged:
        """Return what was predicted for the last `held_out` visits before they were learned from, and earned, in EUR.

        Standardised errors, (reward - mean) / std, tell how honest the ensemble is (`zoosim.models.calibration`).
        """
        return self._held_out.judged()

    def _optimism(self) -> Optimism:
        if self.confidence != "recalibrated":
            return Optimism(self.beta_now())
        mended = self._held_out.recalibration()
        return Optimism(self.beta_now(), mended.scale, mended.floor)

    def predict(self, context: Context, boosts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what boosts are predicted to earn at a request, and how far the members differ about that.

        What floors and a ceiling are worth by their multipliers counts as earned.

        Args:
            context: The request.
            boosts: `(n, product_dim)`, such as the one that was just selected.

        Returns:
            Mean and population standard deviation over members in EUR, `(n,)` each.

        Raises:
            DataError: an array is of another shape, or not finite.
        """
        self.check(context)
        actions = check_array("q-ensemble: boosts", boosts, (None, self.spec.product_dim))
        scene = self._scene(context)
        mean, std = EnsembleObjective(self._net(), scene.state, 0.0).mean_std(scene.view(actions))
        shift, unit = self._scale_of(self._segment(context))
        return shift + unit * mean, unit * std

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        """Remember the visit, and train on draws of those remembered."""
        quantities = self._quantities_of(context, feedback)
        scene = self._scene(context)
        viewed = scene.view(action[np.newaxis])
        if self.held_out and self._replay.seen >= self.warm_up:
            self._judge(scene, viewed, self._priced(reward, quantities), self._segment(context))
        self._heed(reward, quantities)
        self._replay.add(scene.state, viewed[0], reward, self._segment(context), quantities)
        if self._replay.seen >= self.warm_up:
            self._train(FIRST_STEPS if self._replay.seen == self.warm_up else self.train_steps)

    def _judge(self, scene: Scene, viewed: FloatArray, reward: float, segment: int) -> None:
        """Hold a visit out: predict its reward before it is learned from."""
        mean, std = EnsembleObjective(self._net(), scene.state, 0.0).mean_std(viewed)
        shift, unit = self._scale_of(segment)
        self._held_out.add(float(mean[0]), float(std[0]), (reward - shift) / unit, shift, unit)

    def _scale_of(self, segment: int) -> tuple[float, float]:
        """Return what a target of 0 means in a segment, and one more, in EUR."""
        if not self._replay.seen or not self.scaled:
            return 0.0, 1.0
        shifts, units = self._replay.scales(self._dual.prices())
        return float(shifts[segment]), float(units[segment])

    def _train(self, steps: int) -> None:
        # All batches in one draw: the network is handed over once.
        n = steps * self.batch_size
        batch = self._replay.draw(n, scaled=self.scaled, prices=self._dual.prices(), rng=self.rng)
        weights = None
        if self.bootstrap:
            key = stream_key(self._seed, "q-ensemble", "visits")
            # By the visit's number, so that a member weighs a visit the same however often it is replayed.
            weights = visit_weights(key, batch.numbers, self.n_ensembles)
        self._q.update_batch(batch.states, batch.actions, batch.targets, 1, self.batch_size, weights=weights)
        trained = self._q.network().trained
        # 0 at the first training, so the average starts from trained weights; n visits later 1 - 10 / (10 + n).
        keep = np.float32(min(AVERAGE, 1.0 - 10.0 / max(10.0, 10.0 + self._replay.seen - self.warm_up)))
        self._average = keep * self._average + (1 - keep) * trained if self.averaged else trained.copy()

    def _net(self) -> Ensemble:
        return self._q.network()._replace(trained=self._average)

    def _segment(self, context: Context) -> int:
        return int(np.argmax(context.features[: max(1, self.spec.n_segments)]))

    def _state(self, context: Context) -> FloatArray:
        return np.asarray(context.features[: max(1, self._visitor_columns)], float)

    def _scene(self, context: Context) -> Scene:
        state = self._state(context)
        if self.view == "boosts":
            return Scene(state, lambda actions: actions)
        columns = np.array(context.boost_features.T, order="C")  # writable even for one product, as in `ItemCritic`
        weights = position_weights(min(self.spec.k, len(context.base_scores)), FADE)

        def profiles(actions: FloatArray) -> FloatArray:
            out = np.empty(actions.shape)
            write_profiles(context.base_scores, columns, np.ascontiguousarray(actions), weights, out)
            return out

        return Scene(state, profiles)

    def _best(self, context: Context, net: Ensemble, optimism: Optimism, rng: np.random.Generator) -> FloatArray:
        scene = self._scene(context)
        d = self.spec.product_dim
        critic = EnsembleObjective(net, scene.state, optimism.beta * optimism.scale)
        centre = self._centre(context)
        ranking = self.trust_region == "ranking"
        is_ball = self.trust_region in ("fixed", "adaptive")
        ball: dict[str, Any] = {"base_action": centre, "radius": self._radius(scene, centre)} if is_ball else {}

        def objective(actions: FloatArray) -> FloatArray:
            # The search moves in the whole box, and the critic judges what would be shown in the end.
            viewed = scene.view(self._kept(context, actions, centre) if ranking else actions)
            values = critic(viewed) if optimism.floor == 0.0 else _widened(critic, viewed, optimism.floor)
            size: FloatArray = np.sum(np.square(actions / self.spec.a_max), axis=1)
            return values - self.penalty * size

        def slopes(actions: FloatArray) -> tuple[FloatArray, FloatArray]:
            values, gradients = gradient(critic, actions)
            shares = actions / self.spec.a_max
            size = np.sum(np.square(shares), axis=1)
            return values - self.penalty * size, gradients - 2.0 * self.penalty / self.spec.a_max * shares

        if self.planner == "gradient":
            return gradient_ascent(slopes, d, self._climb, rng=rng, **ball).action
        if ranking:
            action = cem_optimize(objective, d, self._search, rng=rng, init_mean=centre).action
            return self._kept(context, action[np.newaxis], centre).reshape(d)
        return cem_optimize(objective, d, self._search, rng=rng, **ball).action

    def _centre(self, context: Context) -> FloatArray:
        """Return the boosts that the trust region is around."""
        return self._base if self.around == "base" else self._last.of(context)

    def _inside(self, context: Context, action: FloatArray) -> FloatArray:
        """Bring boosts of the box into the trust region."""
        if self.trust_region == "none":
            return action
        centre = self._centre(context)
        if self.trust_region == "ranking":
            return self._kept(context, action[np.newaxis], centre).reshape(action.shape)
        return project_trust_region(action, centre, self._radius(self._scene(context), centre), self.spec.a_max)

    def _kept(self, context: Context, actions: FloatArray, centre: FloatArray) -> FloatArray:
        """Bring boosts `(n, d)` back towards a centre until they keep the limit on rank change."""
        k = min(TOP, len(context.base_scores))
        scene = context.base_scores, context.boost_features
        kept = scaled_back(*scene, actions, min(self.limit, k), k, start=centre)
        # Rounding may end just outside the box.
        inside: FloatArray = np.clip(kept, -self.spec.a_max, self.spec.a_max)
        return inside

    def _radius(self, scene: Scene, centre: FloatArray) -> float:
        if self.trust_region == "fixed":
            return self.radius
        _, std = EnsembleObjective(self._net(), scene.state, 0.0).mean_std(scene.view(centre[np.newaxis]))
        return float(adaptive_radius(std[0], FULL, min(self.narrow, self.radius), self.radius))

    def _state_loaded(self) -> None:
        self._q.config = replace(self._q.config, seed=self._seed)


def _widened(critic: EnsembleObjective, viewed: FloatArray, floor: float) -> FloatArray:
    """Return mean + beta sqrt(std^2 + floor^2) of each row."""
    mean, std = critic.mean_std(viewed)
    value: FloatArray = mean + critic.beta * np.sqrt(np.square(std) + floor**2)
    return value
