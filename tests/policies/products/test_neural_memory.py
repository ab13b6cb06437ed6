"""What the neural bandits keep: states that are checked, memory that is bounded, and a warning where digits end."""

import warnings
from typing import Any

import numpy as np
import pytest

from tests.policies.products.test_neural_ucb import same, shop, visits
from zoosim import Context, PolicySpec
from zoosim.core.errors import ConfigError, PolicyError
from zoosim.core.limits import CONDITION
from zoosim.neural.primal import Primal
from zoosim.policies.candidates import REMEMBERED
from zoosim.policies.products.neural_ucb import NeuralTS, NeuralUCB

STATES: list[tuple[type, dict[str, Any]]] = [
    *((cls, {}) for cls in (NeuralUCB, NeuralTS)),
    (NeuralUCB, {"hidden": "5"}),
    (NeuralUCB, {"hidden": "2-2"}),
    *((NeuralUCB, {"form": form}) for form in ("rows", "dual", "primal", "last-layer")),
    (NeuralUCB, {"history": "published", "discount": 1.0}),
    (NeuralUCB, {"history": "published", "discount": 1.0, "form": "primal"}),
    (NeuralUCB, {"normalise": False}),
    (NeuralUCB, {"regularization": 1.0}),
]


def learned(cls: type, params: dict[str, Any]) -> NeuralUCB:
    """Return a policy in the middle of a period, after a training."""
    world = shop(n_users=5)
    policy: NeuralUCB = cls(world.spec(60), np.random.default_rng(1), **{"hidden": "4", "train_every": 20, **params})
    list(visits(world, policy, 30))
    return policy


def test_a_state_made_for_something_else_is_refused_and_changes_nothing() -> None:
    """Every form, history and class against every other; its own is taken."""
    made_ones = [learned(cls, params) for cls, params in STATES]
    states = [policy.state_dict() for policy in made_ones]
    for i, policy in enumerate(made_ones):
        for j, state in enumerate(states):
            if i == j:
                policy.load_state_dict(state)
                continue
            with pytest.raises(ConfigError, match="another policy, task or parameters"):
                policy.load_state_dict(state)
            assert same(policy.state_dict(), states[i])


def test_a_broken_state_is_refused_and_changes_nothing() -> None:
    for form in ("rows", "dual", "primal"):
        policy = learned(NeuralTS, {"form": form})
        state = policy.state_dict()
        arrays = [name for name, value in state.items() if isinstance(value, np.ndarray)]
        broken = [{key: value for key, value in state.items() if key != name} for name in state]
        broken += [{**state, name: value} for name in state for value in (None, np.zeros((2, 2, 2)), [[1], [1, 2]])]
        broken += [{**state, name: state[name][:-1]} for name in arrays]
        broken += [{**state, "more": 1}, {**state, "form.more": 1}, {**state, "form": "another"}]
        broken += [{**state, "form.n": 10**6}] if form == "dual" else []
        for one in broken:
            with pytest.raises(ConfigError, match="another policy, task or parameters"):
                policy.load_state_dict(one)
        assert same(policy.state_dict(), state)


