"""Find policies: the built-in ones by name, a user's own by FILE.py:Class."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import numpy as np

from zoosim.core.digests import short_digest
from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.parameters import check_parameters, shown, unknown
from zoosim.core.search_names import TEMPLATES
from zoosim.core.types import PolicySpec
from zoosim.core.user_code import class_in_file, code_digest
from zoosim.policies.base import Policy, policy_name
from zoosim.policies.files import is_file

if TYPE_CHECKING:  # policies of tables alone have one
    from zoosim.schema.schema import FittedSchema

FIXED: dict[str, dict[str, Any]] = {f"template-{template}": {"template": template} for template in TEMPLATES}
"""Built-in names that stand for a class with some of its parameters fixed."""

BUILT_IN = {
    "random": "zoosim.policies.products.random:Random",
    "static-mlp": "zoosim.policies.products.static_mlp:StaticMLP",
    "linear": "zoosim.policies.from_log.linear:Linear",
    "mixed-effects": "zoosim.policies.from_log.mixed_effects:MixedEffects",
    "mlp": "zoosim.policies.from_log.mlp:MLP",
    "greedy": "zoosim.policies.products.shared_linear:Greedy",
    "linucb": "zoosim.policies.products.linucb:LinUCB",
    "neural-linear-online": "zoosim.policies.products.published_neural_linear:NeuralLinearOnline",
    "neural-linear-head": "zoosim.policies.products.published_neural_linear:NeuralLinearHead",
    "neural-linear-stable": "zoosim.policies.products.published_neural_linear:NeuralLinearStable",
    "dropout-ts": "zoosim.policies.products.dropout_ts:DropoutTS",
    "visitor-linucb": "zoosim.policies.products.visitor_linear:VisitorLinUCB",
    "d-linucb": "zoosim.policies.products.shared_linear:DiscountedLinUCB",
    "neural-linear": "zoosim.policies.products.neural_linear:NeuralLinear",
    "neural-ucb": "zoosim.policies.products.neural_ucb:NeuralUCB",
    "neural-ts": "zoosim.policies.products.neural_ucb:NeuralTS",
    "shared-linucb": "zoosim.policies.products.segment_linear:SharedLinUCB",
    "shared-lin-ts": "zoosim.policies.products.segment_linear:SharedLinTS",
    "product-linucb": "zoosim.policies.products.segment_linear:ProductLinUCB",
    "product-lin-ts": "zoosim.policies.products.segment_linear:ProductLinTS",
    "adaptive": "zoosim.policies.products.adaptive:Adaptive",
    "constrained": "zoosim.policies.products.constrained:ConstrainedProducts",
    "by-visitor": "zoosim.policies.products.by_visitor:ByVisitor",
    "two-stage": "zoosim.policies.products.two_stage:TwoStage",
    "two-stage-fixed": "zoosim.policies.products.two_stage:FixedRetriever",
    "popularity": "zoosim.policies.products.rules:Popularity",
    "category-rule": "zoosim.policies.products.rules:CategoryRule",
    "cluster-linucb": "zoosim.policies.products.cluster_linucb:ClusterLinUCB",
    "q-table": "zoosim.policies.sessions.q_table:QTable",
    "dqn": "zoosim.policies.sessions.dqn:DQN",
    "iql": "zoosim.policies.sessions.iql:IQL",
    "ppo": "zoosim.policies.sessions.ppo:PPO",
    "planner": "zoosim.policies.sessions.planner:Planner",
    "qmdp": "zoosim.policies.sessions.qmdp:QMDP",
    "template": "zoosim.policies.templates.static:StaticTemplate",
    **dict.fromkeys(FIXED, "zoosim.policies.templates.static:StaticTemplate"),
    "template-greedy": "zoosim.policies.templates.bandits:TemplateGreedy",
    "template-linucb": "zoosim.policies.templates.bandits:TemplateLinUCB",
    "template-ts": "zoosim.policies.templates.bandits:TemplateTS",
    "random-boosts": "zoosim.policies.boosts.simple:RandomBoosts",
    "normal-boosts": "zoosim.policies.boosts.simple:NormalBoosts",
    "constant-boosts": "zoosim.policies.boosts.simple:ConstantBoosts",
    "q-ensemble": "zoosim.policies.boosts.q_boosts:QEnsemble",
    "q-offline": "zoosim.policies.boosts.q_offline:QOffline",
    "rank-guardrail": "zoosim.policies.boosts.rank_guardrail:RankGuardrail",
    "item-critic": "zoosim.policies.boosts.item_critic:ItemCritic",
    "actor-critic": "zoosim.policies.boosts.actor_critic:ActorCritic",
}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_refuses_user_code: ContextVar[bool] = ContextVar("_refuses_user_code", default=False)


@dataclass(frozen=True)
class PolicyEntry:
    """One contestant of a run.

    `source` is a built-in name, `FILE.py:Class`, the file of a trained policy (then it is a `SavedEntry`) or a class;
    `params` are complete and checked; `fingerprint` changes with the policy's code, what it uses of zoosim included,
    the parameters, and what a trained policy has learned.
    """

    name: str
    source: str | type[Policy]
    params: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    @property
    def built_in(self) -> bool:
        """True where the policy comes with zoosim."""
        return isinstance(self.source, str) and self.source in BUILT_IN

    @property
    def cls(self) -> type[Policy]:
        """The policy's class, imported when asked for."""
        return find_class(self.source)

    @property
    def past_visits(self) -> int:
        """Visits of a random past that the policy wants to learn from before a run; 0 for none."""
        return int(self.params.get("past_visits", self.cls.past_visits))

    @property
    def lives_here(self) -> bool:
        """True where the class lives in this process alone: typed into a notebook, or made in a function."""
        cls = self.source
        if isinstance(cls, str):
            return False
        importable = getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is cls
        return not importable or cls.__module__ == "__main__"

    @property
    def fault(self) -> str:
        """Says where the entry came from another machine that the class, found by its module, is another here."""
        if isinstance(self.source, str):
            return ""
        name = f"{self.source.__module__}.{self.source.__qualname__}"
        here = make_entry(self.source, self.name, self.params).fingerprint
        return "" if here == self.fingerprint else f"has another {name}; give it as FILE.py:Class, which is sent along"

    def make(self, spec: PolicySpec, rng: np.random.Generator, schema: "FittedSchema | None" = None) -> Policy:
        """Make the policy for a task in which features are made by a `schema`, if by any."""
        return self.cls(spec, rng, **self.params)


