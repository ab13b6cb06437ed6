"""What was forecast of models, and what came."""

import os
from typing import Any

from zoosim.core.calls import public_call
from zoosim.core.errors import DataError
from zoosim.core.extras import needs_extra

TIMEOUT = 60.0
"""Seconds within which a service has to answer, which reads its whole log for that."""


@public_call
def forecasts(source: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return what was forecast of models, and what came of it in the log of a service.

    Args:
        source: The folder of a service, the address of its log (`redis://...`), the URL where it listens, whose key is
            read from the variable `ZOOSIM_SERVE_KEY`; or the file of a model, of which nothing is scored.

    Returns:
        A mapping per forecast, the oldest first: `forecast`, `outcome`, the `decisions` that count so far, what `came`
        with its standard `error`, the `reason` where it cannot be told, and all of it as a `sentence`.

    Raises:
        DataError: there is no log and no model, or it cannot be read.
        ServiceError, StoreError: the service or the server of the log does not answer.
    """
    from zoosim.policies.model import SUFFIX, model_digest

    needs_extra("forecasts", "serve")
    from zoosim.serving.forecasts.kept import forecasts_of_file
    from zoosim.serving.forecasts.report import scores_in
    from zoosim.serving.forecasts.scores import EARLY, Score
    from zoosim.serving.store.address import find_log

    text = os.fspath(source)
    if text.startswith(("http://", "https://")):
        from zoosim.serving.client import KEY, Client

        with Client(text, os.environ.get(KEY, ""), TIMEOUT) as client:
            return client.forecasts()
    if text.endswith(SUFFIX):
        kept = forecasts_of_file(text, model_digest(text))
        return [Score(each.plain, EARLY, reason="no decision is logged").as_dict() for each in kept]
    address = find_log(text)
    if address is None:
        expected = "the folder of a service, redis://HOST:PORT/DB?name=LOOP, the URL of a service, or MODEL.zoosim"
        raise DataError(f"forecasts: got {text!r}, expected {expected}")
    return [score.as_dict() for score in scores_in(address)]
