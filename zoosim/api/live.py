"""A page on which a run can be watched while it goes on."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from zoosim.core.errors import DataError

PAUSE = 0.1
"""Seconds after which Ctrl-C ends a page that stays, at most."""

if TYPE_CHECKING:
    from zoosim.api.runs import RunResult
    from zoosim.arena.plan import Plan
    from zoosim.arena.store import Trial, TrialKey
    from zoosim.live.server import PageServer
    from zoosim.report.live_run import RunFacts


class RunPage:
    """The live page of one run, for browsers on this machine, on a free port, from when the run begins.

    Use it as a context manager: once that is left nothing is answered any more.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        """Serve nothing yet.

        Args:
            say: Called with lines about where the page is.
        """
        self._say = say
        self._server: PageServer | None = None
        self._ending = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    def show(self, plan: "Plan", path: Path, trials: "Sequence[TrialKey]", jobs: int | None) -> None:
        """Serve the page, and say where.

        Args:
            plan: The run.
            path: Its folder; what that holds of the run is shown, too.
            trials: Trials that are to be computed.
            jobs: In how many processes, None for those of an executor.
        """
        from zoosim.arena.watching import RunFigures
        from zoosim.live.server import PageServer
        from zoosim.report.live_run import live_page, live_panels

        self._figures: RunFigures = RunFigures(plan, _finished(plan, path, trials), trials, jobs)
        facts = _facts(plan)
        self._server = PageServer(
            lambda: live_page(facts, self._figures.progress(), self._ending, time.time()),
            lambda: live_panels(facts, self._figures.progress(), self._ending),
        )
        self._say(f"Watch the run at {self._server.url}")

    def report(self, key: "TrialKey", visits: int, line: str) -> None:
        """Take in a report of a trial, as `zoosim.arena.trial.Report` does."""
        self._figures.report(key, visits, line, time.monotonic())

    def finish(self, result: "RunResult") -> None:
        """Show what came of the run."""
        failures = f" {len(result.failures)} trials failed." if result.failures else ""
        self._ending = f"The run is over. {result.verdict}{failures} The page of it lies in {result.path}."

    def stay(self) -> None:
        """Leave the page readable until Ctrl-C where somebody sits at a terminal; elsewhere return at once."""
        if self._server is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return
        self._say(f"The page stays at {self._server.url} until Ctrl-C")
        with suppress(KeyboardInterrupt):
            while True:
                # In short waits: a signal may reach another thread, and would not end a long one of this thread.
                time.sleep(PAUSE)


def _finished(plan: "Plan", path: Path, trials: "Sequence[TrialKey]") -> "dict[TrialKey, Trial]":
    """Return the trials of a run that its folder holds and that are not computed again."""
    from zoosim.arena.store import RunFolder, TrialKey

    folder = RunFolder(path)
    wanted = {TrialKey(entry.name, seed) for entry in plan.entries for seed in plan.seeds}.difference(trials)
    finished = {}
    for key in wanted.intersection(folder.trials()):
        with suppress(DataError):  # it was damaged just now; the run itself says so
            finished[key] = folder.read_whole_trial(key)
    return finished


def _facts(plan: "Plan") -> "RunFacts":
    """Return what the page says of a run that does not change."""
    from zoosim.action_spaces import find_action_space
    from zoosim.core.number_format import VISIT, VISITOR
    from zoosim.report.live_run import RunFacts

    world = plan.any_world
    spaces = [find_action_space(name) for name in world.action_spaces]
    unit = next((space.name.removesuffix("s") for space in spaces if space.column == "action"), "")
    return RunFacts(
        title=plan.experiment.title,
        question=plan.experiment.question,
        unit=unit,
        counted_by=VISITOR if world.episodic else VISIT,
        reward=world.reward_scale,
        shocks=[(shock.step, shock.name) for shock in plan.shocks],
        shocks_differ=world.shocks_differ,
    )
