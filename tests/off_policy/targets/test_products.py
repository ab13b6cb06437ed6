"""What is judged stays as it is, and policies that misbehave are refused by name, in a line."""

import pickle
import threading
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.off_policy.test_evaluate import Favourite, Softmax, drawn, made
from tests.off_policy.worlds import TableWorld
from zoosim.api.logs import evaluate as evaluate_by_name
from zoosim.core.errors import ConfigError, DataError, PolicyError
from zoosim.core.types import Context, FloatArray
from zoosim.logs.candidate_sets import CandidateSets
from zoosim.logs.log import Log
from zoosim.off_policy.evaluate import EvaluationInterrupted, evaluate
from zoosim.off_policy.targets.products import PolicyTarget, spec_of, timed_chunks
from zoosim.policies.registry import BUILT_IN, find_class, make_entry


class Wild(Softmax):
    """A policy that misbehaves in the way that `way` says."""

    way: ClassVar[Any] = None

    def propensities(self, context: Any) -> FloatArray:
        if self.way == "draws":
            self.rng.random()
        return super().propensities(context)

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


@pytest.mark.parametrize("name", [name for name in BUILT_IN if find_class(name).chooses == ("boosts",)])
def test_policies_of_boosts_are_refused_by_name(name: str) -> None:
    with pytest.raises(PolicyError, match=rf"policy {name}: sets boosts"):
        evaluate_by_name(drawn(TableWorld(0, 0.5), n=200), [name])


def test_policies_of_templates_are_refused_where_actions_are_no_templates() -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    with pytest.raises(
        PolicyError,
        match=r"policy template-discount: chooses among the templates .* the log has 10 actions in 0 categories",
    ):
        evaluate_by_name(log, ["template-discount"])
    with pytest.raises(PolicyError, match="the log has 10 actions in 2 categories"):
        evaluate_by_name(replace(log, categories=("cheap",) * 5 + ("dear",) * 5), ["template-discount"])


def test_a_static_template_is_judged_on_a_log_of_a_shop_s_own_templates() -> None:
    names = (*(f"other {n}" for n in range(9)), "premium")
    log = replace(drawn(TableWorld(0, 0.5), n=200), categories=names)
    assert spec_of(log).templates == names
    always_last = np.zeros((200, 10))
    always_last[:, 9] = 1.0
    judged = evaluate_by_name(log, ["template-premium"]).results[0]
    assert judged.value == evaluate(log, {"last": always_last}).results[0].value
    with pytest.raises(PolicyError, match="template: unknown template 'budget'; known: other 0"):
        evaluate_by_name(log, ["template-budget"])
    other = make_entry("template-greedy").make(replace(spec_of(log), templates=names[::-1]), np.random.default_rng(0))
    with pytest.raises(
        PolicyError, match=r"greedy: was made for the templates premium, other 8, .* the log is of other 0"
    ):
        evaluate(log, {"greedy": other})


class Unmakable(Favourite):
    """Cannot be made."""

    def __init__(self, *_: Any) -> None:
        raise ValueError("not today")


def test_a_policy_that_cannot_be_made_for_the_log_is_refused_by_name() -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    with pytest.raises(PolicyError, match=r"^policy unmakable: cannot be made for this log: ValueError: not today"):
        evaluate_by_name(log, [Unmakable])
    bare = replace(log, features=np.zeros((200, 0)), products=np.zeros((10, 0)))
    with pytest.raises(DataError, match=r"^policy random: the log holds no features of visitors or products"):
        evaluate_by_name(bare, ["random"])


class Regulars(Favourite):
    """Knows visitors by their id."""

    needs_user_ids = True


@pytest.mark.parametrize("stranger", [5, 10**12, -1])
def test_visitors_whom_a_policy_does_not_know_are_refused(stranger: int) -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    policy = Regulars(replace(spec_of(log), n_users=5), np.random.default_rng(0))
    with pytest.raises(PolicyError, match="policy p: knows visitors by their id, and the log has no user_id"):
        evaluate(log, {"p": policy})
    ids = np.arange(200) % 5
    assert evaluate(replace(log, user_ids=ids), {"p": policy}, estimators=["ips"]).n_clusters == 5
    ids[7] = stranger
    with pytest.raises(PolicyError, match=f"policy p: row 7: user {stranger} is not one of 0 to 4"):
        evaluate(replace(log, user_ids=ids), {"p": policy})


def test_features_that_policies_do_not_take_are_refused() -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    with pytest.raises(PolicyError, match=r"policy greedy: user: got a feature of 1e\+12, expected at most 1e\+09"):
        evaluate(replace(log, features=log.features * 1e12), {"greedy": made(find_class("greedy"), log)})


