"""Products: a decision shows one of the candidates."""

from zoosim.action_spaces.base import Part
from zoosim.action_spaces.candidates import Candidates
from zoosim.core.action_space import PRODUCTS


class Products(Candidates):
    """One of the candidates, by its index."""

    name = PRODUCTS
    experiment = "head-to-head"
    contenders = ("random", "greedy", "linucb", "d-linucb", "adaptive")
    contenders_for_clicks = ("random", "linucb", "shared-linucb", "d-linucb", "shared-lin-ts", "adaptive")
    records = Part("zoosim.logs.records:ProductRecords")
    train = Part("zoosim.api.models:train_candidates")
    model = Part("zoosim.policies.model:Model")
    endpoint = Part("zoosim.serving.endpoints.products:ProductEndpoint")
    learning = Part("zoosim.serving.learning.products:ProductLearning")
    scoring = Part("zoosim.serving.forecasts.scoring:ProductScoring")
    training_columns = Part("zoosim.report.training:encoded_columns")
    import_table = Part("zoosim.logs.importing.convert:import_products")
    fit_world = Part("zoosim.api.fit_products:fit_products")
    print_fit = Part("zoosim.terminal.fitted_world:print_world")
    evaluator = Part("zoosim.off_policy.actions.products:ProductEvaluator")


SPACE = Products()
