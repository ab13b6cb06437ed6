"""What is judged stays as it is, and policies that misbehave are refused by name, in a line."""

import pickle
import threading
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.evaluation.off_policy.test_evaluate import Favourite, Softmax, drawn, made
from tests.evaluation.off_policy.worlds import TableWorld
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.evaluation.off_policy.evaluate import evaluate
from zoosim.evaluation.off_policy.targets import spec_of
from zoosim.logs import evaluate as evaluate_by_name
from zoosim.policies.registry import BUILT_IN, find_class


class Wild(Softmax):
    """A policy that misbehaves in the way that `way` says."""

    way: ClassVar[Any] = None

    def propensity(self, context: Any, action: int) -> float:
        if self.way == "draws":
            self.rng.random()
        return super().propensity(context, action)

    def state_dict(self) -> dict[str, Any]:
        return {"lock": threading.Lock()} if self.way == "locked" else {}

    def __deepcopy__(self, memo: Any) -> Any:
        if self.way == "alone":
            raise RuntimeError("there is only\none of me")
        return self


class Chooses(Favourite):
    """Always returns `choice`."""

    choice: ClassVar[Any] = 0

    def select_action(self, context: Any) -> Any:
        return self.choice


@pytest.mark.parametrize("choice", [-1, 10, 1.7, True, None, "a", [1]])
def test_what_is_no_action_is_refused_and_never_taken_for_one(choice: Any) -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    policy = type("Own", (Chooses,), {"choice": choice})
    with pytest.raises(PolicyError, match=r"policy own: row 0: action: got .*, expected a whole number from 0 to 9"):
        evaluate(log, {"own": made(policy, log)})


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("draws", "changed its state while it was judged"),
        ("locked", "its state cannot be read: TypeError"),
        ("alone", "cannot be copied, and a copy is what is judged: RuntimeError: there is only one of me"),
    ],
)
def test_a_policy_that_cannot_be_frozen_is_refused_by_name(way: str, words: str) -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    with pytest.raises(PolicyError, match=rf"^policy own: {words}"):
        evaluate(log, {"own": made(type("Own", (Wild,), {"way": way}), log)})


def test_a_function_that_fails_and_what_is_no_policy_are_refused_by_name() -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    with pytest.raises(PolicyError, match=r"^policy p: rows 0 to 199: ZeroDivisionError: division by zero"):
        evaluate(log, {"p": lambda log, start, stop: 1 / 0})
    for given in (["a"] * 10, [[1.0], [0.5, 0.5]], {"a": 1}):
        with pytest.raises(ConfigError, match=r"^policy p: got .*, expected a policy, a function, an array"):
            evaluate(log, {"p": given})


@pytest.mark.parametrize("name", ["neural-linear", "adaptive"])
def test_policies_that_find_categories_can_be_judged_and_stay_as_they_are(name: str) -> None:
    log = replace(drawn(TableWorld(0, 0.5), n=200), user_ids=np.arange(200) % 50)
    policy = made(find_class(name), log)
    before = pickle.dumps(policy.state_dict())
    found = evaluate(log, {name: policy}, estimators=["ips"], compare=False)
    assert found.results[0].mean_weight > 0.0
    assert pickle.dumps(policy.state_dict()) == before


@pytest.mark.parametrize("name", [name for name in BUILT_IN if find_class(name).only_for == "boosts"])
def test_policies_of_boosts_are_refused_by_name(name: str) -> None:
    with pytest.raises(PolicyError, match=rf"policy {name}: sets boosts"):
        evaluate_by_name(drawn(TableWorld(0, 0.5), n=200), [name])


def test_policies_of_templates_are_refused_where_actions_are_no_templates() -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    with pytest.raises(
        PolicyError, match=r"policy template-discount: chooses among 8 templates .* the log has 10 actions"
    ):
        evaluate_by_name(log, ["template-discount"])


def test_a_policy_that_cannot_be_made_for_the_log_is_refused_by_name() -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    with pytest.raises(PolicyError, match=r"^policy static-mlp: cannot be made for this log: ValueError"):
        evaluate_by_name(replace(log, user_ids=np.arange(200) * 10**16), ["static-mlp"])
    bare = replace(log, features=np.zeros((200, 0)), products=np.zeros((10, 0)))
    with pytest.raises(DataError, match=r"^policy random: the log holds no features of visitors or products"):
        evaluate_by_name(bare, ["random"])


@pytest.mark.parametrize("stranger", [5, 10**12, -1])
def test_visitors_whom_a_policy_does_not_know_are_refused(stranger: int) -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    policy = find_class("static-mlp")(replace(spec_of(log), n_users=5), np.random.default_rng(0))
    policy.load_state_dict(policy.state_dict())
    ids = np.arange(200) % 5
    assert evaluate(replace(log, user_ids=ids), {"p": policy}, estimators=["ips"]).n_clusters == 5
    ids[7] = stranger
    with pytest.raises(PolicyError, match=f"policy p: row 7: user {stranger} is not one of 0 to 4"):
        evaluate(replace(log, user_ids=ids), {"p": policy})


def test_features_that_policies_do_not_take_are_refused() -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    with pytest.raises(PolicyError, match=r"policy greedy: user: got a feature of 1e\+12, expected at most 1e\+09"):
        evaluate_by_name(replace(log, features=log.features * 1e12), ["greedy"])


class Writes(Softmax):
    """Writes into the array of the context that `part` names."""

    part: ClassVar[str] = ""

    def propensity(self, context: Any, action: int) -> float:
        getattr(context, self.part)[:] = 0
        return super().propensity(context, action)


@pytest.mark.parametrize("part", ["user", "available", "products"])
def test_a_policy_cannot_write_into_the_log(part: str) -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    kept = {name: getattr(log, name).copy() for name in ("features", "candidates", "products")}
    with pytest.raises(PolicyError, match=r"policy own: row 0: ValueError: .*read-only"):
        evaluate(log, {"own": made(type("Own", (Writes,), {"part": part}), log)})
    assert all(np.array_equal(getattr(log, name), values) for name, values in kept.items())
