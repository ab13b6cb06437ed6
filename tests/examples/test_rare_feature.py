"""The example of a rare feature prints the weights of both methods."""

import pytest

from examples.rare_feature import main


def test_ridge_halves_the_weight_of_a_feature_that_was_seen_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The gram is [[100, 1], [1, 1]], b is (20, 1): theta is (19, 80) / 99, with 1 on the diagonal (39, 81) / 201.

    The inverse of the latter is [[2, -1], [-1, 101]] / 201, whose diagonal has the squared widths.
    """
    main()
    least_squares, ridge, _ = capsys.readouterr().out.splitlines()
    assert least_squares.endswith(f"dog owner {19 / 99:.3f}, holiday special {80 / 99:.3f}")
    widths = [f"{(entry / 201) ** 0.5:.2f}" for entry in (2, 101)]
    assert ridge.endswith(
        f"dog owner {39 / 201:.3f} (width {widths[0]}), holiday special {81 / 201:.3f} (width {widths[1]})"
    )
