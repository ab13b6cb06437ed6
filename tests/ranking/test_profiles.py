"""What boosts bring to the top: profiles by hand, and against plain numpy."""

import numpy as np

from zoosim.core.types import FloatArray
from zoosim.ranking.profiles import position_weights, write_profiles


def profiles(base: FloatArray, features: FloatArray, actions: FloatArray, k: int, fade: float) -> FloatArray:
    out = np.empty(actions.shape)
    write_profiles(base, np.ascontiguousarray(features.T), actions, position_weights(k, fade), out)
    return out


def test_profiles_by_hand() -> None:
    base, features = np.array([1.0, 0.0, 0.5]), np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 4.0]])
    # top 2 without boosts: 0, 2; with (1, 0): 1, 0. Weights 1 and 1/2 of 3/2.
    found = profiles(base, features, np.array([[0.0, 0.0], [1.0, 0.0]]), k=2, fade=0.5)
    np.testing.assert_allclose(found, [[0.0, (1.0 + 0.5 * 4.0) / 1.5], [2.0 / 1.5, 0.5 / 1.5]])


def test_profiles_are_those_of_plain_numpy() -> None:
    rng = np.random.default_rng(0)
    base, features, actions = rng.normal(size=80), rng.normal(size=(80, 6)), rng.uniform(-1, 1, (30, 6))
    for found, action in zip(profiles(base, features, actions, k=20, fade=0.8), actions, strict=True):
        shown = np.argsort(-(base + features @ action))[:20]
        np.testing.assert_allclose(found, np.average(features[shown], axis=0, weights=0.8 ** np.arange(20)))


def test_position_weights_without_a_second_glance() -> None:
    np.testing.assert_allclose(position_weights(3, 0.0), [1.0, 0.0, 0.0])
