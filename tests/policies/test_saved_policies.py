"""What a policy has learned goes to a file and back, and the policy goes on as it would have."""

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import zoosim
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.packed import read_packed, write_packed
from zoosim.core.search_config import RewardWeights
from zoosim.policies.boosts.base import BoostSpec
from zoosim.policies.boosts.q_boosts import QEnsemble
from zoosim.policies.boosts.rank_guardrail import RankGuardrail
from zoosim.policies.boosts.simple import RandomBoosts
from zoosim.policies.checks.maker import Maker
from zoosim.policies.checks.sameness import same
from zoosim.policies.checks.search_shop import LARGER, ONE_PRODUCT, BoostShop
from zoosim.policies.checks.search_shop import SMALL as BOOSTS
from zoosim.policies.checks.shop import SMALL
from zoosim.policies.persistence import FORMAT, PACKING, load_policy, packed_policy, save_policy
from zoosim.policies.registry import BUILT_IN, find_class

NAMES = [name for name in BUILT_IN if find_class(name).chooses != ("boosts",)]
BOOSTERS = [name for name in BUILT_IN if find_class(name).chooses == ("boosts",)]
OWN = '''
import zoosim

class Turns(zoosim.Policy):
    """Take turns; remembers a tuple, a list and a big number."""
    step: int = zoosim.parameter(1, low=1, high=9, help="how far a turn goes")
    def __init__(self, spec, rng, **params):
        super().__init__(spec, rng, **params)
        self.turn = 2**80
    def select_action(self, context):
        return self.turn % len(context.available)
    def update(self, context, action, reward, feedback=None, next_context=None):
        self.turn += self.step
    def state_dict(self):
        return {"turn": self.turn, "pair": (1, [None, True, "x"]), "rng": self.rng.bit_generator.state}
    def load_state_dict(self, state):
        assert state["pair"] == (1, [None, True, "x"])
        self.turn = state["turn"]
'''


def walk(policy: Any, first: int, visits: int = 25) -> list[int]:
    """Let a policy decide and learn; return its actions."""
    actions = []
    for visit in range(first, first + visits):
        actions.append(int(policy.select_action(SMALL.context(visit))))
        policy.update(SMALL.context(visit), actions[-1], *SMALL.feedback(visit, actions[-1]))
    return actions


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_policy_goes_on_as_the_saved_one(name: str, tmp_path: Path) -> None:
    policy = Maker(find_class(name)).ready(SMALL, 0)
    walk(policy, 0)
    loaded = load_policy(save_policy(policy, tmp_path / "policy.npz"))
    assert type(loaded) is type(policy)
    assert loaded.spec == policy.spec
    assert walk(loaded, 25) == walk(policy, 25)


def boost_walk(policy: Any, shop: BoostShop, first: int, visits: int = 40) -> list[np.ndarray]:
    """Let a policy of boosts decide and learn; return its boosts."""
    actions = []
    for visit in range(first, first + visits):
        context = shop.context(visit)
        actions += [policy.select_action(context), policy.recommend(context)]
        policy.update(context, actions[-2], *shop.feedback(visit, actions[-2]))
    return actions


@pytest.mark.parametrize("shop", [ONE_PRODUCT, BOOSTS, LARGER], ids=lambda shop: str(shop.n_products))
@pytest.mark.parametrize("name", BOOSTERS)
def test_a_loaded_policy_of_boosts_goes_on_as_the_saved_one(name: str, shop: BoostShop, tmp_path: Path) -> None:
    """To the bit, past the warm-up, and what it learns from then on is the same, too."""
    policy: Any = find_class(name)(shop.spec, np.random.default_rng(0))
    boost_walk(policy, shop, 0)
    if name == "q-offline":
        policy.fit(boost_log(shop))
    loaded: Any = load_policy(save_policy(policy, tmp_path / "policy.npz"))
    assert type(loaded) is type(policy)
    assert loaded.spec == policy.spec
    assert same(boost_walk(loaded, shop, 40), boost_walk(policy, shop, 40))
    if name == "q-offline":
        assert policy.fit(boost_log(shop)) == loaded.fit(boost_log(shop))
    assert same(loaded.state_dict(), policy.state_dict())


def boost_log(shop: BoostShop, n: int = 80) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    features = np.array([shop.context(visit).features for visit in range(n)])
    return {"features": features, "action": rng.uniform(-0.5, 0.5, (n, 4)), "reward": rng.normal(size=n)}


def test_parameters_and_weights_of_the_reward_are_kept(tmp_path: Path) -> None:
    spec = replace(BOOSTS.spec, reward=RewardWeights(gmv=2.0, clicks=0.05))
    policy = find_class("constant-boosts")(spec, np.random.default_rng(0), boosts="0.5 0 -1 1")
    loaded: Any = load_policy(save_policy(policy, tmp_path / "policy.npz"))
    np.testing.assert_array_equal(loaded.select_action(BOOSTS.context(0)), [1.0, 0.0, -2.0, 2.0])
    assert loaded.spec.reward == spec.reward


