"""Policies as compiled kernels: the same code decides for one request and for whole runs, with the same bits.

A kernel is four compiled functions over a `state`, a named tuple of arrays that holds what was learned, and
`candidates`, a named tuple that holds what the policy derives from the products of a request:

    choose(state, candidates, user_id, user, available, draw) -> action
        draws an action by a `draw` in [0, 1), without moving anything
    distribution(state, candidates, user_id, user, available, out)
        adds the probability of each candidate under `choose` to `out (K,)`, which holds zeros
    decided(state, candidates, user_id, user, available, action)
        moves what a decision moves: clocks, what was shown last
    learn(state, candidates, user_id, user, action, reward)
        moves what a reward moves; of policies that look ahead, that of a visitor who has gone

Those that look ahead have a fifth one:

    follow(state, candidates, user_id, user, action, reward, visit_ended, next_candidates, next_user, next_available)
        moves what a reward moves where the visitor then decides again
"""

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from zoosim.core.blocks import extremes
from zoosim.core.errors import PolicyError
from zoosim.core.id_table import IdTable, index_ids, with_lists_of_use
from zoosim.core.jit import bind, jit
from zoosim.core.limits import CONDITION, COUNTS
from zoosim.core.parameters import parameter, shown
from zoosim.core.rng import draw_key, uniform
from zoosim.core.types import (
    NOBODY,
    BoolArray,
    Context,
    FloatArray,
    IntArray,
    PastLog,
    PolicySpec,
    Progress,
    frozen_view,
)
from zoosim.policies.base import FIT_CHUNK, policy_name, reads_blocks
from zoosim.policies.candidates import AttachingPolicy
from zoosim.policies.choice import add_share, pick
from zoosim.policies.requests import (
    LARGEST,
    CheckedRequest,
    checked_action,
    checked_past_features,
    checked_request,
    checked_reward,
)
from zoosim.policies.tabulating import TabulatingPolicy


@dataclass(frozen=True)
class Kernel:
    """The compiled functions of a policy; `name` tells them apart in the cache."""

    name: str
    choose: Callable[..., int]
    distribution: Callable[..., None]
    learn: Callable[..., None]
    decided: Callable[..., None]
    follow: Callable[..., None] | None = None


@jit
def nothing_decided(
    state: Any, candidates: Any, user_id: int, user: FloatArray, available: BoolArray, action: int
) -> None:
    """Move nothing at a decision.

    Args:
        state, candidates: Learned arrays, and what is derived from the candidates; as of every kernel function here.
        user_id, user: The visitor's id, and features `(d_u,)`.
        available: Which candidates may be shown `(K,)`.
        action: The candidate that was chosen.
    """


class DecisionDraws(NamedTuple):
    """The draws of decisions: their `key (1,)`, and how many decisions were made, `decisions (1,)`."""

    key: np.ndarray
    decisions: Annotated[IntArray, COUNTS]


def new_draws(rng: np.random.Generator) -> DecisionDraws:
    """Return the draws of a policy that has decided nothing."""
    return DecisionDraws(np.array([draw_key(rng)]), np.zeros(1, np.int64))


class KernelDecision(NamedTuple):
    """An action, and the probability of each candidate `(K,)` that it was drawn from."""

    action: int
    propensities: FloatArray


