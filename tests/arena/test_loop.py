"""The loop: compiled and context by context give the same rows, and what a policy does wrong is told with its place."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.caches import use_cache
from zoosim import Context, Policy, PolicySpec
from zoosim.action_spaces.candidates import check_action
from zoosim.arena import block
from zoosim.arena.loop import play
from zoosim.arena.past import uniform_log
from zoosim.core.config import EnvConfig
from zoosim.core.errors import ConfigError, PolicyFailure
from zoosim.core.feedback import AT_ONCE, FeedbackTiming
from zoosim.policies.kernel import KernelPolicy
from zoosim.policies.products.random import Random
from zoosim.policies.registry import BUILT_IN, find_class
from zoosim.policies.requests import dense_propensities
from zoosim.worlds.recommendation.world import build_world
from zoosim.worlds.table import TableWorld

STEPS = 1_300
CONFIG: dict[str, Any] = {
    "n_products": 15,
    "n_users": 40,
    "noise_features": {"user": 2, "product": 1},
    "shocks": [{"step": 500, "name": "fish", "set": {"budget_shopper": {"Fish Supplies": 0.9, "Cat Food": 0.1}}}],
    "availability": [
        {"step": 90, "change": "appear", "products": [3]},
        {"step": 333, "change": "run-out", "products": [0, 1, 2], "until": 777},
        {"step": 1_100, "change": "vanish", "category": "Cat Toy"},
    ],
}

TURNOVER: dict[str, Any] = {
    "n_products": 15,
    "n_users": 40,
    "noise_features": {"user": 2, "product": 1},
    "turnover": {"share": 0.2, "every": 250, "over": STEPS},
}


def has_kernel(name: str) -> bool:
    return issubclass(find_class(name), KernelPolicy)


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"past_visits": 400} if name == "static-mlp" else {}) for name in BUILT_IN if has_kernel(name)),
    ("greedy", {"epsilon": 0.0}),
    ("neural-linear-stable", {"memory": 100, "batch_size": 16, "train_every": 9}),
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the models that `fit` trains out of the user's cache."""
    use_cache(monkeypatch, tmp_path / "cache")


@pytest.fixture(scope="module")
def world() -> TableWorld:
    return build_world(EnvConfig.model_validate(CONFIG), seed=5)


class Hidden(Policy):
    """Asks another policy, whose kernel the loop does not see."""

    inner: Policy

    @classmethod
    def around(cls, inner: Policy) -> "Hidden":
        hidden = cls(inner.spec, np.random.default_rng(0))
        hidden.inner = inner
        return hidden

    def select_action(self, context: Context) -> int:
        return int(self.inner.select_action(context))

    def propensities(self, context: Context) -> np.ndarray:
        return dense_propensities(self.inner, context)

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        self.inner.update(context, action, reward, feedback, next_context)


def made(world: TableWorld, name: str, params: dict[str, Any]) -> Policy:
    policy = find_class(name)(world.spec(STEPS), np.random.default_rng(77), **params)
    if policy.past_visits:
        policy.fit(uniform_log(world, policy.past_visits))
    return policy


COLUMNS = ("user_ids", "actions", "rewards", "propensities", "expected_rewards", "best_rewards")


def rows(world: TableWorld, policy: Policy, steps: int = STEPS, feedback: FeedbackTiming = AT_ONCE) -> list[np.ndarray]:
    """Return every column of a run, the visit numbers first."""
    blocks = list(play(world, policy, steps, feedback=feedback, logged=True))
    steps_of = [np.arange(block.start, block.start + len(block.actions)) for block in blocks]
    names = COLUMNS
    return [np.concatenate(steps_of), *(np.concatenate([getattr(b, name) for b in blocks]) for name in names)]


def must_be_equal(one: list[np.ndarray], two: list[np.ndarray]) -> None:
    for name, a, b in zip(("step", *COLUMNS), one, two, strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b), f"{name} differs first at row {int(np.argmax(a != b))}"


RELATED = ("neural-linear-online", "neural-linear-head", "neural-linear-stable", "dropout-ts", "visitor-linucb", "iql")
"""Policies whose loops are compiled from the parts of others'."""


