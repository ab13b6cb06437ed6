"""The learner of a log: it reads the log, learns, tells who decides what changed, and writes snapshots."""

import gc
import logging
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from zoosim.core.errors import DataError, StoreError
from zoosim.serving.arm_replica import GONE
from zoosim.serving.console.watch import ConsoleWatch, Figures
from zoosim.serving.events import CHAMPION, Kind, Row, start_key, without_gap
from zoosim.serving.floors import FloorWatch
from zoosim.serving.folder import SNAPSHOTS, Models, prepare_model
from zoosim.serving.join import BEYOND_BOUND
from zoosim.serving.launches.monitor import LaunchMonitor
from zoosim.serving.launches.report import LaunchReport
from zoosim.serving.launches.state import launch_in
from zoosim.serving.machine import Machine
from zoosim.serving.projection import ROWS_AT_ONCE
from zoosim.serving.publishing import News, Publisher, encode
from zoosim.serving.replica import Replica
from zoosim.serving.shadows.watch import ShadowWatch
from zoosim.serving.shop_rules.history import VISITOR_ROWS
from zoosim.serving.snapshots import newest_replica, write_snapshot
from zoosim.serving.store.address import Address
from zoosim.serving.store.base import LostRows, Store

SECONDS_BETWEEN_MESSAGES = 0.1
"""Between two messages to the ranker, at least."""

MOST_BETWEEN_MESSAGES = 1.0
"""Seconds after which the next message goes out, however long the last one took."""

MESSAGE_SHARE = 0.01
"""Share of the time that messages may take, unless the pause would be longer than that.

Each compares the whole state, and whoever gets it works as long on it.
"""

SECONDS_BETWEEN_REPORTS = 1.0
"""Between two reports on a launch, and on what the log holds over time, which take milliseconds."""

PAUSE = 0.01
"""Seconds between two looks at a log whose end was reached."""

SECONDS_BETWEEN_TRIES = 0.2
"""Between two tries to read a log that cannot be read."""

ROWS_PER_SNAPSHOT = 10_000

MOST_VISITOR_ROWS = 10_000
"""Rows on visitors that one message holds, the newest: a learner that begins reads many that the ranker knows. One that
lacks others reads the log."""

ROWS_OF_SILENCE = 20_000
"""Rows that are read again at a start, to know how much feedback is usual."""

Answer = TypeVar("Answer")

logger = logging.getLogger("zoosim.serving")


class LearnerJob(NamedTuple):
    """Job of a learner: the address of the log, and seconds between snapshots."""

    store: Address
    snapshot: float


class Ranker(Protocol):
    """The ranker that a learner works for, as the learner sees it.

    Attributes:
        wants_whole: Whether the next message is to hold the whole state.
    """

    wants_whole: bool

    def send(self, content: bytes) -> None:
        """Send a message."""
        ...

    def wants_stop(self) -> bool:
        """Return whether the ranker is gone, or said stop."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait."""
        ...


