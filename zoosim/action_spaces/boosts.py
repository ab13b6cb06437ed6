"""Boosts: a decision weighs the boost features by which a search shop ranks."""

from typing import Any

import numpy as np

from zoosim.action_spaces.base import ActionSpace, Part
from zoosim.core.action_space import BOOSTS
from zoosim.core.arrays import as_floats
from zoosim.core.errors import PolicyError
from zoosim.core.parameters import shown
from zoosim.core.types import Context, FloatArray, PolicySpec
from zoosim.logs.schema import LARGEST_DENSITY, LEAST_DENSITY
from zoosim.policies.base import Policy


class Boosts(ActionSpace):
    """A boost from -a_max to a_max for each boost feature, whose propensity is a density."""

    name = BOOSTS
    experiment = "template-bandits"
    column = "boosts"
    context_fields = ("user_id", "features", "product_ids", "base_scores", "boost_features", "product_table")
    has_catalogue = False
    oracle_is_best = False  # a search shop's oracle shows templates, which boosts may beat
    contenders = ("random-boosts", "normal-boosts", "constant-boosts")
    records = Part("zoosim.logs.records:BoostRecords")
    recognises = Part("zoosim.logs.searches:has_searches")
    train = Part("zoosim.api.boost_models:train_boosts")
    model = Part("zoosim.policies.boost_model:BoostModel")
    endpoint = Part("zoosim.serving.endpoints.searches:SearchEndpoint")
    learning = Part("zoosim.serving.learning.searches:SearchLearning")
    scoring = Part("zoosim.serving.forecasts.scoring:SearchScoring")
    training_columns = Part("zoosim.report.training:search_columns")
    import_table = Part("zoosim.worlds.search.import_searches:import_searches")
    describes_table = Part("zoosim.worlds.search.import_searches:describes_searches")
    fit_world = Part("zoosim.api.fit_searches:fit_searches")
    print_fit = Part("zoosim.terminal.fitted_world:print_search_world")
    rehearse_instead = (
        "is a log of searches, expected one of products; zoosim fit-world makes a search shop of it, and zoosim run "
        "template-bandits --config FOLDER/world.yaml rehearses in that"
    )
    evaluator = Part("zoosim.off_policy.actions.boosts:BoostEvaluator")
    logged_choices = Part("zoosim.arena.recording:boost_choices")

    def empty(self, steps: int, spec: PolicySpec) -> Any:
        """Return boosts `(steps, product_dim)`."""
        return np.zeros((steps, spec.product_dim))

    def checked(self, action: Any, context: Context, spec: PolicySpec) -> FloatArray:
        """Return boosts `(product_dim,)`; the world says whether they lie in the box."""
        try:
            # A policy may return the same array each time, and write its next boosts into it.
            boosts = as_floats(action).copy()
        except (TypeError, ValueError):
            boosts = np.zeros(0)
        if boosts.shape != (spec.product_dim,) or not np.isfinite(boosts).all():
            raise ValueError(f"select_action returned {shown(action)}, expected {spec.product_dim} numbers")
        return boosts

    def choose(self, policy: Any, context: Context, spec: PolicySpec) -> tuple[FloatArray, float]:
        """Return the boosts that a policy selects, and their density."""
        action = self.checked(policy.select_action(context), context, spec)
        density = policy.density(context, action)
        is_density = isinstance(density, int | float | np.number) and LEAST_DENSITY <= density <= LARGEST_DENSITY
        if not is_density:
            expected = f"one number from {LEAST_DENSITY:g} to {LARGEST_DENSITY:g}"
            raise PolicyError(f"gives {shown(density)} as the density of what it chose, expected {expected}")
        return action, float(density)

    def any_action(self, context: Context, spec: Any, *, rng: np.random.Generator) -> FloatArray:
        """Return boosts that lie in the box."""
        boosts: FloatArray = rng.uniform(-spec.a_max, spec.a_max, spec.product_dim)
        return boosts

    def logged(self, context: Context) -> Context:
        """Return the features of the visit."""
        return Context(features=context.features)

    def refuse_unlogged(self, name: str, policy_class: type[Policy]) -> None:
        """Raise `PolicyError` where a class has no density of its own."""
        if policy_class.density is Policy.density:
            raise PolicyError(
                f"policy {name}: has no density over boosts, so that what it does cannot be logged; "
                "log random-boosts or normal-boosts, or leave --log out"
            )


SPACE = Boosts()
