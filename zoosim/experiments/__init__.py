"""The experiments, by name."""

from zoosim.experiments.experiment import Experiment
from zoosim.experiments.gauntlet import GAUNTLET
from zoosim.experiments.head_to_head import HEAD_TO_HEAD
from zoosim.experiments.labelled import LABELLED
from zoosim.experiments.network_seeds import NETWORK_SEEDS
from zoosim.experiments.robustness import LARGE_WORLD, ROBUSTNESS
from zoosim.experiments.showdown import SHOWDOWN
from zoosim.experiments.staleness import STALENESS
from zoosim.experiments.template_bandits import TEMPLATE_BANDITS
from zoosim.experiments.template_widths import TEMPLATE_WIDTHS

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
        TEMPLATE_BANDITS,
        TEMPLATE_WIDTHS,
    )
}

__all__ = ["EXPERIMENTS", "Experiment"]
