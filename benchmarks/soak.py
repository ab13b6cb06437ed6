"""Run a service under a steady load, and watch what must not grow: `python -m benchmarks.soak --minutes 60`.

Each minute prints the memory of both processes, the size of the log and of what SQLite has yet to move into it, and the
number of open files. It ends with the growth of memory over the last ten minutes, and exit code 1 above 1 MB.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.speed.serving import make_model, send
from tests.serving.process import ServiceProcess, serving
from zoosim.serving.store.address import LOG

DECISIONS, FEEDBACKS = 60, 20
MOST_GROWTH = 1.0
"""Megabytes by which a process may grow in ten minutes."""


def main() -> None:
    """Print how a service fares, minute by minute."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(folder / "service", make_model(folder, "adaptive"), wait=5.0) as service:
            growth = watch(service, minutes)
            service.stop()  # its learner, too, which would write into a folder that is being removed
    print(f"growth of the service and of its learner in the last ten minutes: {growth[0]:.2f} and {growth[1]:.2f} MB")
    sys.exit(int(max(growth) > MOST_GROWTH))


def watch(service: ServiceProcess, minutes: int) -> tuple[float, float]:
    """Load a service, and return by how many megabytes each process grows in ten minutes: the slope of the last ten."""
    began = time.monotonic()
    memory: list[tuple[float, float]] = []
    for minute in range(minutes):
        load = asyncio.run(send(service.url, DECISIONS, FEEDBACKS, 60))
        processes = service.pid, service.learner()
        memory.append((resident(processes[0]), resident(processes[1])))
        sizes = [size_of(service.folder / name) / 1e6 for name in (LOG, f"{LOG}-wal")]
        files = [len(os.listdir(f"/proc/{process}/fd")) for process in processes]
        print(
            f"{(time.monotonic() - began) / 60:.0f} min: {load.line('decide')}; memory {memory[minute][0]:.1f} and "
            f"{memory[minute][1]:.1f} MB; log {sizes[0]:.0f} MB, beside it {sizes[1]:.0f} MB; open files {files}",
            flush=True,
        )
    recent = np.array(memory[-10:])
    slopes = np.polyfit(np.arange(len(recent)), recent, 1)[0] * 10
    return float(slopes[0]), float(slopes[1])


def resident(process: int) -> float:
    """Return how many megabytes of memory a process has."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def size_of(path: Path) -> int:
    """Return the size of a file, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


if __name__ == "__main__":
    main()
