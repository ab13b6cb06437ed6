"""Weigh a feature that was seen once: by least squares, and by ridge regression as LinUCB does.

100 visits by dog owners, 20 of whom click. One of the 20 saw a "Holiday special", which nobody else did.
"""

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.linear.ridge import new_ridge, observe, variance

DOG_OWNER, HOLIDAY = 0, 1


def draw_visits() -> tuple[FloatArray, FloatArray]:
    """Return features `(100, 2)`, dog owner and holiday special, and clicks `(100,)`."""
    features = np.zeros((100, 2))
    features[:, DOG_OWNER] = 1.0
    features[0, HOLIDAY] = 1.0
    clicks = np.zeros(100)
    clicks[:20] = 1.0
    return features, clicks


def main() -> None:
    """Print both weights by least squares, and by ridge with what it does not know of them."""
    features, clicks = draw_visits()
    weights = np.linalg.lstsq(features, clicks, rcond=None)[0]
    print(f"least squares     dog owner {weights[DOG_OWNER]:.3f}, holiday special {weights[HOLIDAY]:.3f}")
    for regularization in (1.0, 10.0):
        ridge = new_ridge(1, 2, regularization)
        for x, click in zip(features, clicks, strict=True):
            observe(ridge, 0, x, np.flatnonzero(x), click)
        told = []
        for name, feature in (("dog owner", DOG_OWNER), ("holiday special", HOLIDAY)):
            width = variance(ridge, 0, np.eye(2)[feature], np.array([feature])) ** 0.5
            told.append(f"{name} {ridge.theta[0, feature]:.3f} (width {width:.2f})")
        print(f"ridge, lambda {regularization:<3g} {', '.join(told)}")


if __name__ == "__main__":
    main()