class DrawingPolicy(AttachingPolicy):
    """A policy that draws its action from a distribution over the request's candidates, by a number in [0, 1).

    A subclass says in `_candidates` what it derives from products, and makes its `draws` when it is made. It draws in
    `_draw_action` from what `_distribution` tabulates.
    """

    draws: DecisionDraws
    floor: float = parameter(0.0, low=0, high=1, help="share of decisions that is spread evenly over what is available")
    past_visits: int = parameter(
        0, low=0, high=100_000_000, help="visits of a random past to learn from before the first one of a run"
    )

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has warned of nothing yet.

        Args:
            spec: The dimensions of its task.
            rng: The source of its random draws.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(spec, rng, **params)
        self._warned = False

    @abstractmethod
    def _draw_action(self, request: CheckedRequest, candidates: Any, draw: float) -> int:
        """Return the action that a `draw` in [0, 1) settles, the floor counted in; moves nothing."""

    @abstractmethod
    def _distribution(self, request: CheckedRequest, candidates: Any) -> FloatArray:
        """Return the probabilities `(K,)` of `_draw_action` over uniform draws."""

    def _passing_distribution(self, request: CheckedRequest, context: Context) -> FloatArray | None:
        """Return the distribution among candidates that are new, keeping nothing of them; None where to keep them."""
        return None

    @abstractmethod
    def _exploit(self, request: CheckedRequest, candidates: Any) -> int:
        """Return the action that seems best, without exploring."""

    def _decided(self, request: CheckedRequest, candidates: Any, action: int) -> None:
        """Move what a decision moves."""

    def select_action(self, context: Context) -> int:
        """Draw an action, and move what a decision moves."""
        request = checked_request(context, self.spec)
        candidates = self.attach(context)
        self._make_room(candidates, 1)
        # Before anything moves, so that it is drawn from what `propensities` says of the same context.
        action = self._draw_action(request, candidates, self._next_draw())
        self.draws.decisions[0] += 1
        self._decided(request, candidates, action)
        return action

    def decide(self, context: Context, draw: float | None = None) -> KernelDecision:
        """Draw an action, with the distribution that it is drawn from, and move what a decision moves.

        Args:
            context: The request.
            draw: A number in [0, 1) that settles the draw, such as a hash of an event's id. Default: the policy's next.

        Returns:
            The action, and the probability of each candidate `(K,)` that it was drawn from.
        """
        if draw is not None and not 0.0 <= draw < 1.0:
            raise PolicyError(f"draw: got {shown(draw)}, expected a number from 0 up to, but not including, 1")
        request = checked_request(context, self.spec)
        candidates = self.attach(context)
        self._make_room(candidates, 1)
        propensities = self._distribution(request, candidates)
        action = self._draw_action(request, candidates, self._next_draw() if draw is None else draw)
        # A draw of the caller's uses up none of the policy's own.
        self.draws.decisions[0] += draw is None
        self._decided(request, candidates, action)
        return KernelDecision(action, propensities)

    def note_decision(self, context: Context, action: int, is_confirmed: bool = True) -> None:
        """Move what a decision moves, for one that was made elsewhere; see `Policy.note_decision`."""
        request = checked_request(context, self.spec)
        chosen = checked_action(action, len(request.available))
        candidates = self.attach(context)
        if is_confirmed:
            self._make_room(candidates, 1)
            self._decided(request, candidates, chosen)
        else:
            self._move_clocks(request, candidates, chosen)

    def _move_clocks(self, request: CheckedRequest, candidates: Any, action: int) -> None:
        """Move the `clocks` for a decision, and enter nothing new."""

    def reseed(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on; what was learned stays."""
        super().reseed(rng)
        self.draws = new_draws(rng)

    def propensities(self, context: Context) -> FloatArray:
        """Return the probability of each candidate `(K,)` that `select_action` draws from; moves no state."""
        request = checked_request(context, self.spec)
        passing = self._passing_distribution(request, context)
        if passing is not None:
            return passing
        reader = self._reader(context)
        return reader._distribution(request, reader.attach(context))

    def recommend(self, context: Context) -> int:
        """Return the candidate that seems best, without exploring; moves no state."""
        request = checked_request(context, self.spec)
        reader = self._reader(context)
        return reader._exploit(request, reader.attach(context))

    def _make_room(self, candidates: Any, decisions: int) -> None:
        """Make room for what so many decisions may show of the candidates; what `attach` returned stays right."""

    def _reader(self, context: Context) -> "DrawingPolicy":
        """Return the policy itself where reading a request moves nothing, else a copy that may be moved."""
        return self

    def _next_draw(self) -> float:
        return uniform(self.draws.key[0], int(self.draws.decisions[0]) + 1, 0)


class KernelPolicy(DrawingPolicy, TabulatingPolicy):
    """A policy whose decisions are made by a `Kernel` over `self.state`.

    A subclass sets `kernel`, `learned` (the fields of the state that hold what was learned) and the range of `rewards`
    that it can learn from, makes its state in `_new_state`, and says in `_candidates` what it derives from products.
    """

    learned: ClassVar[tuple[str, ...]] = ()
    once_learned: ClassVar[tuple[str, ...]] = ()
    """Parts of the states that earlier releases saved, which are read over."""
    rewards: ClassVar[tuple[float, float]] = (-LARGEST, LARGEST)
    candidates_rest_on: ClassVar[tuple[str, ...]] = ()
    """The learned arrays that what is derived from products rests on, where those are all that it rests on."""
    state: Any

    @property
    @abstractmethod
    def kernel(self) -> Kernel:
        """The compiled functions: one `kernel = Kernel(...)` of the class, or one that the parameters choose."""

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that has learned nothing.

        Args:
            spec: The dimensions of its task.
            rng: The keys of its draws are taken from it.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(spec, rng, **params)
        self.state = self._new_state()
        self.draws = new_draws(rng)

    @abstractmethod
    def _new_state(self) -> Any:
        """Make the state of a policy that has seen nothing, not even a product."""

    def _exploiting(self) -> Any:
        """Return the state with which `choose` takes the action that seems best, without exploring."""
        return self.state

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Learn by the kernel; what is wrong is refused before it touches anything."""
        request = checked_request(context, self.spec)
        chosen = checked_action(action, len(request.available))
        earned = checked_reward(reward, *self.rewards)
        candidates = self.attach(context)
        self._make_room(candidates, 1)
        if self.kernel.follow is None or next_context is None:
            self._teach_one(candidates, request, chosen, earned, decides=False, learns=True)
        else:
            visit_ended = bool((feedback or {}).get("visit_ended"))
            following = checked_request(next_context, self.spec)
            later = (self.attach(next_context), following.user, following.available)
            decision = (request.user_id, request.user, chosen, earned)
            self.kernel.follow(self.state, candidates, *decision, visit_ended, *later)
        self.heed()

    @reads_blocks
    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Take the logged choices one after another as decisions and rewards of its own, by the kernel."""
        users = checked_past_features(log, self.spec)
        for reward in extremes(log.rewards) if len(log) else ():
            checked_reward(float(reward), *self.rewards)
        # In chunks: room is made for as many decisions at once, and progress is told between them.
        for start in range(0, len(log), FIT_CHUNK):
            part = slice(start, min(start + FIT_CHUNK, len(log)))
            candidates = self.attach_block(log.product_ids, log.products, FIT_CHUNK)
            user_ids = np.full(part.stop - start, NOBODY) if log.user_ids is None else log.user_ids[part]
            visits = user_ids, users[part], log.actions[part], log.rewards[part]
            self.teach(candidates, *visits, available=np.ones(len(log.product_ids), np.bool_))
            progress(f"learned from {part.stop:,} of {len(log):,} visits")
        self.heed()
        return {}

    def reseed(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on, from the posterior, too; what was learned stays."""
        super().reseed(rng)
        if "key" in self.learned:
            self.state.key[:] = draw_key(rng)

    def attach_block(self, product_ids: IntArray, products: FloatArray, decisions: int) -> Any:
        """Return what is derived from candidates that stay the same for a number of compiled decisions."""
        candidates = self.attach(Context(product_ids=product_ids, products=products))
        self._make_room(candidates, decisions)
        return candidates

    def teach(
        self,
        candidates: Any,
        user_ids: IntArray,
        users: FloatArray,
        actions: IntArray,
        rewards: FloatArray,
        *,
        available: BoolArray | None = None,
    ) -> None:
        """Learn from n visits with the same candidates, one after another.

        Args:
            candidates: What `attach_block` returned for them.
            user_ids: Of the visitors `(n,)`.
            users: Their features `(n, d_u)`.
            actions: What was shown `(n,)`.
            rewards: What it earned `(n,)`.
            available: What may be shown `(K,)`, where each visit counts as a decision of the policy's own, too.
        """
        visits = np.array(user_ids), frozen_view(users), np.array(actions), np.array(rewards)
        decides = available is not None
        shown = frozen_view(np.ones(0, np.bool_) if available is None else available)
        _compiled_teach(self.kernel)(self.state, candidates, *visits, shown, decides, True)

    def readers(self, candidates: Any, count: int) -> list[tuple[Any, Any]]:
        """Return copies, but for the first pair, since kernels may write in arrays what they only remember."""
        first = (self.state, candidates)
        return [first, *(copy.deepcopy(first) for _ in range(count - 1))]

    def tabulate(
        self,
        state: Any,
        candidates: Any,
        user_ids: IntArray,
        users: FloatArray,
        masks: BoolArray,
        mask_of: IntArray,
        out: FloatArray,
    ) -> None:
        """Add the probability of each candidate at n requests, the floor counted in; see `TabulatingPolicy`."""
        requests = np.array(user_ids), frozen_view(users), frozen_view(masks), np.array(mask_of)
        _compiled_distributions(self.kernel)(state, candidates, *requests, self.floor, out)

    def prepare(self) -> None:
        """Compile all that a request and a reward need, by playing one on a copy."""
        context = Context(
            user_id=0,
            user=np.zeros(self.spec.user_dim),
            product_ids=np.arange(2),
            products=np.eye(2, self.spec.product_dim),
            available=np.ones(2, bool),
        )
        copied = copy.deepcopy(self)
        for _ in range(2):
            action = copied.select_action(context)
            copied.decide(context)
            if self.clocks:
                _ = copied.goes_by_clocks
                copied.note_decision(context, action, is_confirmed=False)
            copied.recommend(context)
            copied.update(context, action, max(0.0, self.rewards[0]))

    def _draw_action(self, request: CheckedRequest, candidates: Any, draw: float) -> int:
        return int(floored_choice(self.kernel)(self.state, candidates, *request, self.floor, draw))

    def _distribution(self, request: CheckedRequest, candidates: Any) -> FloatArray:
        out = np.zeros((1, len(request.available)))
        user_id = np.array([request.user_id], np.int64)
        first = np.zeros(1, np.int64)
        requests = user_id, request.user[None], request.available[None], first
        _compiled_distributions(self.kernel)(self.state, candidates, *requests, self.floor, out)
        return np.asarray(out[0])

    def _exploit(self, request: CheckedRequest, candidates: Any) -> int:
        return int(floored_choice(self.kernel)(self._exploiting(), candidates, *request, 0.0, 0.0))

    def _decided(self, request: CheckedRequest, candidates: Any, action: int) -> None:
        self._teach_one(candidates, request, action, 0.0, decides=True, learns=False)

    def _teach_one(
        self, candidates: Any, request: CheckedRequest, action: int, reward: float, *, decides: bool, learns: bool
    ) -> None:
        visit = np.array([request.user_id], np.int64), request.user[None], np.array([action]), np.array([reward])
        _compiled_teach(self.kernel)(self.state, candidates, *visit, request.available, decides, learns)

    def heed(self) -> None:
        """Warn, once, when the features are so scaled that a linear model's matrix is ill-conditioned."""
        ridge = self._ridge()
        if ridge is not None and ridge.condition[-1] > CONDITION and not self._warned:
            self._warned = True
            size = f"{CONDITION:.0e}".replace("+", "")
            warnings.warn(
                f"{policy_name(type(self))}: the condition number of its features' matrix is above {size}, up to which "
                "estimates are right to 8 digits; scale the features to about 1, or raise the regularization",
                RuntimeWarning,
                stacklevel=3,
            )

    def _ridge(self) -> Any:
        """Return the linear models whose condition is watched, None where there are none."""
        return getattr(self.state, "ridge", None)

    def _state_label(self) -> str:
        return f"{type(self).__name__} ({self._signature()})"

    def _learned_attributes(self) -> Mapping[str, str]:
        return {**{name: f"state.{name}" for name in self.learned}, "draws": "draws"}

    def _learned_fields(self) -> dict[str, Any]:
        return {"policy": self._signed(), **super()._learned_fields()}

    def _checked_state(self, saved: Any) -> dict[str, Any]:
        if isinstance(saved, Mapping):
            parts = {name: f"{name}".partition(".")[0] for name in saved}
            saved = {name: value for name, value in saved.items() if parts[name] not in self.once_learned}
            saved = with_lists_of_use(saved)
        return super()._checked_state(saved)

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        signed = saved.get("policy", ())
        if not np.array_equal(signed, self._signed()):
            words = signed.tobytes().decode(errors="replace") if isinstance(signed, np.ndarray) else signed
            raise ValueError(f"policy is {shown(words)}, expected {self._signature()!r}")
        shaped = self._shaped_as(saved)
        return {name: getattr(shaped, name) for name in self.learned}

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        state = self.state._replace(**{name: values[name] for name in self.learned})
        yield from getattr(state, "flaws", tuple)()

    def change_state(self, change: Callable[[dict[str, np.ndarray]], None]) -> None:
        """Change learned arrays in place; nothing is copied or checked.

        Args:
            change: Called with the arrays by their names in `state_dict`; it writes into them.
        """
        arrays = self.learned_in_use()
        before = [arrays[name].copy() for name in self.candidates_rest_on]
        change(arrays)
        if before and all(map(np.array_equal, before, (arrays[name] for name in self.candidates_rest_on))):
            self._index_tables()
            self._forget_learned()
        else:
            self._state_loaded()

    def _forget_learned(self) -> None:
        """Forget what is remembered of learned arrays beside candidates that stay."""

    def _shaped_as(self, saved: Mapping[str, Any]) -> Any:
        """Return a state whose arrays have the sizes of saved ones; its own where sizes never change."""
        return self.state

    def _state_loaded(self) -> None:
        """Compute anew what derives from the learned arrays; candidates are derived anew when they come next."""
        self._attached.clear()
        self._singles.clear()
        self._index_tables()

    def _index_tables(self) -> None:
        for table in _id_tables(self.state):
            index_ids(table)

    def _signature(self) -> str:
        """Say whose a saved state is: its name, and what else decides how its arrays are to be read."""
        return policy_name(type(self))

    def _signed(self) -> np.ndarray:
        return np.frombuffer(self._signature().encode(), np.uint8).copy()


# `bind` puts each kernel's own functions in the place of these.
choose: Any = None
distribution: Any = None
decided: Any = None
learn: Any = None


@cache
def floored_choice(kernel: Kernel) -> Callable[..., int]:
    """Compile a kernel's choice above a floor: a share of the decisions is spread evenly over what is available."""
    return bind(_choose_above_floor, f"choose_{kernel.name}", choose=kernel.choose)


def _choose_above_floor(
    state: Any, candidates: Any, user_id: int, user: FloatArray, available: BoolArray, floor: float, draw: float
) -> int:
    # One draw settles both: either part of [0, 1) is stretched to the whole of it.
    if draw < floor:
        return pick(available, draw / floor)
    return int(choose(state, candidates, user_id, user, available, (draw - floor) / (1.0 - floor)))


@cache
def floored_distribution(kernel: Kernel) -> Callable[..., None]:
    """Compile the distribution that belongs to `floored_choice`."""
    return bind(_distribution_above_floor, f"distribution_{kernel.name}", distribution=kernel.distribution)


def _distribution_above_floor(
    state: Any, candidates: Any, user_id: int, user: FloatArray, available: BoolArray, floor: float, out: FloatArray
) -> None:
    distribution(state, candidates, user_id, user, available, out)
    raise_to_floor(available, floor, out)


@jit
def raise_to_floor(available: BoolArray, floor: float, out: FloatArray) -> None:
    """Spread a share `floor` of the decisions of `out (K,)` evenly over what is available `(K,)`."""
    if floor > 0.0:
        out *= 1.0 - floor
        add_share(available, floor, out)


@cache
def _compiled_distributions(kernel: Kernel) -> Callable[..., None]:
    return bind(_distributions, f"distributions_{kernel.name}", distribution=floored_distribution(kernel))


def _distributions(
    state: Any,
    candidates: Any,
    user_ids: IntArray,
    users: FloatArray,
    masks: BoolArray,
    mask_of: IntArray,
    floor: float,
    out: FloatArray,
) -> None:
    for i in range(users.shape[0]):
        distribution(state, candidates, user_ids[i], users[i], masks[mask_of[i]], floor, out[i])


@cache
def _compiled_teach(kernel: Kernel) -> Callable[..., None]:
    return bind(_teach, f"teach_{kernel.name}", decided=kernel.decided, learn=kernel.learn)


def _teach(
    state: Any,
    candidates: Any,
    user_ids: IntArray,
    users: FloatArray,
    actions: IntArray,
    rewards: FloatArray,
    available: BoolArray,
    decides: bool,
    learns: bool,
) -> None:
    for i in range(actions.shape[0]):
        # A visit's decision before its reward, as in a shop that learns at once.
        if decides:
            decided(state, candidates, user_ids[i], users[i], available, actions[i])
        if learns:
            learn(state, candidates, user_ids[i], users[i], actions[i], rewards[i])


def _id_tables(value: Any) -> Iterator[IdTable]:
    """Find the id tables in a named tuple."""
    if isinstance(value, IdTable):
        yield value
    elif isinstance(value, tuple):
        for inner in value:
            yield from _id_tables(inner)
