"""What evaluates policies on a log, by its action space."""

from zoosim.core.action_space import ActionSpace
from zoosim.off_policy.actions.base import ActionSpaceEvaluator


def evaluator_of(action_space: ActionSpace) -> type[ActionSpaceEvaluator]:
    """Return the class that evaluates policies on logs of an action space; that of the others is not imported."""
    if action_space is ActionSpace.RANKINGS:
        from zoosim.off_policy.actions.rankings import RankingEvaluator

        return RankingEvaluator
    if action_space is ActionSpace.BOOSTS:
        from zoosim.off_policy.actions.boosts import BoostEvaluator

        return BoostEvaluator
    from zoosim.off_policy.actions.products import ProductEvaluator

    return ProductEvaluator
