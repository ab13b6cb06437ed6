"""Model-based planning: learn how visitors click, stay and come back, and show what is best if that is how it is."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from zoosim.core.claims import claim
from zoosim.core.limits import FLAGS, SINGLES
from zoosim.core.state import blank, saved_length
from zoosim.core.types import Context, Float32Array, FloatArray, IntArray, PastLog, PolicySpec, Progress
from zoosim.models.visitor_model import (
    GOES,
    RETURNS,
    STAYS,
    Decisions,
    find_parts,
    make_plan,
    sizes_of,
    values_of_parts,
)
from zoosim.policies.requests import (
    CheckedRequest,
    checked_action,
    checked_past_features,
    checked_request,
    checked_reward,
)
from zoosim.policies.sessions.base import known_decisions
from zoosim.policies.sessions.planning import DUE, GONE, KINDS, TAKEN, PlanningPolicy

AFTER_CHANGE = 30
"""Visitors who go, at most, between a plan that showed a change and the next one."""


class Planner(PlanningPolicy):
    """Learn how visitors click, stay and come back, and plan over all of their visits.

    It wants states: groups of features of which exactly one is 1, such as a persona, a category, a level; it finds the
    groups by itself (see `zoosim.models.visitor_model`). Of other features it tells none apart. A reward above 0 is a
    click, whatever it amounts to. A new plan is made whenever the visitors who have gone are 1.2 times as many as at
    the last one, or 100 more. Decisions of before a change of the chances of a click are forgotten, where it shows (see
    `zoosim.models.changes`), and the next plan is then made soon. Decisions follow a plan in a model that is drawn from
    the posterior, recommendations one in the most likely model.
    """

    name = "planner"
    learned: ClassVar = (
        *("_before", "_after", "_shown", "_clicked", "_follows", "_kind_ids", "_kind_rows", "_counts"),
        *("_starts", "_expected", "_drawn", "draws"),
    )
    _before: Annotated[Float32Array, SINGLES]
    _after: Annotated[Float32Array, SINGLES]
    _clicked: Annotated[IntArray, FLAGS]

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
        claim(2 * self.memory * spec.user_dim + self.kinds * spec.product_dim)
        self._before = np.zeros((self.memory, spec.user_dim), np.float32)
        self._after = np.zeros((self.memory, spec.user_dim), np.float32)
        self._shown = np.zeros(self.memory, np.int64)
        self._clicked = np.zeros(self.memory, np.int8)
        self._follows = np.zeros(self.memory, np.int64)
        self._starts = np.zeros(0, np.int64)
        self._expected = np.zeros((0, 0))
        self._drawn = np.zeros((0, 0))

    def update(
        self,
        context: Context,
        action: int,
        reward: float,
        feedback: Mapping[str, Any] | None = None,
        next_context: Context | None = None,
    ) -> None:
        """Remember a decision and what followed, and plan anew when that is due."""
        request = checked_request(context, self.spec)
        chosen = checked_action(action, len(request.available))
        earned = checked_reward(reward, *self.rewards)
        following = None if next_context is None else checked_request(next_context, self.spec)
        self.attach(context)
        kind = self._number(context.products[chosen])
        follows = GOES
        if following is not None:
            follows = RETURNS if (feedback or {}).get("visit_ended") else STAYS
        if kind >= 0:
            place = int(self._counts[TAKEN]) % self.memory
            self._before[place] = request.user
            self._after[place] = 0.0 if following is None else following.user
            self._shown[place] = kind
            self._clicked[place] = earned > 0.0
            self._follows[place] = follows
            self._counts[TAKEN] += 1
        self._counts[GONE] += follows == GOES
        if self._counts[GONE] >= self._counts[DUE]:
            self._plan()

    def fit(self, log: PastLog, progress: Progress = lambda line: None) -> dict[str, float]:
        """Remember the newest logged decisions, and plan.

        Without lives in the log each decision is a visitor's last. Decisions of which nobody knows what followed are
        left out.
        """
        users = checked_past_features(log, self.spec).astype(np.float32)
        rows, next_rows, visit_ended = known_decisions(log)
        follows = np.where(next_rows < 0, GOES, np.where(visit_ended, RETURNS, STAYS))
        kinds = np.array([self._number(row) for row in log.products])[log.actions[rows]]
        taken = np.flatnonzero(kinds >= 0)[-self.memory :]
        # In the places that single decisions would have gone to.
        places = (int(self._counts[TAKEN]) + np.arange(len(taken))) % self.memory
        self._before[places] = users[rows[taken]]
        self._after[places] = np.where((follows[taken] == GOES)[:, np.newaxis], 0.0, users[next_rows[taken]])
        self._shown[places] = kinds[taken]
        self._clicked[places] = log.rewards[rows[taken]] > 0.0
        self._follows[places] = follows[taken]
        self._counts[TAKEN] += len(taken)
        self._counts[GONE] += int((follows == GOES).sum())
        progress(f"planning by {len(taken):,} decisions")
        self._plan()
        return {}

    def _plan(self) -> None:
        """Learn the model from all decisions that are held, and plan in it; say when the next plan is due."""
        self._set_next_plan()
        held = self._oldest_first()
        if not len(held):
            return
        follows = self._follows[held]
        before = self._before[held].astype(float)
        after = self._after[held].astype(float)
        self._starts = find_parts(np.vstack([before, after[follows != GOES]]))
        shown = self._shown[held]
        decisions = Decisions(before, after, shown, self._clicked[held] == 1, follows)
        products = self._kind_rows[: int(self._counts[KINDS])]
        rng = np.random.default_rng([int(self.draws.key[0]), int(self._counts[GONE])])
        plan = make_plan(decisions, self._starts, products, rng=rng)
        self._expected = plan.expected
        self._drawn = plan.drawn
        if not plan.kept.all():
            self._keep(held[plan.kept])
            self._counts[DUE] = min(int(self._counts[DUE]), int(self._counts[GONE]) + AFTER_CHANGE)

    def _keep(self, places: IntArray) -> None:
        """Forget all decisions but those in some places, which stand there in the order in which they were made."""
        for rows in (self._before, self._after, self._shown, self._clicked, self._follows):
            rows[: len(places)] = rows[places]
        self._counts[TAKEN] = len(places)

    def _values_of_kinds(self, request: CheckedRequest, plan: FloatArray) -> FloatArray | None:
        parts = values_of_parts(request.user[np.newaxis], self._starts)[0]
        if not plan.size or (parts < 0).any():
            return None
        values: FloatArray = plan[np.ravel_multi_index(tuple(parts), sizes_of(self._starts))]
        return values

    def _sized_as(self, saved: Mapping[str, Any]) -> Mapping[str, Any]:
        starts = saved_length(saved, "starts")
        sizes = {"starts": blank(np.int64, starts)}
        for name in ("expected", "drawn"):
            plan = saved.get(name)
            shape = plan.shape if isinstance(plan, np.ndarray) and plan.ndim == 2 else (0, 0)
            sizes[name] = blank(np.float64, *shape)
        return sizes

    def _state_flaws(self, values: Mapping[str, Any]) -> Iterator[str]:
        counts = values["counts"]
        starts = values["starts"]
        if counts[KINDS] > self.kinds:
            yield f"counts holds {counts[KINDS]} kinds, expected at most {self.kinds}"
        if len(starts) and (starts[0] != 0 or starts[-1] != self.spec.user_dim or (np.diff(starts) < 1).any()):
            yield "starts holds no rising numbers from 0 to the number of a visitor's features"
        else:
            states = int(np.prod(sizes_of(starts)))
            for name in ("expected", "drawn"):
                rows, kinds = values[name].shape
                if rows not in (0, states) or kinds > counts[KINDS]:
                    yield f"{name} has the shape {(rows, kinds)}, expected {states} states and {counts[KINDS]} kinds"
        if values["shown"].max() >= max(1, counts[KINDS]) or values["follows"].max() > GOES:
            yield "shown or follows holds a number that stands for nothing"
