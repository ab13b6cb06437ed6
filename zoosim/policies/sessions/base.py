"""Policies that value kinds of products by all that follows, and decide at random less and less.

Products with the same features are one kind: they are worth the same, and an array over kinds stays small.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from zoosim.core.id_table import UNKNOWN, IdTable, claim_slot, find_slot, new_id_table, use_slot
from zoosim.core.jit import bind, jit
from zoosim.core.parameters import parameter
from zoosim.core.rng import draw_key
from zoosim.core.types import NOBODY, BoolArray, Context, FloatArray, IntArray, PastLog, Progress, frozen_view
from zoosim.policies.base import FIT_CHUNK
from zoosim.policies.choice import add_share, best_of, distinct_rows, pick
from zoosim.policies.kernel import Kernel, KernelPolicy, nothing_decided
from zoosim.policies.products.segment_state import hash_rows
from zoosim.policies.requests import checked_past_features, checked_request, checked_reward

VISIT, LIFETIME = "visit", "lifetime"

VISITORS = 10_000
"""The visitors that are planned where nobody says how many there will be."""


class LearningProgress(NamedTuple):
    """Progress of learning: the visitors who have `gone (1,)`, of so many as are `planned`."""

    gone: IntArray
    planned: int


class Exploration(NamedTuple):
    """A schedule of the share of random decisions: from `first` to `last` over the first `fall` x planned visitors."""

    first: float
    last: float
    fall: float


@jit
def progress_of(progress: LearningProgress) -> float:
    """Return the share of the planned visitors who have gone, 1 at most."""
    share: float = min(1.0, progress.gone[0] / progress.planned)
    return share


@jit
def random_share(exploration: Exploration, progress: LearningProgress) -> float:
    """Return the share of random decisions now."""
    remaining = max(0.0, 1.0 - progress_of(progress) / exploration.fall)
    share: float = exploration.last + (exploration.first - exploration.last) * remaining
    return share


class KindCandidates(NamedTuple):
    """The R kinds among K candidates: their `ids (R,)`, hashes of their features, and the kind `kind_of (K,)`."""

    ids: IntArray
    kind_of: IntArray


def kinds_among(products: FloatArray) -> KindCandidates:
    """Return the kinds among candidates with the features `products (K, d_p)`."""
    rows, kind_of = distinct_rows(products)
    return KindCandidates(hash_rows(rows), kind_of)


@jit
def number_kinds(kinds: IdTable, ids: IntArray) -> IntArray:
    """Give numbers to the kinds `ids (R,)` of a request, the first ones if they are too many; return which are new.

    A new one may have been that of a kind that was not met for long. No kind takes the number of another one of the
    same request: of more kinds than there are numbers, each would else lose its number before it comes again.
    """
    known = 0
    for r in range(ids.shape[0]):
        slot = find_slot(kinds, ids[r])
        if slot != UNKNOWN:
            use_slot(kinds, slot)
            known += 1
    new = np.empty(min(ids.shape[0], kinds.ids.shape[0] - 1) - known, np.int64)
    count = 0
    for r in range(ids.shape[0]):
        if count == new.shape[0]:
            break
        if find_slot(kinds, ids[r]) == UNKNOWN:
            new[count], _ = claim_slot(kinds, ids[r])
            count += 1
    return new


class KnownDecisions(NamedTuple):
    """The n decisions of a log of which is known what followed, in the order of the log, and of each visitor's life.

    `rows (n,)` of the log; `next_rows (n,)`, -1 where the visitor then had gone; `visit_ended (n,)`.
    """

    rows: IntArray
    next_rows: IntArray
    visit_ended: BoolArray


def known_decisions(log: PastLog) -> KnownDecisions:
    """Return the decisions of a log of which is known what followed.

    Args:
        log: The log. Where it does not tell visitors' lives, each decision is a visitor's last one.
    """
    lives = getattr(log, "lives", None)
    following = np.full(len(log), -1)
    if lives is None:
        return KnownDecisions(np.arange(len(log)), following, np.ones(len(log), np.bool_))
    order = np.lexsort((lives.step, lives.visit, lives.visitor))
    same_visitor = np.diff(lives.visitor[order]) == 0
    following[order[:-1][same_visitor]] = order[1:][same_visitor]
    # In the order of the log, but a visitor's decisions one after another: they share the visitor's rows in order.
    in_turn = np.empty(len(log), np.int64)
    in_turn[np.lexsort((np.arange(len(log)), lives.visitor))] = order
    rows = in_turn[(lives.ended | (following >= 0))[in_turn]]
    next_rows = following[rows]
    return KnownDecisions(rows, next_rows, (next_rows < 0) | (lives.visit[rows] != lives.visit[next_rows]))


@dataclass(frozen=True, kw_only=True)
class LookAheadKernel(Kernel):
    """The compiled functions of a policy that values kinds; see `look_ahead_kernel`."""

    write_values: Callable[..., None]
    follow: Callable[..., None]


# `look_ahead_kernel` puts a policy's own functions in the place of these.
write_scores: Any = None
best: Any = None


def look_ahead_kernel(
    name: str,
    write_values: Callable[..., None],
    learn: Callable[..., None],
    follow: Callable[..., None],
    write_scores: Callable[..., None] | None = None,
) -> "LookAheadKernel":
    """Return the kernel of a policy that values kinds.

    Args:
        name: The policy's.
        write_values: `(state, candidates, user, values)` writes the value of each kind of a request `(R,)`.
        learn: Learns from a visitor's last decision; see `Kernel`.
        follow: Learns from one that others follow; see `Kernel`.
        write_scores: Writes in the same way what the best decision has the most of. Default: the values.
    """
    best = bind(_best, f"best_{name}", write_scores=write_scores or write_values)
    return LookAheadKernel(
        name,
        choose=bind(_choose, f"draw_{name}", best=best),
        distribution=bind(_distribution, f"shares_{name}", best=best),
        learn=learn,
        decided=nothing_decided,
        follow=follow,
        write_values=write_values,
    )


def _best(state: Any, candidates: KindCandidates, user: FloatArray, available: BoolArray) -> int:
    scores = np.empty(candidates.ids.shape[0])
    write_scores(state, candidates, user, scores)
    return best_of(scores, candidates.kind_of, available)


def _choose(
    state: Any, candidates: KindCandidates, user_id: int, user: FloatArray, available: BoolArray, draw: float
) -> int:
    share = random_share(state.exploration, state.progress)
    if draw < share:
        return pick(available, draw / share)
    return int(best(state, candidates, user, available))


def _distribution(
    state: Any, candidates: KindCandidates, user_id: int, user: FloatArray, available: BoolArray, out: FloatArray
) -> None:
    share = random_share(state.exploration, state.progress)
    out[best(state, candidates, user, available)] = 1.0 - share
    add_share(available, share, out)


class KindPolicy(KernelPolicy):
    """Base of policies that count what a visitor brings after a decision, by kinds of products."""

    chooses = ("products",)
    looks_ahead = True
    discount: float = parameter(1.0, low=0, high=1, help="weight of what comes after the next decision")
    horizon: str = parameter(
        LIFETIME, choices=(LIFETIME, VISIT), help="what is summed up: all that a visitor brings, or this visit's part"
    )
    kinds: int = parameter(64, low=2, high=4_096, help="kinds of products that are told apart, at most")

    def _new_kinds(self) -> IdTable:
        return new_id_table(self.kinds + 1)

    def _new_progress(self) -> LearningProgress:
        return LearningProgress(np.zeros(1, np.int64), self.spec.steps or VISITORS)

    def reseed(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from now on, batches of training, too; what was learned stays."""
        super().reseed(rng)
        if "net" in self.learned:
            self.state.net.key[:] = draw_key(rng)

    def _candidates(self, ids: IntArray, products: FloatArray) -> KindCandidates:
        return kinds_among(products)

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        yield from super()._state_flaws(values)
        # Tables of layers are saved with the weights, but follow from the parameters; compiled code trusts them.
        for name in self.learned:
            own = getattr(self.state, name)
            for part in getattr(own, "_fields", ()):
                if part.endswith("layers") and not np.array_equal(getattr(own, part), getattr(values[name], part)):
                    yield f"{name}.{part} holds another network than the parameters say"


