"""The experiments, by name."""

from zoosim.experiments.experiment import Experiment
from zoosim.experiments.suite.gauntlet import GAUNTLET
from zoosim.experiments.suite.head_to_head import HEAD_TO_HEAD
from zoosim.experiments.suite.labelled import LABELLED
from zoosim.experiments.suite.network_seeds import NETWORK_SEEDS
from zoosim.experiments.suite.robustness import LARGE_WORLD, ROBUSTNESS
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
        TEMPLATE_BANDITS,
        MARKET_SHIFTS,
        TEMPLATE_WIDTHS,
    )
}

STUDIES = (
    *(
        "action-shaping",
        "bottleneck",
        "calibration",
        "cem-optima",
        "late-rewards",
        "latency",
        "ope-accuracy",
        "ope-coverage",
    ),
    *("ope-verdict", "open-bandit", "overestimation", "q-sanity", "trust-region"),
)
"""The studies of a checkout (`python -m studies`), which are no part of the package: whoever runs one is told where."""

CONTINUOUS_VS_DISCRETE = "continuous-vs-discrete"
"""What `zoosim run` does beside the experiments: its learners are of two kinds, which no experiment has yet."""

__all__ = ["CONTINUOUS_VS_DISCRETE", "EXPERIMENTS", "STUDIES", "Experiment"]
