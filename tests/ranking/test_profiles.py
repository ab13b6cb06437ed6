"""What boosts bring to the top: profiles by hand, and against plain numpy."""

import numpy as np
import pytest

from zoosim.core.errors import ConfigError, DataError
from zoosim.ranking.profiles import position_weights, slate_profiles


def test_profiles_by_hand() -> None:
    base, features = np.array([1.0, 0.0, 0.5]), np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 4.0]])
    # top 2 without boosts: 0, 2; with (1, 0): 1, 0. Weights 1 and 1/2 of 3/2.
    found = slate_profiles(base, features, np.array([[0.0, 0.0], [1.0, 0.0]]), k=2, fade=0.5)
    np.testing.assert_allclose(found, [[0.0, (1.0 + 0.5 * 4.0) / 1.5], [2.0 / 1.5, 0.5 / 1.5]])


def test_profiles_are_those_of_plain_numpy() -> None:
    rng = np.random.default_rng(0)
    base, features, actions = rng.normal(size=80), rng.normal(size=(80, 6)), rng.uniform(-1, 1, (30, 6))
    for found, action in zip(slate_profiles(base, features, actions), actions, strict=True):
        shown = np.argsort(-(base + features @ action))[:20]
        np.testing.assert_allclose(found, np.average(features[shown], axis=0, weights=0.8 ** np.arange(20)))


def test_with_fewer_products_than_places_all_count() -> None:
    features = np.array([[1.0], [3.0]])
    np.testing.assert_allclose(slate_profiles(np.zeros(2), features, np.zeros((1, 1)), fade=1.0), [[2.0]])
    np.testing.assert_allclose(position_weights(3, 0.0), [1.0, 0.0, 0.0])


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(DataError, match=r"actions: got an array of shape \(1, 2\), expected \(n, 1\)"):
        slate_profiles(np.zeros(2), np.zeros((2, 1)), np.zeros((1, 2)))
    with pytest.raises(ConfigError, match="fade: got 2, expected a number, 0 to 1"):
        slate_profiles(np.zeros(2), np.zeros((2, 1)), np.zeros((1, 1)), fade=2)
