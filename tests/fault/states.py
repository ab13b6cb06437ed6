"""Load mutated states into every policy, and let those that take one decide and learn: nothing may go wrong in silence.

    python -m tests.fault.states states|files|states,files NAME[,NAME] COUNT [FIRST]

mutates the states of policies COUNT times each, or the files that hold them, the same ones whenever it runs, and
prints how each case came out. It is a process of its own, so that a crash is counted and not fatal.
"""

import copy
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from zoosim.core.errors import DataError, ZoosimError
from zoosim.core.packed import read_packed, write_packed
from zoosim.policies.base import Policy
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.policies.checks import search_shop, shop
from zoosim.policies.checks.maker import Maker, walk
from zoosim.policies.checks.sameness import same
from zoosim.policies.persistence import PACKING, load_policy, save_policy
from zoosim.policies.registry import BUILT_IN, find_class
from zoosim.policies.requests import dense_propensities

VISITS = 60
"""Visits before a state is saved; past trainings, and past the first visits that policies of boosts spend at random."""

AFTER = 30
"""Visits after a mutated state was taken over."""

WHOLE = (-1, 1, 5, 8, 12, 63, 64, 255, 2**31, 2**40, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 0.0, -1e-300, 1e-300, 1e10, 1e45, -1e45, 1e100, 1e300, -1.7e308)
PLAIN: tuple[Any, ...] = (
    None,
    "text",
    "",
    -1,
    10**6,
    10**8,
    2**64,
    1e300,
    float("nan"),
    float("inf"),
    True,
    [],
    {},
    [[1.0], []],
    b"x",
)


