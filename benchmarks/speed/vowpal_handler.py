"""A policy of Vowpal Wabbit behind a plain handler: it parses, decides, learns and answers, and keeps nothing.

python -m benchmarks.speed.vowpal_handler PORT
"""

import random
import sys
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from vowpalwabbit import Workspace

from benchmarks.speed.shop import category_of
from zoosim.serving.bodies import DecideBody, FeedbackBody

ARGUMENTS = "--cb_explore_adf --epsilon 0.05 --interactions vp --quiet"
"""Its contextual bandit with its usual exploration, and features of visitors times those of products."""


class Bandit:
    """Decides by Vowpal Wabbit, and learns what a decision earned when that is told."""

    def __init__(self) -> None:
        self._workspace = Workspace(ARGUMENTS)
        self._rng = random.Random(0)
        self._waiting: dict[str, tuple[list[str], int, float]] = {}

    def decide(self, body: DecideBody) -> dict[str, Any]:
        """Return an answer as the service gives it."""
        names = [str(candidate) for candidate in body.candidates or []]
        visitor = " ".join(f"{name}:{value}" for name, value in body.visitor.items())
        lines = [f"shared |v {visitor}", *(f"|p c{category_of(name)} {name}" for name in names)]
        chances = self._workspace.predict(lines)
        (place,) = self._rng.choices(range(len(names)), chances)
        decision_id = f"{self._rng.getrandbits(64):x}"
        self._waiting[decision_id] = lines, place, chances[place]
        return {
            "decision_id": decision_id,
            "shown": [{"product": names[place], "propensity": chances[place]}],
            "propensities": dict(zip(names, chances, strict=True)),
        }

    def learn(self, decision_id: str, reward: float) -> None:
        """Learn what a decision earned, once."""
        lines, place, chance = self._waiting.pop(decision_id)
        lines[1 + place] = f"0:{-reward}:{chance} {lines[1 + place]}"
        self._workspace.learn(lines)


def main(port: int) -> None:
    """Serve until killed."""
    bandit = Bandit()
    read_decide = msgspec.json.Decoder(DecideBody).decode
    read_feedback = msgspec.json.Decoder(FeedbackBody).decode
    encode = msgspec.json.Encoder().encode

    async def decide(request: Request) -> Response:
        answer = bandit.decide(read_decide(await request.body()))
        return Response(encode(answer), media_type="application/json")

    async def give_feedback(request: Request) -> Response:
        body = read_feedback(await request.body())
        bandit.learn(request.path_params["id"], sum(body.rewards.values()))
        return Response(encode({"status": "accepted"}), media_type="application/json")

    routes = [
        Route("/v1/decisions", decide, methods=["POST"]),
        Route("/v1/decisions/{id}/feedback", give_feedback, methods=["POST"]),
    ]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="error", access_log=False)


if __name__ == "__main__":
    main(int(sys.argv[1]))
