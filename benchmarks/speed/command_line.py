"""S4 and S5: what the command line costs: processor time of --help, wall time and memory of a whole gauntlet."""

import os
import resource
import subprocess
import sys
import tempfile
import time

COMMAND = [sys.executable, "-m", "zoosim"]


def help_time() -> None:
    """Print the processor time of `zoosim --help`, the median of 5 calls."""
    times = []
    for _ in range(5):
        before = _children()
        subprocess.run([*COMMAND, "--help"], check=True, capture_output=True)
        times.append(_children() - before)
    print(f"S4 zoosim --help: {sorted(times)[2]:.2f} s of processor time")


def whole_run() -> None:
    """Print wall time and the largest process of `zoosim run gauntlet`, with an empty cache and again."""
    with tempfile.TemporaryDirectory() as folder:
        for label in ("first, all compiled and trained", "again"):
            began = time.monotonic()
            arguments = ["run", "gauntlet", "--seeds", "10", "--out", f"{folder}/{label[:5]}"]
            environment = {**os.environ, "ZOOSIM_CACHE": f"{folder}/cache"}
            subprocess.run([*COMMAND, *arguments], check=True, capture_output=True, env=environment)
            print(f"S5 zoosim run gauntlet, 10 seeds, all policies ({label}): {time.monotonic() - began:.1f} s")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"S5 zoosim run gauntlet: largest process {peak / 1e6:,.0f} MB")


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
