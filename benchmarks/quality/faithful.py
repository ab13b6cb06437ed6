"""Q1: is the arena faithful? The published policies against the figures measured before the project began.

Each line gives our mean, sd and n over seeds 1000 and up, the reference's, and the difference in standard errors of the
difference, sqrt(sd1^2/n1 + sd2^2/n2); a reference without sd counts as exact.
"""

import math
import tempfile
from typing import Any, NamedTuple

import numpy as np

import zoosim
from zoosim.arena.past import uniform_log
from zoosim.arena.store import RunFolder, TrialKey
from zoosim.core.config import EnvConfig
from zoosim.core.parquet import read_meta
from zoosim.worlds.recommendation.world import build_world

SEEDS = "1000:1032"


class Reference(NamedTuple):
    """A figure to meet: % of oracle over `phase` (None for the whole run), its sd and number of seeds."""

    policy: str
    phase: int | None
    mean: float
    sd: float
    n: int


REFERENCES = (
    Reference("random", None, 38.2, 0.0, 16),
    Reference("linucb", None, 88.9, 3.8, 16),
    Reference("neural-linear-stable", None, 78.1, 10.6, 16),
    Reference("static-mlp", None, 76.2, 2.0, 5),
    Reference("static-mlp", 0, 97.4, 2.0, 5),
    Reference("static-mlp", 2, 67.7, 2.0, 5),
)


def main() -> None:
    """Run the gauntlet over 32 seeds and print every comparison."""
    with tempfile.TemporaryDirectory() as folder:
        result = zoosim.run("gauntlet", seeds=SEEDS, out=folder)
        values = {name: [c for _, c in sorted(trials.items())] for name, trials in result.comparison.trials.items()}
        for reference in REFERENCES:
            _compare(reference, values[reference.policy])
        adaptive = result.summary["policies"]["d-linucb"]["oracle_fraction"]
        print(f"Q1 d-linucb: {100 * adaptive['mean']:.2f}% of oracle, worst seed {100 * adaptive['min']:.2f}%")
        store, seeds = RunFolder(result.path), result.summary["seeds"]
        losses = [_loss(store, seed) for seed in seeds]
        print(f"Q1 static-mlp: validation loss {np.mean(losses):.4f} (sd {np.std(losses, ddof=1):.4f})")
    means = [float(uniform_log(build_world(EnvConfig(), seed=seed), 200_000).rewards.mean()) for seed in seeds]
    print(f"Q1 uniform log of 200,000 visits: mean click {np.mean(means):.4f} (sd {np.std(means, ddof=1):.4f})")


def _compare(reference: Reference, trials: list[Any]) -> None:
    index = 0 if reference.phase is None else reference.phase + 1
    ours = 100 * np.array([trial.fraction[index] for trial in trials])
    sd, n = float(ours.std(ddof=1)), len(ours)
    error = math.sqrt(sd**2 / n + reference.sd**2 / reference.n)
    label = "whole" if reference.phase is None else f"phase {reference.phase + 1}"
    distance = (ours.mean() - reference.mean) / error
    published = f"reference {reference.mean} (sd {reference.sd}, n {reference.n})"
    print(f"Q1 {reference.policy}, {label}: {ours.mean():.1f} (sd {sd:.1f}, n {n}); {published}: {distance:+.1f} se")


def _loss(store: RunFolder, seed: int) -> float:
    return float(read_meta(store.trial_path(TrialKey("static-mlp", seed)))["fit"]["validation_loss"])
