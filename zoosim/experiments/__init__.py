"""The experiments, by name."""

from zoosim.experiments.experiment import Experiment
from zoosim.experiments.gauntlet import GAUNTLET
from zoosim.experiments.head_to_head import HEAD_TO_HEAD
from zoosim.experiments.labelled import LABELLED
from zoosim.experiments.showdown import SHOWDOWN

EXPERIMENTS = {experiment.name: experiment for experiment in (HEAD_TO_HEAD, SHOWDOWN, GAUNTLET, LABELLED)}

__all__ = ["EXPERIMENTS", "GAUNTLET", "HEAD_TO_HEAD", "LABELLED", "SHOWDOWN", "Experiment"]