class LookAheadPolicy(KindPolicy):
    """Base of policies that learn what a visitor brings from a decision on.

    A subclass sets `kernel` to a `look_ahead_kernel`, and its state has `kinds`, `progress` and `exploration`.
    """

    kernel: LookAheadKernel
    random_first: float = parameter(1.0, low=0, high=1, help="share of random decisions at first")
    random_last: float = parameter(0.05, low=0, high=1, help="the share that it falls to")
    random_fall: float = parameter(0.3, low=1e-9, high=1, help="share of the planned visitors over which it falls")

    def action_values(self, context: Context) -> FloatArray:
        """Return what the policy expects of each candidate `(K,)`: all rewards from here on, if the best follows.

        Args:
            context: The request.

        Raises:
            PolicyError: the request is not one of the policy's task.
        """
        request = checked_request(context, self.spec)
        candidates = self.attach(context)
        of_kinds = np.empty(len(candidates.ids))
        self.kernel.write_values(self._exploiting(), candidates, request.user, of_kinds)
        values: FloatArray = of_kinds[candidates.kind_of]
        return values

    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Take the logged decisions as its own, with what followed where the log tells lives.

        Decisions of which nobody knows what followed are left out.
        """
        if getattr(log, "lives", None) is None:
            return super().fit(log, progress)
        users = checked_past_features(log, self.spec)
        for reward in (log.rewards.min(), log.rewards.max()) if len(log) else ():
            checked_reward(float(reward), *self.rewards)
        candidates = self.attach_block(log.product_ids, log.products, FIT_CHUNK)
        known = known_decisions(log)
        for place, (row, later, visit_ended) in enumerate(zip(*known, strict=True)):
            user = frozen_view(users[row])
            decision = (NOBODY, user, int(log.actions[row]), float(log.rewards[row]))
            if later < 0:
                self.kernel.learn(self.state, candidates, *decision)
            else:
                following = (candidates, frozen_view(users[later]), frozen_view(log.available(later, later + 1)[0]))
                self.kernel.follow(self.state, candidates, *decision, bool(visit_ended), *following)
            if (place + 1) % FIT_CHUNK == 0:
                progress(f"learned from {place + 1:,} of {len(known.rows):,} decisions")
        return {}

    def _new_exploration(self) -> Exploration:
        return Exploration(self.random_first, self.random_last, self.random_fall)

    def _exploiting(self) -> Any:
        return self.state._replace(exploration=self.state.exploration._replace(first=0.0, last=0.0))
