"""Q5: how good q-ensemble gets, as a share of the best vector for each segment; kept on disk, a seed at a time."""

import numpy as np

from zoosim.evaluation.boost_run import run_course
from zoosim.policies.registry import make_entry

SEEDS, CHECKPOINTS = range(1000, 1020), (100, 300, 1_000, 3_000, 10_000)
CONFIG = {"n_products": 1_000, "a_max": 0.5}


def main() -> None:
    """Print mean and worst share by visits, of all seeds so far after each; the first time takes minutes a seed."""
    shares = []
    for seed in SEEDS:
        course = run_course(make_entry("q-ensemble"), CONFIG, seed, CHECKPOINTS)
        shares.append([score.reward / score.optimum for score in course.scores if score.segment == "all"])
        rows = zip(CHECKPOINTS, np.mean(shares, axis=0), np.min(shares, axis=0), strict=True)
        told = ", ".join(f"{100 * mean:.1f} ({100 * worst:.1f}) at {visits:,}" for visits, mean, worst in rows)
        ms = f"{course.decision_ms:.2f} + {course.learning_ms:.2f} ms"
        print(f"Q5 q-ensemble, {len(shares)} seeds, % of the optimum, mean (worst): {told}; {ms}")