@dataclass(frozen=True)
class Subject:
    """A policy of a built-in name with some parameters."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shop(self) -> Any:
        """The made-up shop that it works in."""
        return search_shop.SMALL if issubclass(find_class(self.name), BoostPolicy) else shop.SMALL

    def make(self, visits: int, seed: int = 0) -> Any:
        """Return a policy that has learned from some visits."""
        policy = Maker(find_class(self.name), self.params).ready(self.shop, seed)
        walk(policy, self.shop, range(visits))
        if self.name == "q-offline":
            policy.fit(_boost_log(self.shop, policy))
        return policy


SMALL_NETWORK = {"hidden": 8, "memory": 64, "train_every": 20, "horizon": 100.0}
VARIANTS = {
    "neural-linear": Subject("neural-linear", SMALL_NETWORK),
    "neural-linear thompson": Subject("neural-linear", {**SMALL_NETWORK, "thompson": True}),
    "dropout-ts": Subject("dropout-ts", SMALL_NETWORK),
    "visitor-linucb": Subject("visitor-linucb", {"visits": 3}),
    "neural-linear-online": Subject("neural-linear-online", {"hidden": 8, "embedding": 4}),
    "neural-linear-stable": Subject(
        "neural-linear-stable", {"hidden": 8, "embedding": 4, "memory": 40, "batch_size": 8, "train_every": 10}
    ),
    "ppo": Subject("ppo", {"hidden": "8", "rollout": 40, "batch_size": 16, "visitors": 20}),
    "product-linucb all": Subject("product-linucb", {"memory": "all"}),
    **{
        f"{name} {form}": Subject(name, {"form": form, "hidden": "4", "train_every": 20})
        for name, form in (("neural-ucb", "rows"), ("neural-ucb", "dual"), ("neural-ts", "primal"))
    },
    "neural-ucb published": Subject(
        "neural-ucb", {"history": "published", "discount": 1.0, "mean": "network", "hidden": "4"}
    ),
    "template-linucb discount": Subject("template-linucb", {"discount": 0.99}),
    "q-ensemble": Subject("q-ensemble", {"warm_up": 20, "n_ensembles": 2, "hidden": 8, "memory": 50}),
    "item-critic": Subject("item-critic", {"random_visits": 1}),
}
SUBJECTS: dict[str, Subject] = {name: Subject(name) for name in BUILT_IN} | VARIANTS
"""Every policy that is built in, and settings under which others of their arrays count."""


def made(name: str, visits: int, seed: int = 0) -> Any:
    """Return a policy of its own that has learned from some visits; each is taught once in a process."""
    return copy.deepcopy(_taught(name, visits, seed))


@cache
def _taught(name: str, visits: int, seed: int) -> Any:
    return SUBJECTS[name].make(visits, seed)


def _boost_log(search: Any, policy: Any) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    features = np.array([search.context(visit).features for visit in range(80)])
    boosts = rng.uniform(-0.5, 0.5, (80, policy.spec.product_dim))
    return {"features": features, "action": boosts, "reward": rng.normal(size=80)}


Place = tuple[Any, ...]
"""The keys that lead to a value in a nested state."""


def places(state: Any, path: Place = ()) -> Iterator[Place]:
    """Find the arrays and plain values of a state."""
    if isinstance(state, Mapping) and state:
        for key, value in state.items():
            yield from places(value, (*path, key))
    else:
        yield path


def value_at(state: Any, path: Place) -> Any:
    """Return the value at a place of a state."""
    for key in path:
        state = state[key]
    return state


def with_value(state: Any, path: Place, value: Any) -> Any:
    """Return a state with another value at a place."""
    if not path:
        return value
    key, *rest = path
    return {**state, key: with_value(state[key], tuple(rest), value)}


def mutated(state: Mapping[str, Any], other: Mapping[str, Any], rng: np.random.Generator) -> tuple[str, Any]:
    """Return a mutated copy of a state, and words that say what was done; `other` is one of another policy."""
    kinds: list[Callable[..., tuple[str, Any]]] = [_numbers, _numbers, _numbers, _shape, _type, _keys, _swap]
    kind = kinds[rng.integers(len(kinds))]
    return kind(state, other, rng)


def _pick(values: Any, rng: np.random.Generator) -> Any:
    return list(values)[rng.integers(len(values))]


def _numbers(state: Any, other: Any, rng: np.random.Generator) -> tuple[str, Any]:
    """Put other numbers into an array, or another value in the place of a plain one."""
    path = _pick(list(places(state)), rng)
    value = value_at(state, path)
    if not isinstance(value, np.ndarray) or not value.size:
        plain = _pick(PLAIN, rng)
        return f"{path} = {plain!r}", with_value(state, path, plain)
    changed = value.copy()
    flat = changed.reshape(-1)
    count = int(_pick((1, 1, 3, len(flat)), rng))
    chosen = rng.integers(len(flat), size=count) if count < len(flat) else np.arange(len(flat))
    if value.dtype.kind == "b":
        flat[chosen] = ~flat[chosen]
        return f"{path}: {count} turned", with_value(state, path, changed)
    if rng.random() < 0.1:
        rng.shuffle(flat)
        return f"{path} shuffled", with_value(state, path, changed)
    wanted = _pick(WHOLE if value.dtype.kind in "iu" else NUMBERS, rng)
    with np.errstate(all="ignore"):
        flat[chosen] = np.array([wanted]).astype(value.dtype)[0]
    return f"{path}: {count} x {wanted!r}", with_value(state, path, changed)


def _shape(state: Any, other: Any, rng: np.random.Generator) -> tuple[str, Any]:
    """Give an array another shape."""
    path = _pick(list(places(state)), rng)
    value = value_at(state, path)
    if not isinstance(value, np.ndarray):
        return f"{path} as an array", with_value(state, path, np.full(3, 1))
    shapes = {
        "cut": value[..., :-1] if value.ndim else value,
        "longer": np.concatenate([value, value]) if value.ndim else np.stack([value, value]),
        "flat": value.reshape(-1),
        "deeper": value[None],
        "empty": value[:0] if value.ndim else np.zeros(0),
        "turned": value.T,
        "strided": np.repeat(value, 2, axis=-1)[..., ::2] if value.ndim else value,
    }
    how = _pick(shapes, rng)
    return f"{path} {how}", with_value(state, path, shapes[how])


def _type(state: Any, other: Any, rng: np.random.Generator) -> tuple[str, Any]:
    """Give an array another type."""
    path = _pick(list(places(state)), rng)
    value = value_at(state, path)
    if not isinstance(value, np.ndarray):
        return f"{path} = a list", with_value(state, path, [value])
    kind = _pick(("object", "U", "complex128", "float16", "float32", "float64", "bool", "int8", "uint64", ">f8"), rng)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f"{path} as {kind}", with_value(state, path, value.astype(kind))


def _keys(state: Any, other: Any, rng: np.random.Generator) -> tuple[str, Any]:
    """Leave something out, add something, or take another state altogether."""
    how = _pick(("none", "list", "empty", "other", "missing", "more", "number"), rng)
    states = {"none": None, "list": [1, 2], "empty": {}, "other": other, "more": {**state, "more": np.zeros(3)}}
    if how == "missing" and state:
        left_out = _pick(state, rng)
        return f"without {left_out}", {key: value for key, value in state.items() if key != left_out}
    return how, states.get(how, {**state, 3: 4})


def _swap(state: Any, other: Any, rng: np.random.Generator) -> tuple[str, Any]:
    """Put an array in the place of another one, of this state or of a sound one of another policy."""
    source = state if rng.random() < 0.6 else other
    into = _pick(list(places(state)), rng)
    of = _pick(list(places(source)), rng)
    return f"{into} = {of}", with_value(state, into, copy.deepcopy(value_at(source, of)))


def outcome_of(policy: Any, subject: Subject, state: Any) -> str:
    """Load a state, and go on: return "refused" or "taken", or what went wrong."""
    before = policy.state_dict()
    try:
        policy.load_state_dict(state)
    except ZoosimError as error:
        if "\n" in str(error):
            return f"refused in several lines: {error}"
        return "refused" if same(policy.state_dict(), before) else f"half loaded: {error}"
    except Exception as error:
        return f"another error: {type(error).__name__}: {error}"
    try:
        return _go_on(policy, subject)
    except Exception as error:
        return f"failed later: {type(error).__name__}: {error}"


def _go_on(policy: Any, subject: Subject) -> str:
    search = subject.shop
    for visit in range(VISITS, VISITS + AFTER):
        context = search.context(visit)
        action = policy.select_action(context)
        if isinstance(policy, BoostPolicy):
            if not np.isfinite(action).all():
                return f"boosts {action}"
        else:
            chances = dense_propensities(policy, context)
            if not (chances >= 0.0).all() or abs(chances.sum() - 1.0) > 1e-6:
                return f"propensities {chances}"
        policy.recommend(context)
        policy.update(context, action, *search.feedback(visit, action))
    state = policy.state_dict()
    for path in places(state):
        value = value_at(state, path)
        is_number = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        if is_number and not np.isfinite(value).all():
            return f"NaN or infinity in {path}"
    return "taken"


def run_states(name: str, count: int, first: int = 0) -> None:
    """Print a line before each case, so that whoever reads knows which one crashed, and one with its outcome."""
    subject = SUBJECTS[name]
    policy = made(name, VISITS)
    target = made(name, VISITS // 2, seed=1)
    state = policy.state_dict()
    strangers = [other for other in ("linucb", "random", "greedy") if other != subject.name]
    for case in range(first, count):
        rng = np.random.default_rng([case, *name.encode()])
        other = made(strangers[case % len(strangers)], 1).state_dict() if case % 5 == 0 else state
        words, mutant = mutated(state, other, rng)
        print(json.dumps([case, words]), flush=True)
        print(json.dumps(outcome_of(copy.deepcopy(target), subject, mutant)), flush=True)


def run_files(name: str, count: int, first: int = 0) -> None:
    """As `run_states`, for files with the right checksum, whose header or arrays are others."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.npz"
        save_policy(made(name, VISITS), path)
        header, arrays = read_packed(path, PACKING)
        whole = {"header": {**header, "state": _by_name(header["state"])}, "arrays": arrays}
        for case in range(first, count):
            rng = np.random.default_rng([case, 1, *name.encode()])
            words, mutant = mutated(whole, whole, rng)
            print(json.dumps([case, words]), flush=True)
            print(json.dumps(_outcome_of_file(path, name, mutant)), flush=True)


