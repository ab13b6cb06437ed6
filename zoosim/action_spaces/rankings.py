"""Rankings: a decision shows several of the candidates, from the top."""

from zoosim.action_spaces.base import Part
from zoosim.action_spaces.candidates import Candidates
from zoosim.core.action_space import PRODUCTS, RANKINGS


class Rankings(Candidates):
    """Several of the candidates; a log holds a row per position."""

    name = RANKINGS
    chosen_by = PRODUCTS
    shows_several = True
    is_played = False
    records = Part("zoosim.logs.records:RankingRecords")
    fit_world = Part("zoosim.api.fit_products:fit_products")
    print_fit = Part("zoosim.terminal.fitted_world:print_world")
    evaluator = Part("zoosim.off_policy.actions.rankings:RankingEvaluator")


SPACE = Rankings()
