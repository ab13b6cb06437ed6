"""Logs of boosts from the search shop: Records with densities, which evaluation reads."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from studies.held_out import open_shop, spec_of
from zoosim.api.runs import write_log
from zoosim.core.errors import ConfigError, PolicyError
from zoosim.logs.parse import read_log
from zoosim.policies.registry import find_class

SMALL = ["env.n_products=60", "env.n_users=40", "env.k=5", "env.a_max=0.5"]


def written(folder: Path, policy: str = "normal-boosts", settings: Any = (), n: int = 40) -> pl.DataFrame:
    written = write_log(folder / "log.parquet", n=n, policy=policy, seed=5, settings=[*SMALL, *settings])
    frame = pl.read_parquet(folder / "log.parquet")
    assert written.mean_reward == pytest.approx(frame["reward"].mean(), rel=1e-12)
    return frame


def test_a_log_of_boosts_holds_what_the_shop_saw(tmp_path: Path) -> None:
    frame = written(tmp_path, settings=["policies.normal-boosts.spread=0.2"])
    shop = open_shop({"n_products": 60, "n_users": 40, "k": 5, "a_max": 0.5}, 5)
    policy: Any = find_class("normal-boosts")(spec_of(shop, 40), np.random.default_rng(0), spread=0.2)
    for row in frame.head(10).iter_rows(named=True):
        visit = shop.arrive(row["step"])
        action = np.array(row["action"])
        result = shop.serve(visit, shop.rank(visit, action))
        assert row["propensity"] == policy.density(zoosim.Context(), action)
        assert (row["user_id"], row["user"]) == (visit.user, shop.features(visit).tolist())
        assert (row["reward"], row["gmv"], row["click"]) == (result.reward, result.parts.gmv, result.parts.clicks)
    assert frame["decision_id"].n_unique() == 40
    assert frame["time"].dtype == pl.Datetime("us", "UTC")


def test_the_same_call_writes_the_same_log_and_evaluation_reads_it(tmp_path: Path) -> None:
    first = written(tmp_path)
    assert first.equals(written(tmp_path))
    log = read_log(tmp_path / "log.parquet")
    assert (log.a_max, log.actions.shape) == (0.5, (40, 10))
    found = zoosim.evaluate(tmp_path / "log.parquet", ["normal-boosts", "random-boosts"])
    assert [(row.policy, row.estimator) for row in found.results] == [
        *(("normal-boosts", estimator) for estimator in ("ips", "snips")),
        *(("random-boosts", estimator) for estimator in ("ips", "snips")),
    ]
    assert found.results[0].value == pytest.approx(found.logged.mean, rel=1e-12)


def test_what_has_no_density_and_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="constant-boosts: has no density over boosts"):
        written(tmp_path, "constant-boosts")
    with pytest.raises(ConfigError, match="random-boosts: unknown parameter 'spread'"):
        written(tmp_path, settings=["policies.random-boosts.spread=0.2"])
    with pytest.raises(ConfigError, match=r"normal-boosts.*spread"):
        written(tmp_path, settings=["policies.normal-boosts.spread=-1"])


OWN = """
import numpy as np
from zoosim.policies.boosts.simple import RandomBoosts

class Own(RandomBoosts):
    name = "own"

    def {method}(self, *given):
        return {answer}
"""


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [
        ("density", "float('nan')", ".*gives nan as the density of what it chose, expected one number from 1e-60"),
        ("density", "0.0", ".*gives 0.0 as the density"),
        ("density", "np.zeros(2)", ".*gives array"),
        ("density", "None", ".*gives None as the density"),
        ("select_action", "1 / 0", "ZeroDivisionError: division by zero"),
        ("select_action", "np.zeros(3)", "ValueError: select_action returned .*, expected 10 numbers"),
        ("update", "1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_what_a_policy_of_ones_own_does_wrong_is_told_with_the_step(
    tmp_path: Path, method: str, answer: str, words: str
) -> None:
    (tmp_path / "own.py").write_text(OWN.format(method=method, answer=answer), encoding="utf-8")
    with pytest.raises(PolicyError, match=f"policy own failed, seed 0, step 0.*: {words}"):
        write_log(tmp_path / "log.parquet", n=3, policy=f"{tmp_path / 'own.py'}:Own", settings=SMALL)
    assert not (tmp_path / "log.parquet").exists()
