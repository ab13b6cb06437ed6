"""A guardrail around a policy of boosts: at most so many products of a top k leave it, at every decision.

It is the base ranker's top k, or that of the ranking which the policy served before: the boosts served last to the same
segment and query type, applied to the present request. Held against the former a policy never leaves the base ranker's
neighbourhood; held against the latter it may walk far, in steps that each keep the limit.

What is asked for too much is brought back along the ray to it until the limit is kept
(`zoosim.ranking.stability.largest_scale`): all scores of this request are in its context, so the guardrail holds before
anything is shown. The policy inside learns from what was done, not from what it asked for.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.checks import check_array
from zoosim.core.errors import PolicyError
from zoosim.core.parameters import parameter, parameters_of, shown
from zoosim.core.types import Context, FloatArray, Progress
from zoosim.policies.base import policy_name
from zoosim.policies.boosts.base import BoostPolicy, BoostSpec
from zoosim.policies.boosts.last_boosts import LastBoosts
from zoosim.policies.registry import find_class
from zoosim.ranking.stability import largest_scale, products_leaving

ROOM = 1e-6
"""Boosts that could not be larger by this share were scaled back to where they are."""


class GuardrailDecision(NamedTuple):
    """A request for boosts, and what the guardrail made of it; for logs.

    `asked (d,)` by the policy inside and what was `done (d,)`, at `scale` times the distance from the boosts that it is
    held against; how many products leave their top k with each, `asked_change` and `change`; `why`, empty where nothing
    was changed.
    """

    asked: FloatArray
    done: FloatArray
    scale: float
    asked_change: int
    change: int
    why: str


class RankGuardrail(BoostPolicy):
    """Wrap a policy of boosts so that at most `limit` products leave the top k of the base ranker, or of the last one.

    Before the first decision for a segment and query type the last ranking is the base ranker's.
    """

    name = "rank-guardrail"
    learned = ("n_decisions", "n_changed", "inside")
    policy: str = parameter("q-ensemble", help="the policy of boosts inside, by name, with its own defaults")
    limit: int = parameter(3, low=0, high=1_000, help="how many products may leave the top k")
    k: int = parameter(10, low=1, high=1_000, help="the k of that top k")
    against: str = parameter(
        "base", choices=("base", "previous"), help="whose top k: the base ranker's, or that of the boosts served last"
    )

    def __init__(self, spec: BoostSpec, rng: np.random.Generator, **params: Any) -> None:
        """Make the guardrail and the policy inside. See `around` for one that is there.

        Args:
            spec: The dimensions of its task.
            rng: The source of the random draws of the policy inside.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
            PolicyError: `policy` is no policy of boosts, or a guardrail itself.
        """
        super().__init__(spec, rng, **params)
        cls = find_class(self.policy)
        if not issubclass(cls, BoostPolicy) or issubclass(cls, RankGuardrail):
            raise PolicyError(
                f"rank-guardrail.policy: got {self.policy}, expected a policy of boosts without guardrail"
            )
        self._set(cls(spec, rng))

    @classmethod
    def around(cls, policy: BoostPolicy, *, limit: int = 3, k: int = 10, against: str = "base") -> "RankGuardrail":
        """Return a guardrail around a policy that is there already; raises `ConfigError`."""
        # `random-boosts` takes no draw until it is asked, and is replaced at once.
        guarded = cls(policy.spec, policy.rng, policy="random-boosts", limit=limit, k=k, against=against)
        guarded.policy = policy_name(type(policy))
        guarded._set(policy)
        return guarded

    def _set(self, policy: BoostPolicy) -> None:
        self.inside = policy
        self.last = None
        self._last = LastBoosts(self.spec, np.zeros(self.spec.product_dim))
        self._decided = None
        self.n_decisions = 0
        self.n_changed = 0

    last: GuardrailDecision | None
    """The last decision that was to be served."""

    _decided: tuple[Context, FloatArray] | None
    """The request of that decision, and the boosts that it was held against; None before the first one."""

    def _learned_attributes(self) -> Mapping[str, str]:
        # Of those that ask for them alone, so that states which others have saved are read as before.
        last = {"": "_last"} if self.against == "previous" else {}
        return {**super()._learned_attributes(), **last}

    def select_action(self, context: Context) -> FloatArray:
        """Return what the policy inside asks for, held back where need be; `last` tells of it until the next one."""
        start, _ = self._origin(context)
        self.last = self.held(context, self.inside.select_action(context))
        self._decided = context, start
        self.n_decisions += 1
        if self.last.why:
            self.n_changed += 1
            self.inside.note_decision(context, self.last.done)
        self._last.record(context, self.last.done)
        return self.last.done

    def note_decision(self, context: Context, action: Any, is_confirmed: bool = True) -> None:
        """Take the boosts that are served for the last ones, inside as well."""
        self.inside.note_decision(context, action, is_confirmed)
        self._last.record(context, action)

    def recommend(self, context: Context) -> FloatArray:
        """Return what the policy inside recommends, held back where need be."""
        return self.held(context, self.inside.recommend(context)).done

    def held(self, context: Context, asked: FloatArray) -> GuardrailDecision:
        """Return the decision for requested boosts `(d,)`; raises `DataError` if they are not finite numbers."""
        self.check(context)
        wish = check_array(f"{self.policy}: action", asked, (self.spec.product_dim,))
        start, old = self._origin(context)
        step = wish - start
        k = self._k(context)
        scale = largest_scale(old, context.boost_features, step, min(self.limit, k), k)
        before = products_leaving(old, context.boost_features, step, k)
        if scale == 1.0:
            return GuardrailDecision(wish, wish, 1.0, before, before, "")
        # Rounding may end just outside the box.
        done: FloatArray = np.clip(start + scale * step, -self.spec.a_max, self.spec.a_max)
        change = products_leaving(old, context.boost_features, scale * step, k)
        whose = "top" if self.against == "base" else "last top"
        why = f"{before} of the {whose} {k} would leave, the limit is {self.limit}"
        return GuardrailDecision(wish, done, scale, before, change, why)

    def _origin(self, context: Context) -> tuple[FloatArray, FloatArray]:
        """Return the boosts `(d,)` whose ranking decisions are held against, and the scores `(K,)` under them."""
        if self.against == "base":
            return np.zeros(self.spec.product_dim), context.base_scores
        start = self._last.of(context)
        return start, context.base_scores + context.boost_features @ start

    def _origin_of(self, context: Context, boosts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the origin that boosts are or were held against: of the last decision that of before it was taken."""
        # A decision becomes the next origin as soon as it is taken; a log asks for its density only then.
        if self.against == "base" or self._decided is None or self.last is None:
            return self._origin(context)
        request, start = self._decided
        if request is not context or not np.array_equal(boosts, self.last.done):
            return self._origin(context)
        return start, context.base_scores + context.boost_features @ start

    def _params(self) -> dict[str, Any]:
        return {name: getattr(self.inside, name) for name in parameters_of(type(self.inside))}

    def _k(self, context: Context) -> int:
        return min(self.k, len(context.base_scores))

    def learn(self, context: Context, action: FloatArray, reward: float, feedback: Mapping[str, Any] | None) -> None:
        """Teach the policy inside what was done."""
        self.inside.learn(context, action, reward, feedback)

    def fit(self, log: Any, progress: Progress = lambda line: None) -> dict[str, float]:
        """Teach the policy inside by a log."""
        return self.inside.fit(log, progress)

    def density(self, context: Context, action: Any) -> float:
        """Return the density of what is done: that of the policy inside, 0 beyond the limit.

        Of the last decision it is the density with which that was taken. Raises `PolicyError` on the limit itself,
        where all larger wishes in that direction end: no density exists.
        """
        boosts = check_array("rank-guardrail: action", action, (self.spec.product_dim,))
        k = self._k(context)
        start, old = self._origin_of(context, boosts)
        step = (1.0 + ROOM) * (boosts - start)
        further = largest_scale(old, context.boost_features, step, min(self.limit, k), k)
        if further == 1.0:
            # Within the limit with room to spare: no other wish ends here.
            return self.inside.density(context, boosts)
        # Beyond the limit by more than the slack of `ROOM`, where no wish ends.
        if further * (1.0 + ROOM) < 1.0 - ROOM:
            return 0.0
        raise PolicyError("rank-guardrail: boosts on the limit have no density: all larger ones end there; log `asked`")

    def learned_in_use(self) -> dict[str, Any]:
        """Return what the learned fields hold and the parameters, by their names in `state_dict`."""
        return {"params": self._params(), **super().learned_in_use()}

    def _checked_state(self, saved: Any) -> dict[str, Any]:
        rest = dict(saved) if isinstance(saved, Mapping) else {}
        params = rest.pop("params", None)
        if isinstance(params, Mapping):  # earlier releases saved no parameters that they had not
            defaults = {name: each.default for name, each in parameters_of(type(self.inside)).items()}
            params = {**{name: params.get(name, default) for name, default in defaults.items()}, **params}
        if repr(params) != repr(self._params()):  # written, since arrays cannot be compared to a truth value
            came = f"a {self.policy} with {shown(params)}"
            raise ValueError(f"guards another policy than {came}; save `inside` alone, or use `around`")
        return super()._checked_state(rest)

    def _state_loaded(self) -> None:
        self.last = None
        self._decided = None
