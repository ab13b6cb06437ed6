"""Q16: who wins in which kind of shop: the tables of docs/shops.md, from 40 shops drawn at random."""

from collections.abc import Iterator, Mapping
from typing import Any

import zoosim
from zoosim.core.number_format import percent

SEEDS = "1000:1040"
POLICIES = ("random", "greedy", "linucb", "d-linucb", "neural-linear", "adaptive")


def main() -> None:
    """Run what is missing in runs/shops-1000-1040, and print a table in Markdown for each trait of shops."""
    result = zoosim.run("shops", policies=POLICIES, seeds=SEEDS, out="runs/shops-1000-1040")
    print(f"Q16 {result.verdict}")
    for line in tables(result.summary["kinds"]):
        print(line)
    print(f"Q16 the figure: {result.path / 'report.html'}")


def tables(kinds: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table per trait: each kind of shop, who is ahead by how much, and what the others reach."""
    for trait in dict.fromkeys(kind["trait"] for kind in kinds):
        rows = [kind for kind in kinds if kind["trait"] == trait]
        names = list(rows[0]["policies"])
        yield ""
        yield " | ".join([f"| {trait}", "shops", "ahead", "lead, points", *(f"`{name}`" for name in names)]) + " |"
        yield "|" + " --- |" * (len(names) + 4)
        for row in rows:
            means = [percent(row["policies"][name]) for name in names]
            cells = [row["value"], str(len(row["seeds"])), f"`{row['best']}`", _lead(row["lead"]), *means]
            yield f"| {' | '.join(cells)} |"


def _lead(lead: Mapping[str, float | None] | None) -> str:
    """Write a lead in points with its interval."""
    if lead is None or lead["mean"] is None:
        return ""
    mean = f"{100 * lead['mean']:.1f}"
    if lead["low"] is None or lead["high"] is None:
        return mean
    return f"{mean} ({100 * lead['low']:.1f} to {100 * lead['high']:.1f})"
