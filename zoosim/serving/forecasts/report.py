"""The forecasts in a log, each with what came, from its first row to its newest one."""

from functools import cache

from zoosim.serving.folder import Models
from zoosim.serving.forecasts.ledger import LedgerProjection
from zoosim.serving.forecasts.scores import Score
from zoosim.serving.projection import rows_of
from zoosim.serving.served_log import opened_log
from zoosim.serving.store.address import Address


def scores_in(address: Address) -> list[Score]:
    """Return the forecasts in a log, each with what came of it; raises as reading the log does."""
    with opened_log(address) as (store, folder):
        ledger = LedgerProjection(cache(Models(folder, store).load))
        # Up to here alone: a service that goes on could append as fast as this reads.
        newest = store.last()
        for row in rows_of(store, until=0 if newest is None else newest.seq):
            ledger.apply(row)
    return ledger.scores()