def _label(variant: tuple[str, dict[str, Any]]) -> str:
    return "-".join([variant[0], *(f"{key}={value}" for key, value in variant[1].items())])


SIZES = (1, 7, 100_000)


def _sizes(number: int, name: str) -> Iterator[tuple[tuple[int, ...], str, Any]]:
    """Yield block sizes with the ends of their ids and their marks: one in turn, and for the slow tests all."""
    if name not in RELATED:
        yield (SIZES[number % len(SIZES)],), "", ()
    yield SIZES, "-all-sizes", pytest.mark.slow


@pytest.mark.parametrize(
    ("variant", "sizes"),
    [
        pytest.param(variant, sizes, marks=marks, id=f"{_label(variant)}{label}")
        for number, variant in enumerate(VARIANTS)
        for sizes, label, marks in _sizes(number, variant[0])
    ],
)
def test_compiled_and_context_by_context_give_the_same_rows(
    variant: tuple[str, dict[str, Any]], sizes: tuple[int, ...], world: TableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last bit, and the policies have learned the same; and so they do at any block size."""
    compiled, hidden = made(world, *variant), made(world, *variant)
    assert isinstance(compiled, KernelPolicy)
    expected = rows(world, compiled)
    must_be_equal(rows(world, Hidden.around(hidden)), expected)
    same_state(compiled, hidden)
    for size in sizes:
        monkeypatch.setattr(block, "BLOCK", size)
        must_be_equal(rows(world, made(world, *variant)), expected)


TIMINGS = [FeedbackTiming(7), FeedbackTiming(100), FeedbackTiming(0, batch=50), FeedbackTiming(30, batch=128)]


@pytest.mark.parametrize(
    ("name", "feedback"),
    [
        *(("linucb", timing) for timing in TIMINGS),
        ("random", TIMINGS[0]),
        *(("adaptive", late) for late in TIMINGS[1::2]),
    ],
)
def test_late_rewards_give_the_same_rows_compiled_and_context_by_context(
    name: str, feedback: FeedbackTiming, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With products that come and go, so that rewards come for products that are no longer candidates."""
    world = build_world(EnvConfig.model_validate(TURNOVER), seed=5)
    policy = made(world, name, {})
    expected = rows(world, Hidden.around(policy), feedback=feedback)
    for size in (1_000, 33):
        monkeypatch.setattr(block, "BLOCK", size)
        compiled = made(world, name, {})
        must_be_equal(rows(world, compiled, feedback=feedback), expected)
        same_state(compiled, policy)


def same_state(one: Policy, two: Policy) -> None:
    """What was learned is equal, but for arrays that have room for more products in one than in the other."""
    theirs = two.state_dict()
    compared = [name for name, array in one.state_dict().items() if array.shape == theirs[name].shape]
    assert len(compared) >= 3
    for name in set(compared) - {"widths.first_model"}:  # a number among the models there is room for
        assert np.array_equal(one.state_dict()[name], theirs[name]), name


def test_rewards_are_learned_when_they_come(world: TableWorld) -> None:
    """A reward comes after `delay` further visits; with batches, when the next one is full; the last ones never."""

    class Noting(Scripted):
        at = -1
        heard: list[tuple[int, int]]

        def update(
            self, context: Context, action: int, reward: float, feedback: Any = None, next_context: Any = None
        ) -> None:
            self.heard.append((self.visit, int(context.user_id)))

    for feedback, visits in [
        (FeedbackTiming(), [(t, t) for t in range(40)]),
        (FeedbackTiming(10), [(t, t - 10) for t in range(10, 40)]),
        (FeedbackTiming(0, 16), [(15, t) for t in range(16)] + [(31, t) for t in range(16, 32)]),
        (FeedbackTiming(10, 16), [(15, t) for t in range(6)] + [(31, t) for t in range(6, 22)]),
    ]:
        policy = Noting(world.spec(40), np.random.default_rng(0))
        policy.heard = []
        rows(world, policy, 40, feedback)
        users = world.visitors(0, 40)
        assert policy.heard == [(now, users[visit]) for now, visit in visits]


@pytest.mark.parametrize("values", [{"delay": -1}, {"batch": 0}, {"delay": 1.5}, {"delay": True}, {"batch": "many"}])
def test_a_delay_is_a_number_of_visits(values: dict[str, Any]) -> None:
    [name] = values
    with pytest.raises(ConfigError, match=f"run.{name}: got {values[name]!r}, expected a whole number of visits"):
        FeedbackTiming(**values)


@pytest.mark.parametrize("name", ["greedy", pytest.param("neural-linear-online", marks=pytest.mark.slow)])
def test_a_shorter_run_is_the_beginning_of_a_longer_one(name: str, world: TableWorld) -> None:
    long, short = rows(world, made(world, name, {})), rows(world, made(world, name, {}), 601)
    must_be_equal([column[:601] for column in long], short)


def test_rows_are_what_the_world_says(world: TableWorld) -> None:
    """Visits in order, only what is available, clicks as often as the truth says, and the truth as its own object."""
    step, users, actions, rewards, propensities, true, best = rows(world, made(world, "random", {}))
    assert np.array_equal(step, np.arange(STEPS))
    assert np.array_equal(users, world.visitors(0, STEPS))
    for t in range(0, STEPS, 13):
        period = world.period(t)
        truth = world.truth(world.arrive(t))
        assert period.available[actions[t]]
        assert propensities[t] == 1 / period.available.sum()
        assert true[t] == truth.expected_reward(int(actions[t]))
        assert best[t] == truth.expected_reward(truth.best_action) == truth.best_reward
    assert set(rewards) == {0.0, 1.0}
    # Clicks are independent given the choices: 4 standard errors of their sum.
    assert abs((rewards - true).sum()) < 4 * np.sqrt((true * (1 - true)).sum())


def test_two_policies_that_choose_alike_see_the_same_clicks(world: TableWorld) -> None:
    """Common random numbers: wherever two runs chose the same, the reward is the same."""
    one, two = rows(world, made(world, "linucb", {})), rows(world, made(world, "random", {}))
    alike = one[2] == two[2]
    assert 20 < alike.sum() < STEPS
    assert np.array_equal(one[3][alike], two[3][alike])


class Scripted(Policy):
    """Does what a test says, at one visit and as the first available product otherwise."""

    at = 640
    visit = -1

    def odd(self, context: Context) -> Any:
        raise NotImplementedError

    def select_action(self, context: Context) -> int:
        self.visit += 1
        if self.visit == self.at:
            action: int = self.odd(context)
            return action
        return int(np.argmax(context.available))

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Any = None,
    ) -> None:
        pass