def test_the_rows_form_keeps_no_candidates_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ever new visitors, 5 products: 12 trainings of 10 visits keep what was observed, and decisions stay those of
    the dual form."""
    monkeypatch.setattr("zoosim.neural.learner.MAX_ROWS", 40)
    monkeypatch.setattr("zoosim.neural.learner.MOST_ROWS", 150)
    rng, products = np.random.default_rng(0), np.random.default_rng(1).normal(size=(5, 3))
    params: dict[str, Any] = {"hidden": "4", "train_every": 10, "memory": 30, "steps": 1}
    spec = PolicySpec(user_dim=2, product_dim=3)
    rows, dual = (NeuralUCB(spec, np.random.default_rng(2), form=f, **params) for f in ("rows", "dual"))
    held = []
    for step in range(120):
        arrays = {"product_ids": np.arange(5), "products": products, "available": np.ones(5, bool)}
        context = Context(user_id=0, user=rng.normal(size=2), **arrays)
        action = rows.select_action(context)
        assert action == dual.select_action(context)
        for policy in (rows, dual):
            policy.update(context, action, float(step % 3 == 0))
        held.append(len(rows._learner.history))
    assert held[9::10] == [*range(10, 40, 10), *[30] * 9]
    assert max(held) <= 80


def test_more_rows_than_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for 12: rows that were not observed make place for new candidates, and only then there is none."""
    monkeypatch.setattr("zoosim.neural.learner.MOST_ROWS", 12)
    spec = PolicySpec(user_dim=2, product_dim=3)
    policy, rng = NeuralUCB(spec, np.random.default_rng(0), form="rows", hidden="4"), np.random
    arrays = {"product_ids": np.arange(5), "products": np.arange(15.0).reshape(5, 3), "available": np.ones(5, bool)}
    users = rng.default_rng(1).normal(size=(9, 2))
    for user in users[:8]:
        context = Context(user_id=0, user=user, **arrays)
        policy.update(context, policy.select_action(context), 1.0)
    before = policy.state_dict()
    with pytest.raises(PolicyError, match=r"form: rows would keep 13 distinct rows, .* at most 12; set form to auto"):
        policy.select_action(Context(user_id=0, user=users[8], **arrays))
    assert same(before, policy.state_dict())


def test_the_candidates_that_are_kept_are_bounded_and_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of 5 products with 2 + 3 features holds 5 (5 + 5) = 50 numbers: at most two of them fit into 100."""
    monkeypatch.setattr("zoosim.policies.products.neural_products.MAX_CACHED", 100)
    policy = NeuralUCB(PolicySpec(user_dim=2, product_dim=3), np.random.default_rng(0), hidden="4")
    arrays = {"product_ids": np.arange(5), "products": np.arange(15.0).reshape(5, 3), "available": np.ones(5, bool)}
    for user in np.random.default_rng(1).normal(size=(5, 2)):
        policy.select_action(Context(user_id=0, user=user, **arrays))
        assert 1 <= len(policy._attached[0].candidates.visitors) <= 2
    reader = policy._reader(Context(user_id=0, user=np.ones(2), **arrays))
    assert reader is not policy
    assert not reader._attached
    for scale in range(10):
        policy.select_action(
            Context(user_id=0, user=np.ones(2), **{**arrays, "products": np.full((5, 3), float(scale))})
        )
        assert len(policy._attached) <= REMEMBERED


def test_one_warning_where_digits_end() -> None:
    """A gradient of squared length about s^2, 40 times, over lambda .3: the line is crossed between scales."""
    spec = PolicySpec(user_dim=2, product_dim=2)
    for scale, expected in ((1.0, 0), (1e6, 1)):
        policy = NeuralUCB(spec, np.random.default_rng(0), hidden="4", normalise=False)
        arrays = {"product_ids": np.arange(2), "products": scale * np.eye(2), "available": np.ones(2, bool)}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for step in range(120):
                policy.update(Context(user_id=0, user=np.ones(2), **arrays), step % 2, 1.0)
        assert len(caught) == expected
        assert (policy._learner.condition > CONDITION) == bool(expected)
        for warning in caught:
            assert str(warning.message).startswith("neural-ucb: the matrix of the gradients has condition number")
            assert "scale the features to about 1, set normalise, or raise the regularization" in str(warning.message)
            assert warning.filename == __file__


@pytest.mark.parametrize("history", ["fresh", "published"])
@pytest.mark.parametrize("form", ["auto", "dual", "primal"])
def test_the_condition_number_is_bounded_by_the_trace(form: str, history: str) -> None:
    """1 + trace(sum of g g') / lambda, from A itself in numpy."""
    policy = learned(NeuralUCB, {"form": form, "history": history, "discount": 1.0})
    other = learned(NeuralUCB, {"form": "primal", "history": history, "discount": 1.0})._learner.form
    assert isinstance(other, Primal)
    sums = np.tril(other.square[1:])  # of g g', kept below A^-1
    a = 0.3 * np.eye(len(sums)) + sums + np.tril(sums, -1).T
    bound = 1 + (np.trace(a) - 0.3 * len(a)) / 0.3
    assert policy._learner.condition == pytest.approx(bound, rel=1e-9)
    assert bound > np.linalg.cond(a)
