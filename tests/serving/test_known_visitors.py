"""A service tells policies who comes: decisions and rewards of a visitor meet under one number, which is a hash."""

from pathlib import Path
from typing import Any

import pytest

from tests.serving.shop import make_model
from tests.serving.test_unconfirmed import Learner, with_learner
from zoosim.core.types import NOBODY, Context
from zoosim.policies.products.visitor_linear import VisitorLinUCB
from zoosim.serving.bodies import DecideBody, FeedbackBody
from zoosim.serving.ids import user_id_of
from zoosim.serving.service import Service


def test_what_is_learned_of_a_visitor_is_that_of_the_visitors_decisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    propensities = VisitorLinUCB.propensities

    def watched(policy: VisitorLinUCB, context: Context) -> Any:
        asked.append(context.user_id)
        return propensities(policy, context)

    async def use(service: Service, learner: Learner) -> None:
        asked.clear()  # of the service's own trials
        for visitor_id in ("ann", "", "ann", "bob"):
            answer = await service.decide(DecideBody({"country": "de"}, visitor_id=visitor_id))
            await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
        await service.tick()
        learner.tell()
        ann, bob = user_id_of("ann"), user_id_of("bob")
        assert asked == [ann, NOBODY, ann, bob]
        policy = service.model.policy
        assert isinstance(policy, VisitorLinUCB)
        visitors = policy.state.visitors
        counts = dict(zip(visitors.table.ids.tolist(), visitors.counts.tolist(), strict=True))
        assert {number: count for number, count in counts.items() if count} == {ann: 2, bob: 1}

    monkeypatch.setattr(VisitorLinUCB, "propensities", watched)
    with_learner(tmp_path, make_model(tmp_path / "shop", "visitor-linucb"), use)
