"""Use zoosim as in a notebook: run a comparison, look at its frames, keep its page."""

from pathlib import Path

import polars as pl

import zoosim


def main(folder: Path) -> None:
    """Compare three policies on a few short runs and print what came of it."""
    result = zoosim.run("showdown", policies=["random", "greedy", "d-linucb"], seeds=4, steps=12_000, jobs=1)
    print(result.verdict)
    print(result.policies)  # a row a policy, the best first
    print(result.pairs)  # a row a pair, p corrected by Holm

    regret = (pl.col("best_probability") - pl.col("true_probability")).sum()
    per_seed = result.rows.group_by("policy", "seed").agg(regret.alias("regret"))
    print(per_seed.pivot("policy", index="seed", values="regret").sort("seed"))

    for name, figure in result.figures.items():  # Plotly figures: a notebook draws them where they stand
        print(f"{name}: {len(figure.data)} traces")
    page = folder / "notebook_style.html"
    page.write_text(result.page(), encoding="utf-8")
    print(f"page: {page.resolve().as_uri()}")


if __name__ == "__main__":
    main(Path())
