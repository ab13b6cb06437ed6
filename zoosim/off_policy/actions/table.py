"""What evaluates policies on a log, by its action space."""

from collections.abc import Mapping

from zoosim.core.action_space import ActionSpace
from zoosim.off_policy.actions.base import ActionSpaceEvaluator
from zoosim.off_policy.actions.boosts import BoostEvaluator
from zoosim.off_policy.actions.products import ProductEvaluator
from zoosim.off_policy.actions.rankings import RankingEvaluator

EVALUATORS: Mapping[ActionSpace, type[ActionSpaceEvaluator]] = {
    ActionSpace.PRODUCTS: ProductEvaluator,
    ActionSpace.RANKINGS: RankingEvaluator,
    ActionSpace.BOOSTS: BoostEvaluator,
}
