"""QMDP over hidden types of visitors: learn the types from lives, guess each visitor's, and plan by the guess."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from zoosim.core.claims import claim
from zoosim.core.id_table import IdTable, claim_slot, find_slot, new_id_table
from zoosim.core.limits import FLAGS, IDS
from zoosim.core.parameters import parameter
from zoosim.core.state import blank
from zoosim.core.types import NOBODY, Context, FloatArray, IntArray, PastLog, PolicySpec, Progress
from zoosim.models.visitor_model import GOES, RETURNS, STAYS
from zoosim.models.visitor_types import (
    BOUNDS,
    MOST_CLICKS,
    Lives,
    Tally,
    Types,
    find_tally,
    fit_types,
    log_beliefs,
    plan_for_types,
    state_numbers,
    walk,
)
from zoosim.policies.requests import CheckedRequest, checked_action, checked_request, checked_reward
from zoosim.policies.sessions.base import known_decisions
from zoosim.policies.sessions.planning import DUE, GONE, KINDS, TAKEN, PlanningPolicy

IS_HERE = 3
"""Place in a record: whether the visitor has come, and not gone; before it the state, see `Walked`."""


class QMDP(PlanningPolicy):
    """Guess which type each visitor is of, and show what brings the most by the guess (QMDP).

    It looks at no features of visitors, but keeps a record of the clicks of each one by id, and learns types of
    visitors from their lives (see `zoosim.models.visitor_types`). What it believes of a visitor's type begins with the
    types' shares, and moves with each click and each decision without one (Bayes' rule). A kind is worth the mean, by
    the belief, of what it brings to each type if the type were known from the next decision on (Littman, Cassandra &
    Kaelbling 1995). A reward above 0 is a click, whatever it amounts to. A new plan is made whenever the visitors who
    have gone are 1.2 times as many as at the last one, or 100 more.
    """

    name = "qmdp"
    learned: ClassVar = (
        *("_visitor_ids", "_begins", "_shown", "_clicked", "_follows", "_kind_ids", "_kind_rows", "_counts"),
        *("_visitors", "_records", "_beliefs"),
        *("_shares", "_clicks", "_lowers", "_bound", "_expected", "_drawn", "draws"),
    )
    _visitor_ids: Annotated[IntArray, IDS]
    _begins: Annotated[IntArray, FLAGS]
    _clicked: Annotated[IntArray, FLAGS]
    _clicks: Annotated[FloatArray, FLAGS]
    _lowers: Annotated[IntArray, FLAGS]
    types: int = parameter(6, low=1, high=100, help="types of visitors, at most; some may turn out alike")
    visitors: int = parameter(10_000, low=1, high=10_000_000, help="visitors of whom a record is kept, the last ones")

    def __init__(self, spec: PolicySpec, rng: np.random.Generator, **params: Any) -> None:
        """Make a policy that knows nothing of visitors, and decides at random until it has met some.

        Args:
            spec: The dimensions of its task.
            rng: The source of its random draws.
            **params: Values of declared parameters; the others take their defaults.

        Raises:
            ConfigError: a parameter is unknown, of another type or out of range.
        """
        super().__init__(spec, rng, **params)
        claim(5 * self.memory + self.visitors * (8 + self.types) + self.kinds * spec.product_dim)
        self._visitor_ids = np.zeros(self.memory, np.int64)
        self._begins = np.zeros(self.memory, np.int8)
        self._shown = np.zeros(self.memory, np.int64)
        self._clicked = np.zeros(self.memory, np.int8)
        self._follows = np.zeros(self.memory, np.int64)
        self._visitors: IdTable = new_id_table(self.visitors + 1)
        self._records = np.zeros((self.visitors + 1, 4), np.int64)
        self._beliefs = np.zeros((self.visitors + 1, self.types))
        self._shares = np.full(self.types, 1.0 / self.types)
        self._clicks = np.zeros((self.types, 1, 0))
        self._lowers = np.zeros(0, np.int64)
        self._bound = np.zeros(1, np.int64)
        self._expected = np.zeros((self.types, 0, 0))
        self._drawn = np.zeros((self.types, 0, 0))

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Remember a decision and what followed, guess the visitor's type anew, and plan when that is due."""
        request = checked_request(context, self.spec)
        chosen = checked_action(action, len(request.available))
        earned = checked_reward(reward, *self.rewards)
        follows = GOES
        if next_context is not None:
            checked_request(next_context, self.spec)
            follows = RETURNS if (feedback or {}).get("visit_ended") else STAYS
        self.attach(context)
        self._take(request.user_id, self._number(context.products[chosen]), earned > 0.0, follows)
        if self._counts[GONE] >= self._counts[DUE]:
            self._plan()

    @property
    def tally(self) -> Tally:
        """How clicks move the tally of a visitor, by kinds."""
        return Tally(1 - 2 * self._lowers, int(self._bound[0]))

    def _take(self, user_id: int, kind: int, clicked: bool, follows: int) -> None:
        """Remember a decision, and move what is known of its visitor."""
        slot, is_new = (0, True) if user_id == NOBODY else claim_slot(self._visitors, user_id)
        record = self._records[slot]
        begins = is_new or not record[IS_HERE]
        if begins:
            record[:] = (0, self._bound[0], 0, 1)
            self._beliefs[slot] = np.log(self._shares)
        if kind >= 0:
            place = int(self._counts[TAKEN]) % self.memory
            self._visitor_ids[place] = user_id
            self._begins[place] = begins
            self._shown[place] = kind
            self._clicked[place] = clicked
            self._follows[place] = follows
            self._counts[TAKEN] += 1
            self._guess(slot, kind, clicked)
        if follows != STAYS:
            record[[0, 2]] = 0
        if follows == GOES:
            self._counts[GONE] += 1
            record[IS_HERE] = 0

    def _guess(self, slot: int, kind: int, clicked: bool) -> None:
        """Move the belief of a visitor's type, and the state, by a decision."""
        record = self._records[slot]
        if kind < len(self._lowers):
            chances = self._clicks[:, record[0], kind]
            self._beliefs[slot] += np.log(chances if clicked else 1.0 - chances)
            if clicked:
                step = 1 - 2 * self._lowers[kind]
                record[0] = kind + 1
                record[1] = min(max(record[1] + step, 0), 2 * self._bound[0])
        record[2] = min(record[2] + clicked, MOST_CLICKS)

    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Remember the newest logged decisions, and plan.

        Without lives in the log each decision is a visitor's last. Decisions of which nobody knows what followed are
        left out.
        """
        rows, next_rows, visit_ended = known_decisions(log)
        follows = np.where(next_rows < 0, GOES, np.where(visit_ended, RETURNS, STAYS))
        kinds = np.array([self._number(row) for row in log.products])[log.actions[rows]]
        lives = getattr(log, "lives", None)
        ids = np.full(len(rows), NOBODY) if lives is None else lives.visitor[rows]
        # Those of the log are other visitors than any who come later, whatever their numbers.
        for user_id, kind, reward, following in zip(ids, kinds, log.rewards[rows], follows, strict=True):
            self._take(int(user_id), int(kind), bool(reward > 0.0), int(following))
        self._records[:, IS_HERE] = 0
        progress(f"planning by {min(len(rows), self.memory):,} decisions")
        self._plan()
        return {}

    def _plan(self) -> None:
        """Learn the types from all lives that are held from their beginning, and plan for each of them."""
        self._set_next_plan()
        places, lives = self._lives()
        if not len(places):
            return
        products = self._kind_rows[: int(self._counts[KINDS])]
        rng = np.random.default_rng([int(self.draws.key[0]), int(self._counts[GONE])])
        tally = find_tally(lives, products)
        before = Types(self._shares, self._clicks) if len(self._lowers) else None
        types = fit_types(lives, self.types, len(products), before, rng=rng)
        plan = plan_for_types(lives, tally, types, rng=rng)
        self._shares, self._clicks = types
        self._lowers = (tally.steps < 0).astype(np.int64)
        self._bound[0] = tally.bound
        self._expected = plan.expected
        self._drawn = plan.drawn
        self._guess_anew(places, lives, tally, types)

    def _lives(self) -> tuple[IntArray, Lives]:
        """Return the places of decisions of lives that are held from their beginning, visitor by visitor, and these."""
        held = self._oldest_first()
        held = held[np.argsort(self._visitor_ids[held], kind="stable")]
        ids = self._visitor_ids[held]
        begins = self._begins[held] == 1
        life = np.cumsum(begins | np.append(True, ids[1:] != ids[:-1])) if len(held) else np.zeros(0, np.int64)
        is_whole = np.zeros(len(held) + 1, bool)
        is_whole[life[begins]] = True
        places = held[is_whole[life]]
        numbers = np.unique(life[is_whole[life]], return_inverse=True)[1]
        return places, Lives(numbers, self._shown[places], self._clicked[places] == 1, self._follows[places])

    def _guess_anew(self, places: IntArray, lives: Lives, tally: Tally, types: Types) -> None:
        """Say what is believed of those who are here by the new types; of whose life is not held, nothing."""
        walked = walk(lives, tally)
        logs = log_beliefs(lives, walked.before[:, 0], types)
        self._beliefs[:] = np.log(types.shares)
        self._records[:, 1] = np.minimum(self._records[:, 1], 2 * tally.bound)
        last = np.flatnonzero(np.append(np.diff(lives.visitors) != 0, True))
        for row in last[lives.follows[last] != GOES]:
            slot = find_slot(self._visitors, self._visitor_ids[places[row]])
            if slot and self._records[slot, IS_HERE]:
                self._records[slot, :IS_HERE] = walked.follows[row]
                self._beliefs[slot] = logs[lives.visitors[row]]

    def _values_of_kinds(self, request: CheckedRequest, plan: FloatArray) -> FloatArray | None:
        if not plan.size:
            return None
        slot = 0 if request.user_id == NOBODY else find_slot(self._visitors, request.user_id)
        record = self._records[slot]
        state = np.array([0, self._bound[0], 0])
        belief = self._shares
        if slot and record[IS_HERE]:
            state = record[:IS_HERE]
            logs = self._beliefs[slot]
            belief = np.exp(logs - logs.max())
        number = int(state_numbers(state, len(self._lowers), int(self._bound[0])))
        values: FloatArray = belief @ plan[:, number] / belief.sum()
        return values

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        lowers = saved.get("lowers")
        bound = saved.get("bound")
        kinds = lowers.shape[0] if isinstance(lowers, np.ndarray) and lowers.ndim == 1 else 0
        bound = int(bound[0]) if isinstance(bound, np.ndarray) and bound.shape == (1,) else 0
        states = (kinds + 1) * (2 * min(max(bound, 0), BOUNDS[-1]) + 1) * (MOST_CLICKS + 1) if kinds else 0
        sizes = {"lowers": blank(np.int64, kinds), "clicks": blank(np.float64, self.types, kinds + 1, kinds)}
        return sizes | {name: blank(np.float64, self.types, states, kinds) for name in ("expected", "drawn")}

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        counts = values["counts"]
        kinds = len(values["lowers"])
        if not kinds <= counts[KINDS] <= self.kinds:
            yield f"counts holds {counts[KINDS]} kinds, expected {kinds} to {self.kinds}"
        if values["bound"][0] > BOUNDS[-1]:
            yield f"bound holds {values['bound'][0]}, expected {BOUNDS[-1]} at most"
        if values["shares"].min() <= 0.0 or (
            kinds and not 0.0 < values["clicks"].min() <= values["clicks"].max() < 1.0
        ):
            yield "shares or clicks hold a probability that no type has"
        if values["shown"].max() >= max(1, counts[KINDS]) or values["follows"].max() > GOES:
            yield "shown or follows holds a number that stands for nothing"
        most = (kinds, 2 * values["bound"][0], MOST_CLICKS, 1)
        if (values["records"] > most).any():
            yield f"records holds {values['records'].max(axis=0).tolist()}, expected {list(map(int, most))} at most"
