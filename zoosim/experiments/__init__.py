"""The experiments and the studies, by name."""

from zoosim.experiments.experiment import Experiment
from zoosim.experiments.gauntlet import GAUNTLET
from zoosim.experiments.head_to_head import HEAD_TO_HEAD
from zoosim.experiments.labelled import LABELLED
from zoosim.experiments.network_seeds import NETWORK_SEEDS
from zoosim.experiments.robustness import LARGE_WORLD, ROBUSTNESS
from zoosim.experiments.showdown import SHOWDOWN
from zoosim.experiments.staleness import STALENESS
from zoosim.experiments.study import (
    ACTION_SHAPING,
    BOTTLENECK,
    CALIBRATION,
    CEM_OPTIMA,
    CONTINUOUS_VS_DISCRETE,
    LATENCY,
    OPE_ACCURACY,
    OPE_COVERAGE,
    OPE_VERDICT,
    OPEN_BANDIT,
    OVERESTIMATION,
    Q_SANITY,
    TRUST_REGION,
    Study,
)
from zoosim.experiments.template_bandits import MARKET_SHIFTS, TEMPLATE_BANDITS
from zoosim.experiments.template_widths import TEMPLATE_WIDTHS
from zoosim.experiments.turnover import TURNOVER

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

STUDIES = {
    study.name: study
    for study in (
        BOTTLENECK,
        Q_SANITY,
        CALIBRATION,
        OVERESTIMATION,
        CEM_OPTIMA,
        CONTINUOUS_VS_DISCRETE,
        LATENCY,
        TRUST_REGION,
        ACTION_SHAPING,
        OPE_VERDICT,
        OPEN_BANDIT,
        OPE_COVERAGE,
        OPE_ACCURACY,
    )
}

__all__ = ["EXPERIMENTS", "STUDIES", "Experiment", "Study"]