class LogLearner:
    """Reads the log row by row; at each tick it learns what is over, and publishes."""

    def __init__(self, job: LearnerJob, ranker: Ranker, machine: Machine) -> None:
        """Open the log, and begin with the newest snapshot.

        Args:
            job: What to do.
            ranker: For whom.
            machine: What it runs on.
        """
        self._job = job
        self._ranker = ranker
        self._passed = machine.clock.passed
        self._folder = job.store.folder
        store = self._insist(lambda: machine.open_store(job.store, True))
        self._store: Store = store
        # Before snapshots are looked for: on a new machine those that another service shared are all there are.
        self._insist(lambda: store.fetch(self._folder))
        models = Models(self._folder, store)
        self._replica: Replica = newest_replica(
            self._folder / SNAPSHOTS,
            lambda digest: self._insist(lambda: models.load(digest)),
            lambda seqs: self._insist(lambda: store.rows(seqs)),
            _complain,
        )
        self._gone_before = self._gone_already()
        self._monitor = LaunchMonitor(lambda: self._replica.champion.model.fitted.weights)
        self._console = ConsoleWatch(self._folder / SNAPSHOTS, self._replica, _complain)
        self._shadows = ShadowWatch(
            self._replica,
            lambda after: self._insist(lambda: store.read(after, ROWS_AT_ONCE)),
            lambda key: self._insist(lambda: store.find(key)),
            lambda seqs: self._insist(lambda: store.rows(seqs)),
            self._passed,
        )
        # Models stay for as long as this process lives, so no collection need look through them.
        gc.freeze()
        # Empty, so that the first message of each arm is whole: a new learner does not know what the ranker has.
        self._publishers: dict[str, Publisher] = {}
        self._saved_at = self._passed()
        self._saved_position = self._replica.position
        self._rows: list[Row] = []
        self._visitor_rows: deque[Row] = deque()
        self._untold = 0  # the newest row on visitors that no message holds, as there were too many
        self._newest: Row | None = None
        self._published = self._replica.position
        # So that a first message goes out even where no row follows the snapshot: the ranker waits for it before it
        # announces that it serves.
        self._is_new = True
        self._published_at = -math.inf
        self._pause = SECONDS_BETWEEN_MESSAGES
        self._reported = -1
        self._reported_at = -math.inf
        self._bounded = 0
        self._floors = FloorWatch()

    def run(self) -> None:
        """Read, learn and publish until told to stop."""
        self.begin()
        while True:
            rows_read = self.step()
            if self._ranker.wants_stop():
                break
            # Also where there was something: a look costs as much as some rows do, and finds those of a pause together.
            if rows_read < ROWS_AT_ONCE - 1:
                self._ranker.wait(PAUSE)
        self.end()

    def begin(self) -> None:
        """Read the log to its end, and get ready to learn the first reward as soon as the others."""
        self._read_launch()
        # To its end before anything is told: the ranker may have a later state than the snapshot, from a learner that
        # was killed, and must not go back to what this one knows on its way.
        while self.catch_up() >= ROWS_AT_ONCE - 1:  # one of which may be the newest row of before
            continue
        for arm in self._replica.arms.values():
            prepare_model(arm.model)

    def _gone_already(self) -> int:
        """Return how many decisions are gone, or will be once they are over, as the log lacks their rows already."""
        open_rows = [seq for arm in self._replica.arms.values() for seq in arm.join.open_rows()]
        first = self._insist(lambda: self._store.read(0, 1)) if open_rows else []
        return self._replica.count_of(GONE) + sum(seq < first[0].seq for seq in open_rows if first)

    def _read_launch(self) -> None:
        """Read again what a launch has earned up to the snapshot, how much feedback is usual, and for the console."""
        position = self._replica.position
        after = min(max(position - ROWS_OF_SILENCE, 0), self._console.position)
        launch = None if self._replica.start is None else launch_in(self._replica.start)
        if launch is not None and launch.is_running:
            begin = self._insist(partial(self._store.find, start_key(launch.number)))
            after = 0 if begin is None else min(after, begin.seq - 1)  # the log may not reach back that far
        while after < position and (rows := self._insist(partial(self._store.read, after, ROWS_AT_ONCE))):
            for row in rows:
                if row.seq <= position:
                    self._monitor.apply(row)
                    self._console.apply(row)
            after = rows[-1].seq
        if self._replica.start is not None and self._monitor.launch != launch:
            self._monitor.begin(self._replica.start)

    def step(self) -> int:
        """Learn from what is new in the log, tell the ranker, and write a snapshot, where due; return the rows read."""
        rows_read = self.catch_up()
        self._shadows.step()
        if self._message_is_due():
            self._publish()
            self._tell_of_bounds()
            self._floors.look(self._replica.arms.values())
        if self._snapshot_is_due():
            self._save()
        return rows_read

    def end(self) -> None:
        """Write a last snapshot, which holds all that the ranker stored before it said stop."""
        while self.catch_up():
            continue
        if self._replica.position > self._saved_position:
            self._save()

    def close(self) -> None:
        """Let go of the log."""
        self._store.close()

    def catch_up(self) -> int:
        """Read what is new in the log; return how many rows it was."""
        rows = self._new_rows()
        for row in without_gap(rows, self._replica.position + 1):
            self._replica.apply(row)
            # Other learners have learned of these, and the service that removed them shared a snapshot that has.
            if row.kind is Kind.TICK and self._replica.count_of(GONE) > self._gone_before:
                raise DataError("log of the service: decisions were removed before they were learned")
            self._monitor.apply(row)
            self._console.apply(row)
            self._newest = row
            # Handed on with the next message, so that the ranker need not read the log once more for these few rows.
            if row.kind in (Kind.START, Kind.PRODUCT):
                self._rows.append(row)
            elif row.kind in VISITOR_ROWS and self._tells_of_visitors():
                self._visitor_rows.append(row)
                if len(self._visitor_rows) > MOST_VISITOR_ROWS:
                    self._untold = self._visitor_rows.popleft().seq
            if self._replica.position - self._saved_position >= ROWS_PER_SNAPSHOT:
                self._save()
        return len(rows)

    def _tells_of_visitors(self) -> bool:
        """Return whether the ranker counts what visitors of other services of the log see and buy, too."""
        return bool(self._job.store.server) and self._replica.champion.rules.shop_rules.needs_history

    def _new_rows(self) -> list[Row]:
        """Return the rows behind what was read; raises `LostRows` where the log does not have that any more."""
        newest = self._newest
        if newest is None:
            return self._insist(lambda: self._store.read(self._replica.position, ROWS_AT_ONCE))
        # The newest row that was learned is read again with each look. On a server that lost rows, others may stand at
        # their positions by now: rows behind would then be learned on top of a history that never was.
        rows = self._insist(lambda: self._store.read(newest.seq - 1, ROWS_AT_ONCE))
        if rows and rows[0].seq > newest.seq:
            raise DataError(f"log of the service: row {newest.seq:,} was removed before it was learned")
        if not rows or rows[0][:3] != newest[:3]:  # its key and its body change where a visitor is forgotten
            raise LostRows(newest.seq)
        return rows[1:]

    def _publish(self) -> None:
        began_at = self._passed()
        arms = self._replica.arms
        # A publisher knows what its last message said, and tells the difference. Without it all is told.
        publishers = {} if self._ranker.wants_whole else self._publishers
        self._ranker.wants_whole = False
        self._publishers = {name: publishers.get(name) or Publisher() for name in arms}
        report: LaunchReport | None = None
        figures: Figures | None = None
        if self._report_is_due():
            report = self._monitor.report()
            figures = self._console.figures()
            self._reported = self._replica.position
            self._reported_at = self._passed()
        shadows = self._shadows.reports()
        for name, arm in arms.items():
            news = News(
                # A ranker that has not read so far reads the log itself.
                after=max(self._published, self._untold),
                position=self._replica.position,
                origin=arm.origin,
                # The champion's message comes first, and is the only one of which these are read.
                rows=sorted([*self._rows, *self._visitor_rows]) if name == CHAMPION else self._rows,
                counts={**arm.join.counts, **arm.counts, "open": len(arm.join)},
                due=self._replica.due(),
                time=0 if self._newest is None else self._newest.time,
                arm=name,
                last_feedback=self._monitor.last_feedback,
                silence=self._monitor.silence() if name == CHAMPION else None,
                launch=report if name == CHAMPION else None,
                console=figures if name == CHAMPION else None,
                shadows=shadows if name == CHAMPION else None,
            )
            self._ranker.send(encode(self._publishers[name].message(arm.model.policy, news)))
        self._rows = []
        self._visitor_rows.clear()
        self._is_new = False
        self._published = self._replica.position
        self._published_at = self._passed()
        pause = (self._published_at - began_at) / MESSAGE_SHARE
        self._pause = max(SECONDS_BETWEEN_MESSAGES, min(pause, MOST_BETWEEN_MESSAGES))

    def _report_is_due(self) -> bool:
        is_new = self._reported != self._replica.position
        return is_new and self._passed() - self._reported_at >= SECONDS_BETWEEN_REPORTS

    def _tell_of_bounds(self) -> None:
        """Say that visitors are bounded, and again once it is ten times as much."""
        bounded = sum(arm.join.counts[BEYOND_BOUND] for arm in self._replica.arms.values())
        if bounded > 10 * self._bounded:
            _complain(
                f"{bounded:,} decisions are logged, and not learned, since their visitors decide far more often "
                "than others (per_visitor)"
            )
            self._bounded = bounded

    def _message_is_due(self) -> bool:
        # A report is due once more after the last rows of a busy time: the one before it may lack some of them.
        has_report = self._report_is_due() or self._shadows.has_news
        is_new = self._is_new or self._published != self._replica.position or has_report
        if not is_new or self._replica.start is None:
            return False
        # What was said of products, models and rules goes for all services of the log: that waits for no pause.
        pause = SECONDS_BETWEEN_MESSAGES if self._rows else self._pause
        return self._passed() - self._published_at >= pause

    def _snapshot_is_due(self) -> bool:
        is_old = self._passed() - self._saved_at > self._job.snapshot
        return is_old and self._replica.position > self._saved_position

    def _save(self) -> None:
        try:
            write_snapshot(self._folder / SNAPSHOTS, self._replica)
            self._console.save()
        except OSError as error:
            _complain(f"snapshot: cannot be written ({error.strerror}); the log holds all")
        # Also after a failure, so that a full disk is tried again after as long, and not with every row.
        self._saved_at = self._passed()
        self._saved_position = self._replica.position

    def _insist(self, ask: Callable[[], Answer]) -> Answer:
        """Return what a store answers, asked until it does; raises `EOFError` once the ranker wants a stop.

        What was begun with the rows of a tick cannot be begun anew, so a store that fails in its midst must be waited
        for.
        """
        has_complained = False
        while True:
            try:
                return ask()
            except StoreError as error:
                if not has_complained:
                    _complain(str(error))
                has_complained = True
            if self._ranker.wants_stop():
                raise EOFError
            self._ranker.wait(SECONDS_BETWEEN_TRIES)


def _complain(line: str) -> None:
    logger.warning(line)
