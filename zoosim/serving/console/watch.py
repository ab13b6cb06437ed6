"""Everything that a learner finds out for the console, read from the log row by row and kept beside its snapshots."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from zoosim.core.errors import DataError
from zoosim.core.files import atomic, read_content
from zoosim.serving.console.ledger import LedgerProjection, Scored, load_ledger
from zoosim.serving.console.series import Series, SeriesProjection, load_series, save_series
from zoosim.serving.events import Row
from zoosim.serving.replica import Replica

LEDGER = "ledger.json"


class Figures(msgspec.Struct, array_like=True):
    """What the console shows beside what the service itself knows.

    Attributes:
        series: What arms decided and earned over time.
        ledger: The forecasts, the oldest first.
    """

    series: Series = msgspec.field(default_factory=Series)
    ledger: list[Scored] = []


class ConsoleWatch:
    """Follows the log for the console."""

    def __init__(self, folder: Path, replica: Replica, complain: Callable[[str], None]) -> None:
        """Go on from what was saved; what cannot be read begins anew, as the log holds all.

        Args:
            folder: The folder of snapshots.
            replica: What was learned so far.
            complain: Called with a line where something cannot be read.
        """
        self._folder = folder
        self._series = SeriesProjection(load_series(folder, replica.position))
        self._ledger = self._loaded_ledger(replica, complain)

    def _loaded_ledger(self, replica: Replica, complain: Callable[[str], None]) -> LedgerProjection:
        def weights() -> dict[str, float]:
            return dict(replica.champion.model.fitted.weights) if replica.arms else {}

        try:
            return LedgerProjection(weights, load_ledger(read_content(self._folder / LEDGER), replica.position))
        except FileNotFoundError:
            pass
        except (OSError, DataError, ValueError, LookupError, TypeError, RecursionError) as error:
            complain(f"{LEDGER}: cannot be read ({error}); forecasts are followed from here on")
        ledger = LedgerProjection(weights)
        if replica.start is not None:
            ledger.begin(replica.start, replica.position)
        return ledger

    @property
    def position(self) -> int:
        """The row behind which it has to be told the log, so that it knows all of it."""
        return self._ledger.position

    def apply(self, row: Row) -> None:
        """Read the next row; those that it knows are passed over."""
        self._series.apply(row)
        self._ledger.apply(row)

    def figures(self) -> Figures:
        """Return what the console shows."""
        return Figures(self._series.series, self._ledger.scores())

    def save(self) -> None:
        """Write all of it, each file whole or not at all; raises `OSError`."""
        save_series(self._folder, self._series.series)
        with atomic(self._folder / LEDGER) as path:
            path.write_bytes(self._ledger.saved())
