"""Everything that a learner finds out for the console, read from the log row by row and kept beside its snapshots."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from zoosim.core.errors import DataError
from zoosim.core.files import atomic, read_content
from zoosim.policies.model import Model
from zoosim.serving.console.calibration import Calibration, Calibrations, load_calibrations
from zoosim.serving.console.series import Series, SeriesProjection, load_series, save_series
from zoosim.serving.events import Kind, Row
from zoosim.serving.forecasts.ledger import LedgerProjection, load_ledger
from zoosim.serving.forecasts.scores import Score
from zoosim.serving.launches.holdback import HoldbackMonitor, HoldbackReport, load_comparison
from zoosim.serving.replica import Replica

LEDGER, HOLDBACK, CALIBRATIONS = "ledger.json", "holdback.json", "calibrations.json"

Part = TypeVar("Part")


class Figures(msgspec.Struct, array_like=True):
    """What the console shows beside what the service itself knows.

    Attributes:
        series: What arms decided and earned over time.
        ledger: The forecasts, the oldest first.
        holdback: What the champion earns beside the holdback; None without one.
        calibrations: What policies predicted, and what came.
    """

    series: Series = msgspec.field(default_factory=Series)
    ledger: list[Score] = []
    holdback: HoldbackReport | None = None
    calibrations: list[Calibration] = []


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
        self._replica = replica
        self._complain = complain
        self._ledger = self._loaded_ledger()
        self._holdback = self._loaded_holdback()
        self._calibrations = Calibrations(replica, self._loaded(CALIBRATIONS, load_calibrations))

    def _weights(self) -> dict[str, float]:
        """Return the weight of each reward in the objective; none before the first start."""
        return dict(self._replica.champion.model.fitted.weights) if self._replica.arms else {}

    def _model(self, digest: str) -> Model | None:
        """Return the model of an arm by its digest; None where none has it."""
        arms = self._replica.arms.values()
        return next((arm.model for arm in arms if arm.origin.partition("/")[0] == digest), None)

    def _loaded(self, name: str, load: Callable[[bytes, int], Part]) -> Part | None:
        """Return what a file holds; None where there is none, or it cannot be read."""
        try:
            return load(read_content(self._folder / name), self._replica.position)
        except FileNotFoundError:
            return None
        except (OSError, DataError, ValueError, LookupError, TypeError, RecursionError) as error:
            self._complain(f"{name}: cannot be read ({error}); what the console shows of it begins here")
            return None

    def _loaded_ledger(self) -> LedgerProjection:
        loaded = self._loaded(LEDGER, load_ledger)
        ledger = LedgerProjection(self._model, loaded)
        if loaded is None and self._replica.start is not None:
            ledger.begin(self._replica.start, self._replica.position)
        return ledger

    def _loaded_holdback(self) -> HoldbackMonitor:
        monitor = HoldbackMonitor(self._weights, self._loaded(HOLDBACK, load_comparison), self._replica.position)
        if self._replica.start is not None:
            monitor.begin(self._replica.start)
        return monitor

    @property
    def position(self) -> int:
        """The row behind which it has to be told the log, so that it knows all of it."""
        return min(self._ledger.position, self._holdback.position)

    def apply(self, row: Row) -> None:
        """Read the next row, which the replica has read; those that it knows are passed over."""
        if row.kind is Kind.START:
            self._calibrations.follow()
        self._series.apply(row)
        self._ledger.apply(row)
        self._holdback.apply(row)

    def figures(self) -> Figures:
        """Return what the console shows."""
        return Figures(
            self._series.series, self._ledger.scores(), self._holdback.report(), self._calibrations.reports()
        )

    def save(self) -> None:
        """Write all of it, each file whole or not at all; raises `OSError`."""
        save_series(self._folder, self._series.series)
        contents = {
            LEDGER: self._ledger.saved(),
            HOLDBACK: self._holdback.saved(),
            CALIBRATIONS: msgspec.json.encode(self._calibrations.reports()),
        }
        for name, content in contents.items():
            with atomic(self._folder / name) as path:
                path.write_bytes(content)
