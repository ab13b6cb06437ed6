"""The experiments, by name."""

from zoosim.arena.experiment import Experiment
from zoosim.experiments.suite.continuous_vs_discrete import CONTINUOUS_VS_DISCRETE
from zoosim.experiments.suite.gauntlet import GAUNTLET
from zoosim.experiments.suite.head_to_head import HEAD_TO_HEAD
from zoosim.experiments.suite.labelled import LABELLED
from zoosim.experiments.suite.network_seeds import NETWORK_SEEDS
from zoosim.experiments.suite.robustness import LARGE_WORLD, ROBUSTNESS
from zoosim.experiments.suite.search_shops import SEARCH_SHOPS
from zoosim.experiments.suite.shops import SHOPS
from zoosim.experiments.suite.showdown import SHOWDOWN
from zoosim.experiments.suite.staleness import STALENESS
from zoosim.experiments.suite.template_bandits import MARKET_SHIFTS, TEMPLATE_BANDITS
from zoosim.experiments.suite.template_widths import TEMPLATE_WIDTHS
from zoosim.experiments.suite.turnover import TURNOVER

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        HEAD_TO_HEAD,
        SHOWDOWN,
        GAUNTLET,
        LABELLED,
        STALENESS,
        NETWORK_SEEDS,
        ROBUSTNESS,
        LARGE_WORLD,
        TURNOVER,
        SHOPS,
        SEARCH_SHOPS,
        TEMPLATE_BANDITS,
        MARKET_SHIFTS,
        TEMPLATE_WIDTHS,
        CONTINUOUS_VS_DISCRETE,
    )
}

STUDIES = (
    *("action-shaping", "boost-curves", "bottleneck", "calibration", "cem-optima", "cold-start", "late-rewards"),
    *("latency", "ope-accuracy", "ope-coverage", "ope-verdict", "open-bandit", "overestimation"),
    *("parameter-sensitivity", "product-effects", "q-sanity", "reward-kinds", "swapped-personas", "trust-region"),
)
"""The studies of a checkout (`python -m studies`), which are no part of the package: whoever runs one is told where."""

__all__ = ["EXPERIMENTS", "STUDIES", "Experiment"]
