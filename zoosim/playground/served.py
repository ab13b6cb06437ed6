"""The process of a service in simulated time: `python -m zoosim.playground.served`, and a job as JSON on its input.

It ends when its input does, so that no service is left behind by a playground that was killed.

No setting of `zoosim serve` changes the time of a service, so none that decides for visitors can run in another one.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from zoosim.core.errors import ZoosimError


class ServedJob(msgspec.Struct):
    """Which service to run: the file of its time, that of its model if it has one, and its settings."""

    time: str
    model: str | None
    settings: dict[str, Any]


def main() -> None:
    """Run a service until SIGTERM or Ctrl-C; exit code 2 and a line where it cannot start."""
    from zoosim.playground.clock import SharedTime, SimulatedClock
    from zoosim.serving.machine import Machine
    from zoosim.serving.server import serve
    from zoosim.serving.settings import read_settings

    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=ServedJob)
    threading.Thread(target=_end_with_input, name="playground watcher", daemon=True).start()
    machine = Machine(SimulatedClock(SharedTime(Path(job.time))))
    try:
        settings = read_settings(None, {}, job.settings)
        serve(settings, None if job.model is None else Path(job.model), _announce, machine)
    except ZoosimError as error:
        print(f"playground: {error}", file=sys.stderr)
        sys.exit(2)


def _end_with_input() -> None:
    """End this process as SIGTERM does once its input ends."""
    # Not by `sys.stdin`, whose lock would be held at the interpreter's end.
    while os.read(0, 1_024):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


def _announce(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
