"""Rows as a service writes them, made by hand."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from zoosim.core.durations import MICROSECONDS
from zoosim.serving.events import (
    CHAMPION,
    Arm,
    Feedback,
    Kind,
    ProductDecision,
    Row,
    Start,
    activation_key,
    decision_key,
    feedback_key,
    pack,
    start_key,
)
from zoosim.serving.rules import Rules

WAIT = 600.0
TIME = 1_700_000_000 * MICROSECONDS


class Log:
    """Rows as a service writes them."""

    def __init__(self, **rules: Any) -> None:
        self._rules = Rules(wait=WAIT, **rules)
        self._positions: Iterator[int] = count(1)
        self._time = TIME
        self.rows: list[Row] = []

    def wait(self, seconds: float) -> None:
        self._time += round(seconds * MICROSECONDS)

    def start(self, changes: bytes = b"{}", role: str = "challenger", **arms: float) -> Start:
        rules = self._rules.model_dump_json().encode()
        listed = [Arm(name, "digest", share, role, 1) for name, share in arms.items()]
        start = Start("digest", rules, changes=changes, arms=listed, who="maya", why="a start")
        self._add(Kind.START, start_key(1), pack(start))
        return start

    def decide(self, decision_id: str, arm: str = CHAMPION, shown: str = "a", chance: float = 0.5, **more: Any) -> None:
        products = more.pop("products", [shown])
        decision = ProductDecision(
            **{
                "request": b"request", "model": "digest", "state": 0, "visitor_id": "", "visitor": b"",
                "versions": bytes(16), "propensities": bytes(16), "shown": [*range(len(products))], "chances": [chance],
                "deferred": False, "products": products, "arm": arm, **more,
            }
        )  # fmt: skip
        self._add(Kind.DECISION, decision_key(decision_id), pack(decision))

    def earn(self, decision_id: str, value: float = 1.0, name: str = "click", slot: int = 0) -> None:
        self._add(Kind.FEEDBACK, feedback_key(decision_id, f"{name}{slot}"), pack(Feedback({name: value}, slot)))

    def activate(self, decision_id: str) -> None:
        self._add(Kind.ACTIVATION, activation_key(decision_id), b"")

    def tick(self) -> None:
        self._add(Kind.TICK, None, b"")

    def _add(self, kind: Kind, key: bytes | None, body: bytes) -> None:
        self.rows.append(Row(next(self._positions), self._time, kind, key, body))