class Writes(Softmax):
    """Writes into the array of the context that `part` names."""

    part: ClassVar[str] = ""

    def propensities(self, context: Any) -> FloatArray:
        getattr(context, self.part)[:] = 0
        return super().propensities(context)


@pytest.mark.parametrize("part", ["user", "available", "products", "product_ids"])
def test_a_policy_cannot_write_into_the_log(part: str) -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    kept = {name: getattr(log, name).copy() for name in ("features", "products")}
    with pytest.raises(PolicyError, match=r"policy own: row 0: ValueError: .*read-only"):
        evaluate(log, {"own": made(type("Own", (Writes,), {"part": part}), log)})
    assert all(np.array_equal(getattr(log, name), values) for name, values in kept.items())


def masked(n: int = 600) -> Log:
    """A log with 30 visitors, each with features of the own, and 3 sets of candidates."""
    log = drawn(TableWorld(0, 0.5), n=n)
    sets = np.ones((3, 10), bool)
    sets[1, 9], sets[2, [0, 3]] = False, False
    rng = np.random.default_rng(2)
    users = rng.integers(30, size=n)
    log = replace(
        log, features=rng.normal(size=(30, 4))[users], user_ids=users, candidates=CandidateSets.from_masks(sets)
    )
    return replace(log, candidate_set=rng.integers(3, size=n))


@pytest.mark.parametrize("name", ["random", "greedy", "linucb", "adaptive"])
def test_a_kernel_gives_what_the_policy_gives_for_each_row(name: str) -> None:
    """Trained on the log, with a floor: many rows at once against one request at a time."""
    log = masked()
    policy = find_class(name)(spec_of(log), np.random.default_rng(0), floor=0.1)
    policy.fit(log)
    found = PolicyTarget(policy, log).distributions(log, 100, 400).matrix(10)
    for row in range(100, 400, 7):
        context = Context(
            user_id=0,
            user=log.features[row],
            product_ids=log.product_ids,
            products=log.products,
            available=log.available(row, row + 1)[0],
        )
        np.testing.assert_array_equal(found[row - 100], policy.propensities(context))


class Counting(Softmax):
    """Counts how often it is asked, on the class, so that nothing of its own moves."""

    times: ClassVar[int] = 0

    def propensities(self, context: Any) -> FloatArray:
        Counting.times += 1
        return np.asarray(context.available / context.available.sum())


def test_a_policy_is_asked_about_each_context_once() -> None:
    log = masked()
    Counting.times = 0
    target = PolicyTarget(made(Counting, log), log)
    found = np.vstack([target.distributions(log, start, start + 200).matrix(10) for start in (0, 200, 400)])
    np.testing.assert_array_equal(found > 0, log.available(0, 600))
    assert log.user_ids is not None
    assert Counting.times == len(set(zip(log.user_ids, log.candidate_set, strict=True)))


def test_long_judging_shows_progress_and_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks grow towards their time and shrink where rows take long: by a clock that says so, 16, 64, 100, 1, ..."""
    clock = iter(range(10**6))
    seconds = {"now": 0.0}
    monkeypatch.setattr("zoosim.off_policy.targets.products.time.perf_counter", lambda: seconds["now"])
    sizes = []
    for start, stop in timed_chunks(400):
        sizes.append(stop - start)
        seconds["now"] += (stop - start) * (0.002 if next(clock) < 3 else 1.0)
    assert sizes[:6] == [16, 64, 100, 100, 1, 1]
    assert sum(sizes) == 400


class Interrupts(Softmax):
    """Is interrupted at the third context."""

    times: ClassVar[int] = 0

    def propensities(self, context: Any) -> FloatArray:
        type(self).times += 1
        if type(self).times == 3:
            raise KeyboardInterrupt
        return super().propensities(context)


def test_an_interrupt_carries_what_is_finished() -> None:
    log = drawn(TableWorld(0, 0.5), n=200)
    policies = {"first": np.full(10, 0.1), "second": made(Softmax, log)}
    later = {"third": made(type("Own", (Interrupts,), {"times": 0}), log), "fourth": np.full(10, 0.1)}
    with pytest.raises(EvaluationInterrupted) as interrupted:
        evaluate(log, {**policies, **later})
    assert interrupted.value.missing == ("third", "fourth")
    found, alone = interrupted.value.evaluation, evaluate(log, policies)
    assert found is not None
    assert found.summary == alone.summary
    with pytest.raises(EvaluationInterrupted) as interrupted:
        evaluate(log, {"third": made(type("Own", (Interrupts,), {"times": 0}), log)})
    assert (interrupted.value.evaluation, interrupted.value.missing) == (None, ("third",))