def test_a_guardrail_around_a_policy_of_its_own_is_not_saved_as_another(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "policy.npz"
    plain = QEnsemble(BOOSTS.spec, rng)
    loaded: Any = load_policy(save_policy(RankGuardrail.around(plain, limit=1), path))
    assert (loaded.limit, loaded.policy) == (1, "q-ensemble")
    before = path.read_bytes()
    other = RankGuardrail.around(QEnsemble(BOOSTS.spec, rng, explore="ucb"))
    with pytest.raises(PolicyError, match=r"do not bring it back: .*guards another policy than a q-ensemble with"):
        save_policy(other, path)

    class Own(RandomBoosts):
        name = "own"

    with pytest.raises(PolicyError, match=r"do not bring it back: unknown policy 'own'"):
        save_policy(RankGuardrail.around(Own(BOOSTS.spec, rng)), path)
    assert path.read_bytes() == before


def test_a_policy_of_ones_own_is_imported_only_where_the_caller_names_it(tmp_path: Path) -> None:
    own = f"{tmp_path}/own.py:Turns"
    (tmp_path / "own.py").write_text(OWN)
    policy = find_class(own)(SMALL.spec, np.random.default_rng(0), step=2)
    walk(policy, 0, 3)
    path = save_policy(policy, tmp_path / "turns.npz")
    loaded = load_policy(path, own)
    assert walk(loaded, 3) == walk(policy, 3)
    (tmp_path / "own.py").write_text("raise SystemExit")
    with pytest.raises(DataError, match=r"turns\.npz: holds a policy of your own, .*; name its FILE\.py:Class"):
        load_policy(path)


def test_a_parameter_in_a_file_names_no_code(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("raise SystemExit('was run')")
    policy = RankGuardrail(BOOSTS.spec, np.random.default_rng(0))
    path = tmp_path / "policy.npz"
    header, arrays = packed_policy(policy)
    params = {**header["params"], "policy": f"{tmp_path}/own.py:Own"}
    write_packed(path, PACKING, {"format": FORMAT, **header, "params": params}, arrays)
    with pytest.raises(DataError, match=r"policy\.npz: .*no code that a file names is run"):
        load_policy(path)


def test_a_saved_policy_is_judged_by_a_log(tmp_path: Path) -> None:
    """It favours what it has learned pays; as it starts, it does not."""
    rng, n = np.random.default_rng(0), 4_000
    log = pl.DataFrame({"action": rng.integers(4, size=n), "propensity": np.full(n, 0.25)})
    log = log.with_columns(reward=pl.Series((rng.random(n) < np.where(log["action"] == 2, 0.4, 0.1)).astype(float)))
    spec = zoosim.PolicySpec(user_dim=1, product_dim=0)
    policy: Any = find_class("linucb")(spec, np.random.default_rng(0))
    for _ in range(60):
        for action in range(4):
            context = zoosim.Context(
                user_id=0,
                user=np.ones(1),
                product_ids=np.arange(4),
                products=np.zeros((4, 0)),
                available=np.ones(4, bool),
            )
            policy.update(context, action, 0.4 if action == 2 else 0.1)
    save_policy(policy, tmp_path / "learned.npz")
    log = log.with_columns(user=pl.Series([[1.0]] * n))
    found = zoosim.evaluate(log, [str(tmp_path / "learned.npz")], estimators=["snips"], samples=99)
    (result,) = found.results
    assert result.policy == "learned"
    assert abs(result.value - 0.4) < 0.05


def test_a_saved_policy_of_ones_own_is_judged_by_the_name_of_its_class(tmp_path: Path) -> None:
    own = f"{tmp_path}/own.py:Turns"
    (tmp_path / "own.py").write_text(OWN)
    spec = zoosim.PolicySpec(user_dim=1, product_dim=0)
    path = save_policy(find_class(own)(spec, np.random.default_rng(0)), tmp_path / "turns.npz")
    rng = np.random.default_rng(0)
    log = pl.DataFrame({"action": rng.integers(4, size=400), "propensity": np.full(400, 0.25)})
    log = log.with_columns(reward=(pl.col("action") == 0).cast(float), user=pl.Series([[1.0]] * 400))
    with pytest.raises(DataError, match="holds a policy of your own"):
        zoosim.evaluate(log, [str(path)], estimators=["snips"], samples=99)
    (result,) = zoosim.evaluate(log, [f"{path}@{own}"], estimators=["snips"], samples=99).results
    assert (result.policy, result.value) == ("turns", 1.0)  # 2**80 is a multiple of 4: always the first product


def test_a_log_of_single_actions_judges_no_policy_of_boosts(tmp_path: Path) -> None:
    log = pl.DataFrame({"action": [0, 1], "propensity": [0.5, 0.5], "reward": [0.0, 1.0]})
    path = save_policy(RandomBoosts(BOOSTS.spec, np.random.default_rng(0)), tmp_path / "policy.npz")
    for given in ("q-ensemble", str(path)):
        with pytest.raises(PolicyError, match="sets boosts, and the log is of single actions"):
            zoosim.evaluate(log, [given])


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is no saved policy, or broken"), (b"PK\x03\x04", "is no saved policy"), (b"text", "is no saved policy")],
)
def test_a_file_that_is_none_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "broken.npz").write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_policy(tmp_path / "broken.npz")
    with pytest.raises(DataError, match="no such file; give the file that save_policy wrote"):
        load_policy(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("field", "value"),
    [("format", 2), ("policy", "nobody"), ("spec", {"n": 1}), ("state", {"odd": 1}), ("params", {"x": 1})],
)
def test_a_header_that_does_not_fit_is_refused(field: str, value: Any, tmp_path: Path) -> None:
    path = save_policy(find_class("linucb")(SMALL.spec, np.random.default_rng(0)), tmp_path / "policy.npz")
    header, arrays = read_packed(path, PACKING)
    write_packed(path, PACKING, {**header, field: value}, arrays)
    with pytest.raises(DataError, match=r"policy\.npz: "):
        load_policy(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("neural-linear", {"spec": {"user_dim": 10**8, "product_dim": 0}}),
        ("neural-linear-stable", {"params": {"hidden": 4_096, "embedding": 1_024}}),
        ("neural-ucb", {"params": {"hidden": "-".join(["4096"] * 8)}}),
        ("q-table", {"params": {"states": 10**6, "kinds": 4_096}}),
        ("dqn", {"params": {"hidden": "-".join(["4096"] * 8)}}),
        ("ppo", {"params": {"hidden": "-".join(["4096"] * 8)}}),
        ("planner", {"params": {"memory": 10**7}}),
        ("by-visitor", {"params": {"visitors": 10**7}}),
        ("adaptive", {"spec": {"user_dim": 10**7, "product_dim": 10**7}}),
        ("linucb", {"spec": {"user_dim": 10**9, "product_dim": 1}}),
        ("linucb", {"spec": {"user_dim": 2.5, "product_dim": 1}}),
    ],
)
def test_a_small_file_does_not_make_a_large_policy(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    path = save_policy(find_class(name)(SMALL.spec, np.random.default_rng(0)), tmp_path / "policy.npz")
    header, arrays = read_packed(path, PACKING)
    write_packed(path, PACKING, {**header, **change}, arrays)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"policy\.npz: is no saved policy, or broken: .*expected"):
        load_policy(path)
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


