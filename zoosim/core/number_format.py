"""Numbers as the terminal, pages and verdicts write them."""

import math


def percent(value: float | None, missing: str = "-") -> str:
    """Write 0.8412 as 84.1%."""
    return missing if value is None else f"{100 * value:.1f}%"


def ends(low: float | None, high: float | None, digits: int) -> str:
    """Write an interval as "0.1 to 0.2"; an end that the log leaves open is called so."""
    written = ["open" if end is None or not math.isfinite(end) else f"{end:.{digits}g}" for end in (low, high)]
    return " to ".join(written)


def weight(value: float) -> str:
    """Write an importance weight to three digits, large ones as whole numbers."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def p_value(p: float) -> str:
    """Write a p value as .012, small ones as "below .001"."""
    return "below .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")
