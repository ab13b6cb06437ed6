"""Templates: a decision ranks a search by one of the ranking templates of its shop."""

from zoosim.action_spaces.base import Part
from zoosim.action_spaces.candidates import Candidates
from zoosim.core.action_space import TEMPLATES


class Templates(Candidates):
    """One of the ranking templates of a search shop, by its index; logged as products are."""

    name = TEMPLATES
    experiment = "template-bandits"
    contenders = ("random", "template-linucb", "template-ts", "template-greedy")
    evaluator = Part("zoosim.off_policy.actions.products:ProductEvaluator")


SPACE = Templates()