def test_few_copies_of_a_large_state_are_made(tmp_path: Path) -> None:
    """Beside the policy itself: two to check what is written, and what was read, a new policy and its own state."""
    policy = find_class("adaptive")(zoosim.PolicySpec(user_dim=300, product_dim=2), np.random.default_rng(0))
    size = sum(array.nbytes for array in policy.state_dict().values() if isinstance(array, np.ndarray))
    assert size > 20_000_000
    tracemalloc.start()
    path = save_policy(policy, tmp_path / "policy.npz")
    assert tracemalloc.get_traced_memory()[1] < 2.6 * size
    tracemalloc.reset_peak()
    load_policy(path)
    assert tracemalloc.get_traced_memory()[1] < 3.7 * size
    tracemalloc.stop()


def test_numpy_reads_a_saved_policy_and_what_it_writes_is_refused(tmp_path: Path) -> None:
    path = save_policy(find_class("linucb")(SMALL.spec, np.random.default_rng(0)), tmp_path / "policy.npz")
    with np.load(path) as file:
        arrays: dict[str, Any] = dict(file)
    assert json.loads(str(arrays["header"]))["policy"] == "linucb"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=r"policy\.npz: is no saved policy, or broken; .*checksum does not match"):
        load_policy(path)


def test_what_cannot_be_saved_is_refused_and_leaves_the_file(tmp_path: Path) -> None:
    policy, rng = find_class("linucb")(SMALL.spec, np.random.default_rng(0)), np.random.default_rng(0)
    with pytest.raises(ConfigError, match=r"expected a file in a folder that is there, ending in \.npz"):
        save_policy(policy, tmp_path / "policy.pkl")
    with pytest.raises(ConfigError, match="expected a file in a folder that is there"):
        save_policy(policy, tmp_path / "nowhere" / "policy.npz")
    path = save_policy(policy, tmp_path / "policy.npz")
    before = path.read_bytes()

    class OwnSpec(BoostSpec):
        """A task that nobody could make again."""

    task = OwnSpec(**vars(BOOSTS.spec))
    with pytest.raises(PolicyError, match="random-boosts: is made for a OwnSpec, expected a PolicySpec or a BoostSpec"):
        save_policy(RandomBoosts(task, rng), path)
    assert path.read_bytes() == before
