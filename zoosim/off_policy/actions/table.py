"""What evaluates policies on a log, by its action space."""

from collections.abc import Mapping
from importlib import import_module

from zoosim.core.action_space import ActionSpace
from zoosim.off_policy.actions.base import ActionSpaceEvaluator

EVALUATORS: Mapping[ActionSpace, str] = {
    ActionSpace.PRODUCTS: "zoosim.off_policy.actions.products:ProductEvaluator",
    ActionSpace.RANKINGS: "zoosim.off_policy.actions.rankings:RankingEvaluator",
    ActionSpace.BOOSTS: "zoosim.off_policy.actions.boosts:BoostEvaluator",
}


def evaluator_of(action_space: ActionSpace) -> type[ActionSpaceEvaluator]:
    """Return the class that evaluates policies on logs of an action space; that of the others is not imported."""
    module, _, name = EVALUATORS[action_space].partition(":")
    cls: type[ActionSpaceEvaluator] = getattr(import_module(module), name)
    return cls