def scripted(odd: Callable[[Context], Any]) -> type[Policy]:
    return type("Odd", (Scripted,), {"odd": lambda self, context: odd(context), "__module__": __name__})


def failure_of(world: TableWorld, cls: type[Policy]) -> PolicyFailure:
    with pytest.raises(PolicyFailure) as caught:
        rows(world, cls(world.spec(STEPS), np.random.default_rng(0)))
    return caught.value


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (lambda c: len(c.available), "ValueError: select_action returned 15, expected 0 to 14"),
        (lambda c: -1, "ValueError: select_action returned -1, expected 0 to 14"),
        (lambda c: 2, "ValueError: select_action returned 2, which is not available (see context.available)"),
        (lambda c: float("nan"), "ValueError: select_action returned nan, expected an integer from 0 to 14"),
        (lambda c: 4.0, "ValueError: select_action returned 4.0, expected an integer from 0 to 14"),
        (lambda c: None, "ValueError: select_action returned None, expected an integer from 0 to 14"),
        (lambda c: True, "ValueError: select_action returned True, expected an integer from 0 to 14"),
        (lambda c: "4", "ValueError: select_action returned '4', expected an integer from 0 to 14"),
        (lambda c: np.array([4]), "ValueError: select_action returned array([4]), expected an integer from 0 to 14"),
        (lambda c: [][4], "IndexError: list index out of range"),
        (lambda c: c.colour, "AttributeError: a context has no field colour; it has user_id, user, product_ids,"),
        (lambda c: c.user.__setitem__(0, 9.0), "ValueError: assignment destination is read-only"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_seed_and_step(
    odd: Callable[[Context], Any], reason: str, world: TableWorld
) -> None:
    error = failure_of(world, scripted(odd))
    assert (error.seed, error.step) == (5, 640)
    assert error.reason.startswith(reason)
    assert error.place.startswith("test_loop.py")


@pytest.mark.parametrize("action", [4, np.int64(4), np.int32(4), np.uint8(4)])
def test_any_integer_will_do(action: Any) -> None:
    assert check_action(action, np.ones(5, bool)) == 4
    assert type(check_action(action, np.ones(5, bool))) is int


def on_first(context: Context) -> np.ndarray:
    return np.asarray(np.arange(len(context.available)) == context.available.argmax(), float)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda c: on_first(c)[:-1], "propensities returned shape (14,), expected (15,)"),
        (lambda c: 1.0, "propensities returned shape (), expected (15,)"),
        (lambda c: np.nan * on_first(c), "propensities returned a number outside [0, 1]"),
        (lambda c: 2 * on_first(c), "propensities returned a number outside [0, 1]"),
        (lambda c: 0.5 * on_first(c), "propensities add up to 0.5, expected 1"),
        (lambda c: np.roll(on_first(c), 1), "propensities give 0 to 0, which select_action then chose"),
        (lambda c: np.roll(on_first(c), 3), "propensities give a product a chance that is not available"),
    ],
)
def test_propensities_that_cannot_be_are_refused_with_seed_and_step(
    wrong: Callable[[Context], Any], reason: str, world: TableWorld
) -> None:
    class Wrong(Scripted):
        def propensities(self, context: Context) -> Any:
            return on_first(context) if self.visit < 32 else wrong(context)

    error = failure_of(world, Wrong)
    assert error.step == 33
    assert error.reason.startswith(f"ValueError: {reason}")


