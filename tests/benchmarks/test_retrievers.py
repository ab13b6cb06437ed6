"""Q27 in small: a trained retriever holds more of what visitors like best than rules do, never-shown products too."""

import numpy as np

from benchmarks.quality.retrievers import BEST, HELD, Held, _held, draw_shop, measure, report


def test_what_is_held_is_counted_as_the_module_says() -> None:
    log_odds = np.array([[0.0, 9.0, 0.0, 9.0]])
    held = _held(np.array([[0, 1]]), np.array([[1, 2, 3]]), log_odds, np.array([False, False, True, True]))
    np.testing.assert_allclose(held, Held(1 / 3, 0.0, (0.5 + 1 / (1 + np.exp(-9.0))) / 2, 0.0))


def test_a_retriever_holds_more_than_the_rules() -> None:
    shop = draw_shop(0, 4 * HELD, 10 * BEST // 4, 2_000, 60_000)
    assert not shop.never[shop.rows.product].any()
    held = measure(shop, 0)
    assert held["retriever"].best > 1.2 * held["category rule"].best > 1.2 * held["popularity"].best
    assert held["retriever"].never_best > held["category rule"].never_best


def test_a_line_per_way_and_the_ratio_are_printed() -> None:
    lines = report([0, 1], 600, 30, 500, 6_000).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "Q27 retriever",
        "Q27 towers alone",
        "Q27 category rule",
        "Q27 popularity",
        "Q27 retriever / category rule",
    ]
