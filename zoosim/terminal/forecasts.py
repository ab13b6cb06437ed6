"""Printed forecasts, and what came of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from zoosim.core.errors import printable
from zoosim.core.number_format import counted
from zoosim.core.tables import table_of_rows
from zoosim.terminal.output import print_lines, print_table


def print_forecasts(scores: Sequence[Mapping[str, Any]], *, wide: bool = False) -> None:
    """Print a row per forecast with what came, and how many held."""
    if not scores:
        print_lines(["No forecasts: zoosim train, evaluate and recommend write them beside a model."])
        return
    heads = ("policy", "reward", "by", "made", "forecast", "came", "outcome")
    rows = [_row(score) for score in scores]
    print_table(table_of_rows("Forecasts, and what came", heads, rows, n_text=4, essential=2), wide=wide)
    print_lines([printable(f"{score['sentence']}.") for score in scores if score["reason"]])
    outcomes = Counter(score["outcome"] for score in scores)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    print_lines([f"{counted(len(scores), 'forecast')}: {counts}."])


def _row(score: Mapping[str, Any]) -> tuple[str, ...]:
    forecast = score["forecast"]
    about = f" ({forecast['about']})" if forecast.get("about") else ""
    policy = forecast.get("policy") or forecast.get("model", "")[:8]
    interval = f"{forecast['value']:.4g} ({forecast['low']:.4g} to {forecast['high']:.4g})"
    came = "-" if score["came"] is None else f"{score['came']:.4g}"
    texts = (policy, f"{forecast['reward']}{about}", forecast["by"].removeprefix("zoosim "), forecast["made"][:10])
    return (*map(printable, texts), interval, came, score["outcome"])
