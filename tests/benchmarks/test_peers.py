"""Other libraries as policies, and the table that compares them."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.peers.contests import Contest, find_tables
from benchmarks.peers.rivals import PEERS, RIVALS, entries
from benchmarks.peers.table import lines
from zoosim import Context, Policy, PolicySpec
from zoosim.policies.registry import make_entry
from zoosim.policies.requests import dense_propensities

LIBRARY = {name: name.partition("-")[0].replace("vw", "vowpalwabbit") for name in PEERS}
CATALOGUE = np.eye(6)


def made(name: str) -> Policy:
    pytest.importorskip(LIBRARY[name])
    policy = make_entry(PEERS[name].source, name)
    return policy.make(PolicySpec(user_dim=2, product_dim=6), np.random.default_rng(0))


def request(user: int, products: list[int], available: list[bool] | None = None) -> Context:
    return Context(
        user_id=0,
        user=np.eye(2)[user],
        product_ids=np.array(products),
        products=CATALOGUE[products],
        available=np.array([True] * len(products) if available is None else available),
    )


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_learns_who_likes_what_while_rewards_come_late_and_products_come_and_go(name: str) -> None:
    """Visitors of kind k click product k alone: at most half of the choices that do not look at visitors are right.

    Products 2 and 3 take turns beside them, and rewards come 5 visits late.
    """
    policy = made(name)
    rng = np.random.default_rng(1)
    waiting: list[tuple[Context, int, float]] = []
    rewards = []
    for visit in range(1_500):
        user = int(rng.integers(2))
        context = request(user, [1, 2 + visit // 50 % 2, 0])
        action = policy.select_action(context)
        reward = float(context.product_ids[action] == user)
        rewards.append(reward)
        waiting.append((context, action, reward))
        if len(waiting) > 5:
            policy.update(*waiting.pop(0))
    assert np.mean(rewards[-500:]) > 0.7


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_chooses_what_is_available_by_its_propensities(name: str) -> None:
    policy = made(name)
    context = request(0, [5, 3, 4, 1], [False, True, False, True])
    assert {policy.select_action(context) for _ in range(50)} <= {1, 3}
    chances = dense_propensities(policy, context)
    assert chances[[0, 2]].tolist() == [0.0, 0.0]
    assert chances.sum() == pytest.approx(1.0)


def test_vowpal_wabbit_draws_by_its_propensities() -> None:
    """Epsilon .2 over 4 products: .85 for the best, .05 for the others; 2,000 draws, 4 standard errors of .008."""
    policy = made("vw-epsilon")
    context = request(0, [0, 1, 2, 3])
    policy.update(context, 2, 1.0)
    chances = dense_propensities(policy, context)
    np.testing.assert_allclose(chances, [0.05, 0.05, 0.85, 0.05], atol=1e-6)
    drawn = np.bincount([policy.select_action(context) for _ in range(2_000)], minlength=4) / 2_000
    np.testing.assert_allclose(drawn, chances, atol=0.032)


def test_each_value_of_a_grid_competes_when_tuning() -> None:
    assert entries(["linucb"], tune=False) == [{"name": "linucb", "type": "linucb"}]
    tuned = entries(["linucb"], tune=True)
    assert tuned[1] == {"name": "linucb-alpha-0.1", "type": "linucb", "alpha": 0.1}
    assert len({entry["name"] for entry in tuned}) == len(tuned) == 4


def test_the_table_tells_the_best_setting_in_hindsight_and_the_lead_of_the_reference() -> None:
    """Means of linucb .4, tuned .5 at alpha .3; the best of each seed .3 and .8; paired leads .6 - .4 and .6 - .5."""
    reached = {
        "adaptive": {0: 0.5, 1: 0.7},
        "linucb": {0: 0.3, 1: 0.5},
        "linucb-alpha-0.1": {0: 0.0, 1: 0.1},
        "linucb-alpha-0.3": {0: 0.2, 1: 0.8},
        "linucb-alpha-3": {0: 0.0, 1: 0.0},
    }
    contest = Contest("shops", reached, dict.fromkeys(reached, 1.25))
    table = list(lines([contest], ["adaptive", "linucb"], tune=True))
    assert table[0] == "| policy | shops | adaptive less this, shops | ms per visit |"
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:6]]
    assert [row[0] for row in cells] == ["adaptive", "linucb", "linucb, tuned", "linucb, tuned for each seed of shops"]
    assert [row[1].partition(" ")[0] for row in cells] == ["60.0", "40.0", "50.0", "55.0"]
    assert [row[1].rpartition(" ")[2] for row in cells] == ["50.0", "30.0", "20.0", "30.0"]
    assert [row[2].partition(" ")[0] for row in cells[:3]] == ["", "20.0", "10.0"]
    assert cells[1][3] == "1.25"
    assert table[6] == "linucb: shops alpha 0.3"


def test_who_learns_from_clicks_alone_is_left_out_of_shops_and_has_a_row_of_the_tables() -> None:
    limited = {name for name, rival in RIVALS.items() if not rival.takes_amounts}
    assert limited == {"shared-linucb", "shared-lin-ts", "product-linucb", "product-lin-ts"}
    assert {rival.library for rival in PEERS.values()} == {*LIBRARY.values()}
    shops = Contest("shops", {"adaptive": {0: 0.5}}, {"adaptive": 1.0})
    digits = Contest("digits", {"adaptive": {0: 0.5}, "shared-linucb": {0: 0.25}}, {}, least=0.0)
    rows = list(lines([shops, digits], ["adaptive", "shared-linucb"], tune=False))
    assert rows[3] == "| shared-linucb | \u2013 | 25.0, worst 25.0 |  | \u2013 |"


def test_tables_with_a_column_of_classes_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, folder = tmp_path / "made", tmp_path / "tables"
    made.mkdir()
    folder.mkdir()
    pl.DataFrame({"a": [1, 2], "category": ["x", "y"]}).write_parquet(folder / "kinds.parquet")
    pl.DataFrame({"a": [1, 2]}).write_csv(folder / "none.csv")
    tables = find_tables(folder, ["label", "category"], made)
    assert list(tables) == ["digits", "two moons", "kinds"]
    assert tables["kinds"] == [f"env.data='{folder / 'kinds.parquet'}'", "env.label='category'"]
    assert "none.csv: no column label or category; left out" in capsys.readouterr().err
    assert pl.read_csv(made / "two-moons.csv").height == 2_000
