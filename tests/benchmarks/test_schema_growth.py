"""The benchmark of schemas that grow: the same visitors come in all ways, and what is right is the shop's truth."""

import numpy as np
import pytest

from benchmarks.quality import schema_growth
from benchmarks.quality.schema_growth import Shop, Way, draw_shop, right


def test_a_service_that_is_never_told_of_segments_is_right_by_chance() -> None:
    """Two segments that like another product each: 60 visits while no schema is there show what is listed first."""
    shop = Shop(np.array([[0.9, 0.1], [0.1, 0.9]]))
    shown = right(shop, 0, Way(None), visits=60)
    assert shown.shape == (60,)
    assert 0.2 < shown.mean() < 0.8
    assert np.array_equal(shown, right(shop, 0, Way(None, has_segment=False), visits=60))


def test_each_segment_likes_another_product() -> None:
    for seed in range(20):
        rates = draw_shop(seed).click_rates
        assert len(set(rates.argmax(axis=1))) == len(rates)


def test_it_prints_points_less_than_the_control(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = {name: 0.9 - 0.1 * number for number, name in enumerate(schema_growth.WAYS)}
    ways = {id(way): name for name, way in schema_growth.WAYS.items()}
    monkeypatch.setenv("ZOOSIM_SHOPS", "2")
    monkeypatch.setattr(schema_growth, "FIRST", 0)
    monkeypatch.setattr(schema_growth, "right", lambda shop, seed, way: np.full(500, shares[ways[id(way)]]))
    schema_growth.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith(
        "a schema that stays as it is: 80.0% right (80.0 to 80.0) in visits 1,001 to 1,500 of 2 shops, 10.0 points "
        "less than the control"
    )
    assert len(lines) == len(schema_growth.WAYS)
