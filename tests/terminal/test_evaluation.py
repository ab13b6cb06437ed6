"""What the terminal says against estimates: of those that speak for policies, or of all."""

from dataclasses import replace

from zoosim.core.statistics import Interval
from zoosim.off_policy.results import Evaluation, Result
from zoosim.off_policy.verdict import DO_NOT_USE, TRUST, WEAK
from zoosim.report.evaluation_tables import reasons_table
from zoosim.terminal.evaluation import reason_lines


def judged(reward: str, **reasons: tuple[str, ...]) -> Evaluation:
    """An evaluation of one policy by an estimator per name, which is weak, or with two reasons useless."""
    results = tuple(
        Result("new", name, 0.1, 0.05, 0.15, 500.0, 1.0, 2.0, (TRUST, WEAK, DO_NOT_USE)[len(why)], why, 100.0)
        for name, why in reasons.items()
    )
    return Evaluation(results, (), Interval(0.1, 0.09, 0.11), 900, 900, {}, "shop.parquet", reward=reward)


def test_only_estimates_that_speak_for_a_policy_are_explained_unless_all_are_asked_for() -> None:
    clicks = judged("click", ips=("few rows", "drift"), dr=("few rows",), dm=("few rows", "drift"))
    revenue = judged("revenue", ips=("few rows",), dr=("few rows", "drift"), dm=("few rows", "drift"))
    alone = ["new (dr): weak: few rows."]
    assert reason_lines(clicks) == alone
    assert reason_lines(clicks, wide=True) == ["new (ips, dm): do not use: few rows; drift.", *alone]
    both = replace(clicks, others={"revenue": revenue})
    assert reason_lines(both) == ["new (dr of clicks, ips of revenue): weak: few rows."]
    assert reason_lines(both, wide=True) == [
        "new (ips of clicks, dm of clicks, dr of revenue, dm of revenue): do not use: few rows; drift.",
        "new (dr of clicks, ips of revenue): weak: few rows.",
    ]
    assert reason_lines(judged("click", dr=())) == []


def test_the_page_has_the_reasons_of_every_reward() -> None:
    clicks = judged("click", ips=("few rows",), dr=("few rows", "drift"))
    both = replace(clicks, others={"revenue": judged("revenue", ips=("few rows",), dr=("few rows",), dm=("far off",))})
    assert reasons_table(both).rows == [
        ("new", "few rows", "click, revenue", "ips, dr"),
        ("new", "drift", "click", "dr"),
        ("new", "far off", "revenue", "dm"),
    ]
    assert len(reasons_table(judged("click", dr=())).rows) == 1
