"""Serve a model, and write at the end where its processor time went: `python profiled_service.py STORE MODEL OUT`.

At every millisecond of processor time the stack of the main thread is looked at; the time of that thread since the last
look counts for the step to which the innermost frame of a step belongs. Time of other threads counts apart.
"""

import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from zoosim.serving.server import serve
from zoosim.serving.settings import Settings

INTERVAL = 0.001
OTHER, THREADS = "other", "log writer and other threads"

STEPS = {
    "note the decision": ("serving/unconfirmed.py:note", "serving/current.py:note_decision"),
    "take in what was learned": ("serving/current.py:take", "serving/publishing.py"),
    "HTTP": ("/uvicorn/", "/starlette/", "serving/protocol.py", "serving/origins.py", "serving/direct_routes.py"),
    "read the body, write the answer": ("serving/application.py", "serving/requests.py", "serving/metrics.py"),
    "compare with the schema": ("serving/inputs.py", "schema/deviations.py", "serving/unexpressed.py"),
    "encode": ("zoosim/schema/",),
    "find candidates": ("serving/products.py", "serving/catalogue.py", "serving/described.py"),
    "derive from candidates": ("policies/candidates.py", "adaptive.py:_candidates", "adaptive_state.py"),
    "policy": ("zoosim/policies/",),
    "draw": ("serving/ranker.py", "serving/arms.py", "endpoints/products.py:_mixture"),
    "record and answer": ("serving/endpoints/", "serving/events.py"),
    "hash of the request": ("serving/bodies.py:hash_of",),
    "hand over to the log": ("serving/writer.py", "serving/machine.py"),
}
"""Steps of a decision, each with parts of "FILE:FUNCTION" of its frames. Of a frame the first step counts that fits."""

OUTER_STEPS = ("note the decision", "take in what was learned")
"""Steps to which all belongs that they call."""


class Sampler:
    """Samples the main thread by processor time."""

    def __init__(self) -> None:
        self._step_of: dict[str, str] = {}
        self._begin()
        signal.signal(signal.SIGUSR1, lambda number, frame: self._begin())
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)

    def seconds(self) -> dict[str, float]:
        """Return the processor time by step since the last SIGUSR1."""
        process = time.process_time() - self._process_began
        return {**self._seconds, THREADS: process - (time.thread_time() - self._thread_began)}

    def _begin(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._looked_at = self._thread_began = time.thread_time()
        self._process_began = time.process_time()

    def _look(self, number: int, frame: FrameType | None) -> None:
        now = time.thread_time()
        self._seconds[self._step_at(frame)] += now - self._looked_at
        self._looked_at = now

    def _step_at(self, frame: FrameType | None) -> str:
        steps = [self._step_of_frame(each) for each in _outwards(frame)]
        outer_steps = [step for step in steps if step in OUTER_STEPS]
        return next((step for step in (*outer_steps, *steps) if step != OTHER), OTHER)

    def _step_of_frame(self, frame: FrameType) -> str:
        place = f"{frame.f_code.co_filename}:{frame.f_code.co_name}"
        if place not in self._step_of:
            fitting = (step for step, parts in STEPS.items() if any(part in place for part in parts))
            self._step_of[place] = next(fitting, OTHER)
        return self._step_of[place]


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame, the one that called it, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def main() -> None:
    """Serve until SIGTERM."""
    store, model, out = sys.argv[1:]
    sampler = Sampler()
    # Nothing is turned away: what is measured is what a decision costs.
    settings = Settings(store=f"sqlite:{store}", port=0, wait=5.0, most_delay=60.0)
    serve(settings, Path(model), lambda line: print(line, flush=True))
    Path(out).write_text(json.dumps(sampler.seconds()))


if __name__ == "__main__":
    main()
