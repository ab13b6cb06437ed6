"""A guardrail around a policy of boosts: at most so many of the base ranker's top k leave it, at every decision.

What is asked for too much is scaled back along its own ray to the largest boosts that keep the limit
(`zoosim.ranking.stability.largest_scale`): the scores of this request are in its context, so the guardrail holds before
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
from zoosim.policies.registry import find_class
from zoosim.ranking.stability import largest_scale, rank_change

ROOM = 1e-6
"""Boosts that could not be larger by this share were scaled back to where they are."""


class GuardrailDecision(NamedTuple):
    """A request for boosts, and what the guardrail made of it; for logs.

    `asked (d,)` by the policy inside and what was `done (d,)`, `scale` times as much; how many products leave the top k
    with each, `asked_change` and `change`; `why`, empty where nothing was changed.
    """

    asked: FloatArray
    done: FloatArray
    scale: float
    asked_change: int
    change: int
    why: str


class RankGuardrail(BoostPolicy):
    """Wrap a policy of boosts so that at most `limit` of the base ranker's top k leave it."""

    name = "rank-guardrail"
    learned = ("n_decisions", "n_changed", "inside")
    policy: str = parameter("q-ensemble", help="the policy of boosts inside, by name, with its own defaults")
    limit: int = parameter(3, low=0, high=1_000, help="how many products may leave the base ranker's top k")
    k: int = parameter(10, low=1, high=1_000, help="the k of that top k")

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
    def around(cls, policy: BoostPolicy, *, limit: int = 3, k: int = 10) -> "RankGuardrail":
        """Return a guardrail around a policy that is there already; raises `ConfigError`."""
        # `random-boosts` takes no draw until it is asked, and is replaced at once.
        guarded = cls(policy.spec, policy.rng, policy="random-boosts", limit=limit, k=k)
        guarded.policy = policy_name(type(policy))
        guarded._set(policy)
        return guarded

    def _set(self, policy: BoostPolicy) -> None:
        self.inside = policy
        self.last = None
        self.n_decisions = self.n_changed = 0

    last: GuardrailDecision | None
    """The last decision that was to be served."""

    def select_action(self, context: Context) -> FloatArray:
        """Return what the policy inside asks for, scaled back where need be; `last` tells of it until the next one."""
        self.last = self.held(context, self.inside.select_action(context))
        self.n_decisions += 1
        self.n_changed += bool(self.last.why)
        return self.last.done

    def recommend(self, context: Context) -> FloatArray:
        """Return what the policy inside recommends, scaled back where need be."""
        return self.held(context, self.inside.recommend(context)).done

    def held(self, context: Context, asked: FloatArray) -> GuardrailDecision:
        """Return the decision for requested boosts `(d,)`; raises `DataError` if they are not finite numbers."""
        self.check(context)
        wish = check_array(f"{self.policy}: action", asked, (self.spec.product_dim,))
        scene = context.base_scores, context.boost_features
        k = self._k(context)
        scale = largest_scale(*scene, wish, min(self.limit, k), k)
        done = wish if scale == 1.0 else scale * wish
        before = rank_change(*scene, wish, k)
        if scale == 1.0:
            return GuardrailDecision(wish, done, 1.0, before, before, "")
        why = f"{before} of the top {k} would leave, the limit is {self.limit}"
        return GuardrailDecision(wish, done, scale, before, rank_change(*scene, done, k), why)

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

        Raises `PolicyError` on the limit itself, where all larger wishes in that direction end: no density exists.
        """
        boosts = check_array("rank-guardrail: action", action, (self.spec.product_dim,))
        k = self._k(context)
        scene = context.base_scores, context.boost_features
        further = largest_scale(*scene, (1.0 + ROOM) * boosts, min(self.limit, k), k)
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
        if repr(params) != repr(self._params()):  # written, since arrays cannot be compared to a truth value
            came = f"a {self.policy} with {shown(params)}"
            raise ValueError(f"guards another policy than {came}; save `inside` alone, or use `around`")
        return super()._checked_state(rest)

    def _state_loaded(self) -> None:
        self.last = None
