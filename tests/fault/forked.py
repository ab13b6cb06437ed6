"""Run many command lines in forked children of one process, which has imported what they need, and measure each.

As a program: reads command lines as JSON lists of words, one per line, and writes as JSON how each ended.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from zoosim.cli import run_command
from zoosim.off_policy import evaluate

__all__ = ["evaluate"]  # it imports most of what commands do, once for all children

SECONDS = 60
"""How long a command may take; the machine may be busy, so that what counts is the processor time."""


class Ended(NamedTuple):
    """How a command ended: exit code, processor seconds, peak memory in bytes, standard output and error."""

    code: int
    seconds: float
    memory: int
    out: str
    err: str


def run_commands(commands: Sequence[Sequence[str]], cwd: Path, root: Path) -> list[Ended]:
    """Run command lines one after another in a folder."""
    lines = "\n".join(json.dumps(list(words)) for words in commands)
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.fault.forked"],
        input=lines,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS * (len(commands) + 1),
    )
    assert done.returncode == 0, done.stderr
    return [Ended(*json.loads(line)) for line in done.stdout.splitlines()]


def main() -> None:
    """Run what standard input says."""
    for line in sys.stdin.read().splitlines():
        print(json.dumps(_run(json.loads(line))), flush=True)


def _run(words: list[str]) -> Ended:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            _run_in_child(words)
        _, status, usage = os.wait4(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    code = os.waitstatus_to_exitcode(status)
    return Ended(code, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss, *texts)


def _run_in_child(words: list[str]) -> None:
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_DATA, (6_000_000_000,) * 2)
    sys.argv = ["zoosim", *words]
    code = 0
    try:
        run_command()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