def make_entry(
    source: str | type[Policy], name: str | None = None, params: dict[str, Any] | None = None
) -> PolicyEntry:
    """Return a checked entry.

    Args:
        source: A built-in name, `FILE.py:Class`, a class, or the file of a trained policy.
        name: Name in the run; by default the policy's, or that of its file.
        params: Parameters by name; the others take their defaults. A trained policy takes none.

    Raises:
        ConfigError: there is no such policy, or the name or a parameter is invalid.
        DataError: the file of a trained policy is broken.
        PolicyError: the class is no policy, or cannot be imported.
    """
    if isinstance(source, str) and is_file(source):
        return _saved_entry(source, name, params or {})
    cls = find_class(source)
    name = name or policy_name(cls)
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ConfigError(f"policy name: got {shown(name)}, expected letters, digits, dots and hyphens, 64 at most")
    checked: dict[str, Any] = check_parameters(name, cls, params or {})
    inner = [find_class(value) for value in checked.values() if isinstance(value, str) and value in BUILT_IN]
    code = [code_digest(part) for part in (cls, *inner)]
    fingerprint = short_digest(repr((code, sorted(checked.items()))))
    return PolicyEntry(name, source, checked, fingerprint)


def _saved_entry(source: str, name: str | None, params: dict[str, Any]) -> PolicyEntry:
    """Return the entry of a file of a trained policy; raises `ConfigError` for parameters, which it has."""
    from zoosim.policies.saved_entry import make_saved_entry  # which reads policies, and so needs this registry

    entry = make_saved_entry(source, name)
    if params:
        raise ConfigError(
            f"policies.{entry.name}.{min(params)}: {source} is a trained policy, which keeps the parameters that it "
            "was trained with; leave it out"
        )
    return entry


def check_own_name(entry: PolicyEntry) -> None:
    """Refuse a class of the user's that is called as a built-in policy is, with `ConfigError`."""
    if entry.name in BUILT_IN and not entry.built_in:
        raise ConfigError(f"policy name: {entry.name!r} is a built-in policy; give your class another `name`")


def find_class(source: str | type[Policy]) -> type[Policy]:
    """Return the policy class of a built-in name, of `FILE.py:Class`, of a trained policy's file, or of itself."""
    if isinstance(source, type):
        return _checked_class(source, source.__qualname__)
    if source in BUILT_IN:
        cls: type[Policy] = resolve_name(BUILT_IN[source])
        return _with_fixed(cls, source) if source in FIXED else cls
    if is_file(source):
        return make_entry(source).cls
    if ":" in source or source.endswith(".py"):
        if _refuses_user_code.get():
            raise PolicyError(f"policy {source}: is named by a file, and no code that a file names is run")
        return _checked_class(class_in_file(source, "policy", PolicyError), source)
    raise ConfigError(unknown("unknown policy", source, BUILT_IN) + "; your own is given as FILE.py:Class")


@contextmanager
def without_user_code() -> Iterator[None]:
    """Refuse code of the user's own in `find_class` meanwhile: what it is asked for comes from a file."""
    before = _refuses_user_code.set(True)
    try:
        yield
    finally:
        _refuses_user_code.reset(before)


@cache
def _with_fixed(cls: type[Policy], name: str) -> type[Policy]:
    """Return a class under a built-in name that fixes some of its parameters: they are constants, not parameters."""
    fixed = ", ".join(f"{key} {value}" for key, value in FIXED[name].items())
    own = {"name": name, "__module__": cls.__module__, "__doc__": f"`{policy_name(cls)}` with {fixed}."}
    return type(f"{cls.__name__}({fixed})", (cls,), own | FIXED[name])


def _checked_class(cls: type, label: str) -> type[Policy]:
    """Return `cls` as a policy class: one that has both methods, with the base class's defaults where it lacks them."""
    missing = [name for name in ("select_action", "update") if not callable(getattr(cls, name, None))]
    missing += sorted(set(getattr(cls, "__abstractmethods__", ())) - set(missing))
    if missing:
        raise PolicyError(f"policy {label}: lacks {' and '.join(missing)}; a policy has select_action and update")
    if issubclass(cls, Policy):
        return cls
    mixed: type[Policy] = type(cls.__name__, (cls, Policy), {"__module__": cls.__module__})
    return mixed
