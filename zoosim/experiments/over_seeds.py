"""Means over seeds, with intervals, of frames that have a row a seed."""

import polars as pl

from zoosim.evaluation.statistics import mean_interval


def over_seeds(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Return a row a group of `keys` and figure: `seeds`, `mean`, its 95% interval, and the extremes over seeds."""
    figures = [name for name in frame.columns if name not in (*keys, "seed")]
    rows = []
    for group in frame.partition_by(*keys, maintain_order=True):
        for figure in figures:
            values = group[figure].drop_nulls().to_numpy()
            mean, low, high = mean_interval(values)
            found = {"mean": mean, "low": low, "high": high, "lowest": values.min(), "highest": values.max()}
            rows.append({**{key: group[key][0] for key in keys}, "figure": figure, "seeds": len(values), **found})
    return pl.DataFrame(rows)
