"""Run simulated days: `python -m tests.simulation --seeds 1000:2000`; with `--trace`, say all that happens in them."""

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from tests.simulation.faults import Fault, Faults
from tests.simulation.run import Report, run_days


def main() -> None:
    """Print what came of the days; exit with 1 where something was violated, or a fault point never reached."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="0:20", help="A:B, B excluded [default: 0:20]")
    parser.add_argument("--jobs", type=int, default=1, help="processes [default: 1]")
    parser.add_argument("--least", type=int, default=0, help="times that each fault point must be reached [default: 0]")
    parser.add_argument("--trace", action="store_true", help="say what goes wrong, and when")
    options = parser.parse_args()
    first, stop = (int(part) for part in options.seeds.split(":"))
    with traced() if options.trace else silent():
        reports = Report()
        chunks = [range(start, min(start + 20, stop)) for start in range(first, stop, 20)]
        for seeds, report in zip(chunks, _reports(chunks, options.jobs), strict=True):
            reports.add(report)
            done = seeds[-1] + 1 - first
            print(
                f"{done:,} days, {reports.seconds / done:.2f} s of processor time each, "
                f"{len(reports.violations)} violations",
                flush=True,
            )
            for violation in report.violations:
                print(f"    {violation}", flush=True)
    counts = Counter({fault: reports.faults[fault] for fault in Fault})
    for fault, count in counts.most_common():
        print(f"{count:9,} {fault}")
    print(f"{reports.decisions:9,} decisions answered, {reports.feedbacks:,} feedbacks, {reports.rows:,} rows")
    rare = [fault for fault, count in counts.items() if count < options.least]
    if rare:
        print(f"reached less than {options.least} times: {', '.join(rare)}")
    if rare or reports.violations:
        sys.exit(1)


def _reports(chunks: list[range], jobs: int) -> Iterator[Report]:
    if jobs == 1:
        yield from map(run_days, chunks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_days, chunks)


@contextmanager
def silent() -> Iterator[None]:
    """Let services say nothing."""
    logging.getLogger("zoosim.serving").setLevel(logging.CRITICAL)
    yield


@contextmanager
def traced() -> Iterator[None]:
    """Print each fault and each line of a service's log."""
    note = Faults.note

    def note_and_say(faults: Faults, fault: Fault) -> None:
        print(f"{faults.now():10.3f} {fault}")
        note(faults, fault)

    Faults.note = note_and_say  # type: ignore[assignment, method-assign]
    logging.basicConfig(level=logging.INFO, format="           %(message)s", stream=sys.stdout)
    try:
        yield
    finally:
        Faults.note = note  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
