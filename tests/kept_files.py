"""Files of each kind that a released zoosim wrote, small ones, and what that release answered by them.

`python -m tests.kept_files FILE.tar.xz` writes them: a run, a log of each action space, models, a service's folder and
a fitted world, with `answers.json`. They are made by one release, and read by the tests of those after it.
"""

import json
import shutil
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

import zoosim
from tests.logs.own_searches import write_searches
from tests.off_policy.ranked import RankedWorld
from tests.serving.process import serving
from tests.serving.shop import make_model
from zoosim.api.runs import write_log
from zoosim.logs.parse import read_log

POLICIES = ("adaptive", "linear", "linucb", "mixed-effects", "mlp", "neural-linear")
BOOST_POLICIES = ("item-critic", "q-offline")
VISITORS = [{"country": "de"}, {"country": "fr"}, {"country": "nowhere"}]
SEARCH = {"segment": "savers", "query_type": "browse", "price_taste": -1.0}
SCORES = {"SKU-0003": 0.4, "SKU-0001": 1.0, "SKU-0002": -0.2}


def write_files(folder: Path) -> None:
    """Write files of each kind into an empty folder."""
    zoosim.run("gauntlet", policies=["random", "linucb"], seeds=2, steps=200, jobs=1, log=True, out=folder / "run")
    _write_logs(folder)
    _write_models(folder)
    _write_service(folder / "service", folder / "linucb.zoosim")
    zoosim.fit_world(folder / "products.parquet", folder / "fitted")
    answers = {name: answer(folder) for name, answer in ANSWERS.items()}
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")


def _write_logs(folder: Path) -> None:
    write_log(folder / "products.parquet", n=1_000)
    write_log(folder / "templates.parquet", n=300, world="template-bandits")
    RankedWorld("above").listed(1).head(600).write_parquet(folder / "rankings.parquet")
    with TemporaryDirectory() as temporary:
        shutil.copyfile(write_searches(Path(temporary), 300), folder / "boosts.parquet")
        for catalogue in Path(temporary).glob("catalogue-*.parquet"):
            shutil.copyfile(catalogue, folder / catalogue.name)


def _write_models(folder: Path) -> None:
    with TemporaryDirectory() as temporary:
        for policy in POLICIES:
            shutil.copyfile(make_model(Path(temporary), policy), folder / f"{policy}.zoosim")
    for policy in BOOST_POLICIES:
        zoosim.train(folder / "boosts.parquet", [policy], folder / f"{policy}.zoosim")


def _write_service(folder: Path, model: Path) -> None:
    folder.mkdir()
    with serving(folder, model, wait=1) as service:
        with zoosim.Client(service.url) as shop:
            for visit in range(30):
                decision = shop.decide({"country": "de"}, visitor_id=f"visitor-{visit % 10}")
                if visit % 3 == 0:
                    shop.give_feedback(decision.id, {"click": float(visit % 2)})
        time.sleep(3.0)  # until no decision waits for feedback any more
        service.wait_for_learner()
        service.stop()
    folder.with_name("service.out").unlink()


def _trials(folder: Path) -> Any:
    result = zoosim.read_run(folder / "run")
    rows = pl.read_parquet(folder / "run" / "rows.parquet")
    return {"sums": rows.select(pl.col(pl.Float64, pl.Int64).sum()).to_dicts(), "best": str(result.verdict)}


def _logs(folder: Path) -> Any:
    logs = {}
    for space in ("products", "templates", "rankings", "boosts"):
        log = read_log(folder / f"{space}.parquet", action_space="rankings" if space == "rankings" else None)
        logs[space] = {"space": str(log.action_space), "n": len(log), "rewards": float(np.sum(log.rewards))}
    return logs


def _evaluations(folder: Path) -> Any:
    probabilities = np.array([0.7, 0.1, 0.1, 0.1])
    judged = {
        "products": zoosim.evaluate(folder / "products.parquet", ["random"]),
        "rankings": zoosim.evaluate(folder / "rankings.parquet", {"first": probabilities}, rankings=True),
        "boosts": zoosim.evaluate(folder / "boosts.parquet", [folder / "item-critic.zoosim"]),
    }
    return {name: [[row.estimator, row.value] for row in result.results] for name, result in judged.items()}


def _decisions(folder: Path) -> Any:
    decisions: dict[str, Any] = {}
    for policy in POLICIES:
        model = zoosim.load(folder / f"{policy}.zoosim")
        choices = [model.decide(visitor) for visitor in VISITORS]
        decisions[policy] = [[choice.product, choice.propensities] for choice in choices]
    for policy in BOOST_POLICIES:
        boosts: Any = zoosim.load(folder / f"{policy}.zoosim")
        rankings = [boosts.decide(SEARCH, SCORES) for _ in range(3)]
        decisions[policy] = [[list(each.ranking), each.boosts.tolist(), each.density] for each in rankings]
    return decisions


def _served(folder: Path) -> Any:
    with TemporaryDirectory() as temporary:
        copied = shutil.copytree(folder / "service", Path(temporary) / "service")
        counts = zoosim.export_log(copied, Path(temporary) / "log.parquet")
        rows = pl.read_parquet(Path(temporary) / "log.parquet")
        return {"counts": counts, "rewards": float(rows["reward"].sum()), "propensity": float(rows["propensity"].sum())}


def _fitted(folder: Path) -> Any:
    with TemporaryDirectory() as temporary:
        (world,) = (folder / "fitted").glob("*.world")
        zoosim.run(world, policies=["random"], seeds=1, steps=100, jobs=1, out=Path(temporary) / "run")
        rows = pl.read_parquet(Path(temporary) / "run" / "rows.parquet")
        return rows.select(pl.col(pl.Float64, pl.Int64).sum()).to_dicts()


ANSWERS: dict[str, Callable[[Path], Any]] = {
    "decisions": _decisions,
    "evaluations": _evaluations,
    "fitted world": _fitted,
    "logs": _logs,
    "run": _trials,
    "service": _served,
}


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        write_files(Path(temporary))
        with tarfile.open(sys.argv[1], "w:xz") as archive:
            archive.add(temporary, ".", filter=lambda member: None if member.name.endswith(".html") else member)
