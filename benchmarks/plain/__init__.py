"""Plain loops: slow agents straight from their formulas, to compare speed with and to hold the library's numbers to."""

from benchmarks.plain.linear import PlainInteractionUCB, PlainLinUCB
from benchmarks.plain.neural import (
    PlainNeuralLinearHead,
    PlainNeuralLinearOnline,
    PlainNeuralLinearStable,
    PlainRandom,
    PlainStaticMLP,
)
from benchmarks.plain.neural_ucb import PlainNeuralUCB

__all__ = [
    "PlainInteractionUCB",
    "PlainLinUCB",
    "PlainNeuralLinearHead",
    "PlainNeuralLinearOnline",
    "PlainNeuralLinearStable",
    "PlainNeuralUCB",
    "PlainRandom",
    "PlainStaticMLP",
]
