"""What moved a decision: each column of its visitor left out in turn."""

import asyncio
from pathlib import Path

import msgspec
import numpy as np

from tests.serving.shop import running
from zoosim.playground.world import COUNTRIES, liking, teach
from zoosim.serving.bodies import DecideBody
from zoosim.serving.console.influences import influences, what_moved
from zoosim.serving.events import ProductDecision, SearchDecision, unpack_floats


def test_columns_are_named_by_how_much_they_move_what_is_shown(tmp_path: Path) -> None:
    """`linear` learned that each country likes one product alone: nothing else than the country settles it."""
    model = teach(liking([0, 1, 2]), tmp_path / "model.zoosim")

    async def run() -> None:
        async with running(tmp_path / "service", model, exploration=0.0) as service:
            words = []
            for country in COUNTRIES:
                await service.decide(DecideBody({"country": country}, decision_id=country))
                _, drawn = await service.decision(country)
                assert isinstance(drawn, ProductDecision)
                first = int(np.argmax(unpack_floats(drawn.propensities)))
                choice = msgspec.structs.replace(drawn, shown=[first])  # whatever was tried out
                words.append(what_moved(service.current, choice))
            assert all("; it expects " in each for each in words)
            # Of nobody's country one of the three products is shown, and no other one as often.
            assert sum("; without country in " in each for each in words) == 2
            (influence,) = influences(service.current.champion, choice, np.array(unpack_floats(choice.visitor)))
            assert influence.column == "country"
            await service.decide(DecideBody({}, decision_id="nothing known"))
            _, blank = await service.decision("nothing known")
            assert "without" not in what_moved(service.current, blank)
            forgotten = msgspec.structs.replace(choice, request=b"")
            assert what_moved(service.current, forgotten) == "of such a decision that is not said"
            other = msgspec.structs.replace(choice, model="e" * 32)
            assert what_moved(service.current, other) == "the model that decided cannot be asked any more"
            search = SearchDecision(b"r", "m", 0, "v", {}, [], b"", b"", None, [], False)
            assert what_moved(service.current, search) == "of such a decision that is not said"

    asyncio.run(run())
