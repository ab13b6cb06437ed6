"""What visits to a search shop came to beside their reward."""

from collections.abc import Mapping

from zoosim.core.types import FloatArray


def measures(parts: Mapping[str, FloatArray], floors: tuple[float, float]) -> dict[str, float]:
    """Return what visits to a search shop came to, of `parts`, each `(n,)`, n at least 1.

    Means a visit of GMV and CM2 in EUR and of the products that left the top; the strategic share of what was bought;
    the shares of visits below the `floors` of CM2, and of strategic goods among what was shown.
    """
    bought = parts["purchases"].sum()
    return {
        "gmv": float(parts["gmv"].mean()),
        "cm2": float(parts["cm2"].mean()),
        "strategic_share": float(parts["strategic"].sum() / bought) if bought > 0 else 0.0,
        "rank_change": float(parts["rank_change"].mean()),
        "below_cm2_floor": float((parts["cm2"] < floors[0]).mean()),
        "below_strategic_floor": float((parts["exposure"] < floors[1]).mean()),
    }
