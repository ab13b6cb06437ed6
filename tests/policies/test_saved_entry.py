"""Trained policies as contestants of a run: they begin with what they have learned, and draw anew for each seed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import zoosim
from zoosim.arena.loop import play
from zoosim.arena.past import uniform_log
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.rng import stream
from zoosim.core.types import PolicySpec
from zoosim.experiments.plan import make_plan
from zoosim.experiments.request import RunRequest
from zoosim.policies.files import file_and_class
from zoosim.policies.persistence import load_policy, save_policy
from zoosim.policies.registry import find_class, make_entry
from zoosim.policies.saved_entry import SavedEntry, make_saved_entry
from zoosim.worlds.base import World

OWN = """
import zoosim

class Favourite(zoosim.Policy):
    best = 0
    def select_action(self, context):
        return self.best
    def update(self, context, action, reward, feedback=None, next_context=None):
        self.best = action if reward > 0 else self.best
    def state_dict(self):
        return {"best": self.best}
    def load_state_dict(self, state):
        self.best = state["best"]
"""


def gauntlet(seed: int = 0) -> World:
    return make_plan(RunRequest("gauntlet", seeds=[seed], steps=300)).world(seed)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product-linucb that has learned from 2,000 random visits of a shop."""
    world = gauntlet()
    policy = find_class("product-lin-ts")(world.spec(300), np.random.default_rng(0))
    policy.fit(uniform_log(world, 2_000))
    return save_policy(policy, tmp_path_factory.mktemp("saved") / "trained.npz")


def test_a_run_begins_with_what_a_trained_policy_has_learned(trained: Path, tmp_path: Path) -> None:
    policies = [str(trained), "product-lin-ts"]
    result = zoosim.run("gauntlet", policies=policies, seeds=2, steps=300, jobs=1, out=tmp_path / "run")
    policy = load_policy(trained)
    policy.reseed(stream(1, "policy", "trained"))
    [block] = list(play(gauntlet(1), policy, 300))
    rows = result.rows.filter(policy="trained", seed=1)
    np.testing.assert_array_equal(rows["action"].to_numpy(), block.actions)
    earned = dict(zip(result.policies["policy"], result.policies["ctr"], strict=True))
    assert earned["trained"] > earned["product-lin-ts"]


def test_seeds_draw_apart(trained: Path) -> None:
    entry = make_entry(str(trained))
    spec = gauntlet().spec(300)
    first, second, again = (entry.make(spec, np.random.default_rng(seed)) for seed in (1, 2, 1))
    states = [policy.state_dict() for policy in (first, second, again)]
    for key in ("key", "draws.key"):
        assert states[0][key] != states[1][key]
        assert states[0][key] == states[2][key]


def test_a_policy_of_ones_own_needs_its_class(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    world = gauntlet()
    policy = find_class(f"{file}:Favourite")(world.spec(300), np.random.default_rng(0))
    policy.best = 3  # type: ignore[attr-defined]
    saved = save_policy(policy, tmp_path / "mine.npz")
    with pytest.raises(DataError, match=r"holds a policy of your own"):
        make_entry(str(saved))
    own = f"{saved}@{file}:Favourite"
    result = zoosim.run("gauntlet", policies=[own], seeds=1, steps=20, jobs=1, out=tmp_path / "run")
    assert set(result.rows["action"]) == {3}


def test_it_is_called_as_its_file_is(trained: Path, tmp_path: Path) -> None:
    assert make_entry(str(trained)).name == "trained"
    for file, name in (("linucb.npz", "linucb.npz"), ("my shop.npz", "my-shop")):
        (tmp_path / file).write_bytes(trained.read_bytes())
        assert make_entry(str(tmp_path / file)).name == name
    assert file_and_class("a.zoosim@b.py:C") == ("a.zoosim", "b.py:C")


def test_what_does_not_fit_is_refused(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy none\.zoosim: the file is not there"):
        make_entry("none.zoosim")
    with pytest.raises(ConfigError, match=r"policies\.trained\.alpha: .* keeps the parameters"):
        make_plan(RunRequest("gauntlet", policies=[str(trained)], settings=["policies.trained.alpha=1"]))
    entry = make_entry(str(trained))
    with pytest.raises(
        PolicyError, match=r"policy trained: was trained on \d+ features of visitors and \d+ of products"
    ):
        entry.make(PolicySpec(user_dim=1, product_dim=1, n_users=1, steps=1), np.random.default_rng(0))
    changed = tmp_path / "changed.npz"
    changed.write_bytes(trained.read_bytes())
    planned = make_saved_entry(str(changed))
    save_policy(find_class("random")(gauntlet().spec(300), np.random.default_rng(0)), changed)
    with pytest.raises(DataError, match=r"has changed while it was used"):
        planned.make(gauntlet().spec(300), np.random.default_rng(0))


def test_templates_are_not_taken_for_others_of_the_same_numbers(tmp_path: Path) -> None:
    task = PolicySpec(user_dim=3, product_dim=2, templates=("plain", "dear"))
    params = {"template": "dear"}
    save_policy(find_class("template")(task, np.random.default_rng(0), **params), tmp_path / "dear.npz")
    entry = make_saved_entry(str(tmp_path / "dear.npz"))
    assert entry.make(task, np.random.default_rng(0)).spec == task
    with pytest.raises(PolicyError, match=r"policy dear: was made for the templates plain, dear, this world has dear"):
        entry.make(replace(task, templates=("dear", "plain")), np.random.default_rng(0))


def test_a_file_that_changes_makes_another_contestant(trained: Path, tmp_path: Path) -> None:
    other = tmp_path / "trained.npz"
    policy = load_policy(trained)
    policy.reseed(np.random.default_rng(9))
    save_policy(policy, other)
    one, two = make_entry(str(trained)), make_entry(str(other))
    assert isinstance(one, SavedEntry)
    assert one.name == two.name
    assert one.fingerprint != two.fingerprint
