"""Run the benchmarks named, or all that take minutes (`python -m benchmarks S1 Q1`). Timings want a machine at rest."""

import sys
from collections.abc import Callable

from benchmarks.quality import boost_courses, faithful, from_logs, guardrail, search_templates
from benchmarks.speed import command_line, decision, gauntlet, neural, off_policy, optimizers, search

BENCHMARKS: dict[str, Callable[[], None]] = {
    "S1": gauntlet.main,
    "S2": decision.linucb,
    "S3": decision.growth,
    "S4": command_line.help_time,
    "S5": command_line.whole_run,
    "S6": neural.decisions,
    "S7": neural.lazy,
    "S8": neural.large,
    "S9": search.main,
    "S10": optimizers.main,
    "S11": off_policy.main,
    "Q1": faithful.main,
    "Q2": search_templates.main,
    "Q3": from_logs.main,
    "Q4": guardrail.main,
    "Q5": boost_courses.main,
}

LONG = ("Q5",)
"""Those that take an hour or more run only when they are named."""


def main() -> None:
    """Run the benchmarks named on the command line, or all but those that take an hour."""
    wanted = sys.argv[1:] or [name for name in BENCHMARKS if name not in LONG]
    if wanted[0] in ("-h", "--help"):
        sys.exit(f"python -m benchmarks [{'|'.join(BENCHMARKS)} ...]: run those named, or all but {', '.join(LONG)}")
    unknown = [name for name in wanted if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"benchmarks: no {unknown[0]}; known: {', '.join(BENCHMARKS)}")
    for name in wanted:
        BENCHMARKS[name]()


if __name__ == "__main__":
    main()
