"""Walks a page as a reader would: its commands and Python blocks, in order, in an empty folder, at 80 columns."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from zoosim.cli import app

ROOT = Path(__file__).parents[2]
COLUMNS = 80
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAVED_AS = re.compile(r"[Ss]ave this as `([\w./]+)`")
"""How a page says that the next block is the content of a file."""

SMALL: Mapping[str, str] = {
    "run": "--seeds 1 --steps 200 --jobs 1",
    "run gauntlet": "--policies random,d-linucb",
    "run showdown": "--policies random,d-linucb",
    "run shops": "--policies random,d-linucb",
    "run labelled": "--policies random,linucb",
    "run runs/world/shop.world": "--policies random,linucb",
    "run market-shifts": "--policies item-critic,template-ts",
    "run continuous-vs-discrete": "--policies template-ts,item-critic",
    "run examples/my_world.py:Bookshop": "--policies random,linucb",
    "run cafe.py:Cafe": "--policies random,linucb",
    "--config examples/small_shop.yaml": "--steps 5000",  # so that its shocks come
    "tune": "--seeds 2 --judge 9:10 --candidates 2 --steps 200 --jobs 1",
    "log": "--n 1500",
    "recommend": "--seeds 2 --visits 150 --horizon 1000 --jobs 1 --policies linucb,linear",
    "rehearse-launch": "--launches 3 --days 2 --policy linear",
    "describe": "--visits 300",
    "evaluate": "--samples 500",
}
"""What is appended to a command in which some words stand, to make it small; the last of two options counts.

A list of policies is appended only where the page names none.
"""

ELSEWHERE = (
    "redis://",  # asks for a server
    "--data open_bandit",  # asks for a data set of 11 GB
    "http://127.0.0.1",  # asks a service, which tests/docs/test_snippets.py starts
    "zoosim serve",  # tests/serving starts services
    "zoosim-service",  # which read the log of such a service
    "--through",
    "--executor",  # asks for a cluster
    "zoosim optimum",  # takes a minute, which tests/optimizers does in small
)
"""Commands and blocks with these words are not walked: other tests do."""


class Step(NamedTuple):
    """A command line, a Python block or YAML, and the `file` that the page has it saved as, if any."""

    kind: str
    text: str
    file: str = ""


def steps(page: Path) -> list[Step]:
    """Return what a reader of a page does, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in FENCE.finditer(text):
        language, body = block.groups()
        saved = SAVED_AS.search(text[: block.start()].rstrip().rpartition("\n\n")[2])
        if language in ("python", "yaml"):
            found.append(Step(language, body, saved[1] if saved else ""))
        elif language in ("bash", "console", "sh"):
            lines = [line.removeprefix("$ ").removeprefix(".venv/bin/") for line in body.splitlines()]
            found += [Step("command", line) for line in lines if line.startswith("zoosim ")]
    return found


def is_walked(step: Step) -> bool:
    """Whether a step can be done without a server or a large data set."""
    return step.kind in ("command", "python") and not any(words in step.text for words in ELSEWHERE)


def words_of(command: str) -> list[str]:
    """Return the words of a command after `zoosim`."""
    return shlex.split(command, comments=True)[1:]


def made_small(command: str) -> list[str]:
    """Return the words of a command after `zoosim`, with what makes it small."""
    words = words_of(command)
    line = f" {shlex.join(words)} "
    added = [word for part, options in SMALL.items() if f" {part} " in line for word in shlex.split(options)]
    if "--policies" in words and "--policies" in added:
        place = added.index("--policies")
        del added[place : place + 2]
    return [*words, *added]


def run_command(words: list[str]) -> str:
    """Run a command in the working directory, 80 columns wide, and return what it printed.

    Raises `AssertionError` for a refusal, and for output in which something is cut off.
    """
    done = CliRunner(env={"COLUMNS": str(COLUMNS)}).invoke(app, words)
    line = f"zoosim {shlex.join(words)}"
    assert done.exit_code == 0, f"{line}: {done.exception!r}\n{done.output}"
    assert "…" not in done.output, f"{line}: cut off\n{done.output}"
    return done.output
