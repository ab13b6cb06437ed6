"""Answer made-up requests before visitors come, so that the first visitor waits for nothing that is done only once.

Nothing of it is stored or counted, and no state moves: who reads the log, or the state, sees no trace of it.
"""

import logging
from collections.abc import Iterator

import msgspec
import numpy as np

from zoosim.core.blame import one_line
from zoosim.core.types import frozen
from zoosim.policies.boost_model import BoostModel
from zoosim.policies.model import product_ids
from zoosim.serving.bodies import DecideBody, SearchBody, SearchVisitor, Value, hash_of
from zoosim.serving.catalogue import Candidates
from zoosim.serving.current import Current
from zoosim.serving.deciding import Decider
from zoosim.serving.events import pack

TRIAL = "trial"
"""The id of a made-up decision."""

VALUE = "2024-01-01T12:00:00Z"
"""What each column of a made-up visitor holds: a time for a column of times, else a level that nobody knows."""

logger = logging.getLogger("zoosim.serving")


def try_requests(current: Current, decider: Decider) -> None:
    """Decide, or rank, as for visitors, and pack the records and answers that would be stored and sent.

    What fails is told in a line of the service's log: visitors would be refused likewise.
    """
    try:
        if isinstance(current.model, BoostModel):
            _rank(current.model, decider)
        else:
            _decide(current, decider)
    except Exception as error:  # a policy of the user's own may raise anything
        logger.warning("a made-up request cannot be answered: %s", one_line(error))


def _decide(current: Current, decider: Decider) -> None:
    visitor: dict[str, Value] = dict.fromkeys(current.model.fitted.visitors.names, VALUE)
    for candidates in _candidates(current):
        body = DecideBody(visitor, list(candidates.names), count=min(2, len(candidates.names)))
        record, answer = decider.decide_among(candidates, (), body, hash_of(body), TRIAL)
        pack(record)
        msgspec.json.encode(answer)


def _candidates(current: Current) -> Iterator[Candidates]:
    """Yield a few products, then all of them; of a service without a catalogue two that are made up."""
    catalogue = current.catalogue
    everything = catalogue.everything()
    if not everything.names:
        names = ("a", "b")
        features = frozen(np.zeros((2, current.model.fitted.products.width)))
        yield Candidates(frozen(np.array([-1, -2])), names, product_ids(names), features)
        return
    yield catalogue.candidates(everything.versions[:2].tolist())
    yield everything


def _rank(model: BoostModel, decider: Decider) -> None:
    schema = model.requests.schema
    visitor = SearchVisitor(schema.segments[0], next(iter(schema.query_types)))
    body = SearchBody(visitor, dict.fromkeys(model.requests.names[: schema.k], 0.0))
    record, answer = decider.rank_now(body, hash_of(body), TRIAL)
    pack(record)
    msgspec.json.encode(answer)
