"""Measures of a run in a search shop beside the reward: money, strategic goods, rank changes, floors."""

from collections.abc import Mapping

from zoosim.core.types import FloatArray


def measures(parts: Mapping[str, FloatArray], floors: tuple[float, float]) -> dict[str, float]:
    """Return measures of visits to a search shop from the `parts` of their rewards, each `(n,)`, n at least 1.

    Means per visit of GMV and CM2 in EUR and of the products that left the top; the strategic share of purchases; the
    shares of visits below the `floors` of CM2, and of strategic goods among the products shown.
    """
    cm2_floor, strategic_floor = floors
    n_purchases = parts["purchases"].sum()
    return {
        "gmv": float(parts["gmv"].mean()),
        "cm2": float(parts["cm2"].mean()),
        "strategic_share": float(parts["strategic"].sum() / n_purchases) if n_purchases > 0 else 0.0,
        "rank_change": float(parts["rank_change"].mean()),
        "below_cm2_floor": float((parts["cm2"] < cm2_floor).mean()),
        "below_strategic_floor": float((parts["exposure"] < strategic_floor).mean()),
    }
