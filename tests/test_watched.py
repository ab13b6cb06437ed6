"""Commands in a process that another one watches: how their ends are told."""

import subprocess
import sys

import pytest

COMMAND = """
import os, signal
from zoosim.watched import watch
signal.signal(signal.{name}, signal.SIG_DFL)
watch("demo", lambda: os.kill(os.getpid(), signal.{name}), "interrupted; nothing was saved")
"""


@pytest.mark.parametrize(
    ("name", "code", "line"),
    [
        ("SIGINT", 130, "zoosim: interrupted; nothing was saved"),
        ("SIGTERM", 130, "zoosim: interrupted; nothing was saved"),
        ("SIGSEGV", 1, "zoosim: demo ended before it was done: its process crashed (SIGSEGV)"),
    ],
)
def test_a_command_that_a_signal_ended_before_it_could_answer_was_interrupted(name: str, code: int, line: str) -> None:
    """Ctrl-C in the first second, while modules are loaded, is no crash."""
    done = subprocess.run([sys.executable, "-c", COMMAND.format(name=name)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.splitlines()) == (code, [line])