def test_a_policy_without_propensities_of_its_own_is_logged_with_1(world: TableWorld) -> None:
    class First(Scripted):
        at = -5

        def __deepcopy__(self, memo: object) -> "First":
            raise AssertionError("no copy is needed to know that")

    run = rows(world, First(world.spec(STEPS), np.random.default_rng(0)))
    assert set(run[4]) == {1.0}


SOURCE = """
class Mine:
    def __init__(self, spec, rng):
        self.visits = 0

    def select_action(self, context):
        return int(context.available.argmax())

    def update(self, context, action, reward):
        self.visits += 1
        self.learn(action)

    def learn(self, action):
        if self.visits == 700:
            [0.5][self.visits]
"""


def test_a_failure_names_the_file_and_line_of_the_user(world: TableWorld, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    error = failure_of(world, find_class(f"{file}:Mine"))
    assert (error.step, error.place, error.reason) == (699, "mine.py:15", "IndexError: list index out of range")
    assert "self.learn(action)" in error.details
    assert isinstance(error.__cause__, IndexError)
    assert str(PolicyFailure("mine", *error.args[1:])) == (
        "policy mine failed, seed 5, step 699 at mine.py:15: IndexError: list index out of range"
    )


def test_a_kernel_policy_that_is_subclassed_runs_by_its_kernel(world: TableWorld) -> None:
    """The rows of a subclass that adds nothing are its parent's."""

    class Same(Random):
        name = "same"

    spec = world.spec(STEPS)
    must_be_equal(
        rows(world, Same(spec, np.random.default_rng(1))), rows(world, Random(spec, np.random.default_rng(1)))
    )


def test_a_subclass_that_decides_otherwise_is_asked(world: TableWorld) -> None:
    """A user who extends a built-in policy in Python must not be run by the kernel of the parent."""

    class Last(Random):
        def select_action(self, context: Context) -> int:
            return int(np.flatnonzero(context.available)[-1])

        def propensities(self, context: Context) -> np.ndarray:
            return np.asarray(np.arange(len(context.available)) == np.flatnonzero(context.available)[-1], float)

    run = rows(world, Last(world.spec(STEPS), np.random.default_rng(1)))
    last = [np.flatnonzero(world.period(t).available)[-1] for t in range(STEPS)]
    assert np.array_equal(run[2], last)


def test_a_spec_of_another_task_is_refused(world: TableWorld) -> None:
    policy = find_class("linucb")(PolicySpec(user_dim=2, product_dim=2), np.random.default_rng(0))
    with pytest.raises(Exception, match=r"products: got shape \(15, 6\), expected \(15, 2\)"):
        rows(world, policy)