def _by_name(packed: Any) -> Any:
    """Return the items of a packed state by their names, so that mutations find them."""
    is_items = isinstance(packed, dict) and "items" in packed
    return {"items": {key: _by_name(value) for key, value in packed["items"]}} if is_items else packed


def _as_items(packed: Any) -> Any:
    """Undo `_by_name`."""
    if isinstance(packed, dict) and isinstance(packed.get("items"), dict):
        return {**packed, "items": [[key, _as_items(value)] for key, value in packed["items"].items()]}
    return packed


def _outcome_of_file(path: Path, name: str, mutant: Any) -> str:
    subject = SUBJECTS[name]
    try:
        header = {**mutant["header"], "state": _as_items(mutant["header"]["state"])}
        write_packed(path, PACKING, header, mutant["arrays"])
    except Exception:  # what cannot be written cannot be in a file
        return "refused"
    try:
        policy = load_policy(path)
    except DataError as error:
        is_named = str(error).startswith(f"{path}: ") and "\n" not in str(error)
        return "refused" if is_named else f"does not name the file, or in several lines: {error}"
    except Exception as error:
        return f"another error: {type(error).__name__}: {error}"
    if policy.spec != made(name, 0).spec:
        return "taken"  # a policy of another task, such as one that is planned for fewer visits
    try:
        return _go_on(policy, subject)
    except Exception as error:
        return f"failed later: {type(error).__name__}: {error}"


def _is_sound(name: str) -> bool:
    """Whether a state that nobody touched is taken over, and the policy goes on as the saved one."""
    subject = SUBJECTS[name]
    policy: Policy = made(name, VISITS)
    loaded: Policy = made(name, VISITS // 2, seed=1)
    loaded.load_state_dict(policy.state_dict())
    return _go_on(loaded, subject) == "taken" == _go_on(policy, subject) and same(
        loaded.state_dict(), policy.state_dict()
    )


def _most_kilobytes() -> int:
    """Return the most memory this process has held; `getrusage` would count that of the process which started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    what, wanted, count, *rest = sys.argv[1:]
    for subject_name in wanted.split(","):
        print(json.dumps({"subject": subject_name, "sound": _is_sound(subject_name)}), flush=True)
        for word in what.split(","):
            run = run_states if word == "states" else run_files
            run(subject_name, int(count), int(rest[0]) if rest else 0)
    print(json.dumps({"megabytes": _most_kilobytes() // 1024}), flush=True)
