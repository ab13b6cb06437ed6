"""The playground as a command: its script where there is no terminal, and its keys where there is one."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.commands import run_zoosim
from tests.waiting import eventually
from zoosim.playground.play import ACTIONS, keys_in

COMMAND = [sys.executable, "-m", "zoosim", "playground"]
MOST = 120.0


class Terminal:
    """The playground in a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self._master, slave = pty.openpty()
        self.output = ""
        self.process = subprocess.Popen(
            [*COMMAND, "--out", str(folder)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "DISPLAY": "", "WAYLAND_DISPLAY": ""},
        )
        os.close(slave)

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())

    def wait_for(self, words: str) -> str:
        """Wait until words are printed; return all that was."""

        def is_there() -> bool:
            while select.select([self._master], [], [], 0.05)[0]:
                self.output += os.read(self._master, 65_536).decode()
            return words in self.output

        eventually(is_there, MOST)
        return self.output

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._master)


def test_the_script_plays_by_itself_and_says_what_was_lost(tmp_path: Path) -> None:
    ended = run_zoosim("playground", "--out", "kept", cwd=tmp_path)
    assert ended.code == 0, ended
    for words in (
        "you: deploy a policy that shows what is liked least",
        "launch: bad: objective is worse",
        "you: the market is shocked",
        "you: the pixel is broken",
        "checks: No feedback has come",
        "checks: feedback comes again",
        "you: the learner is killed",
        "you: ten times the traffic",
        "Answers that the log lacks: 0. Visitors without an answer: 0.",
    ):
        assert words in ended.out, ended.out
    cost = re.search(
        r"decided for ([\d,]+) visitors before it was taken back; (\d+)% of them clicked, (\d+)%", ended.out
    )
    assert cost is not None, ended.out
    assert int(cost[2]) < int(cost[3])
    assert (tmp_path / "kept" / "shop" / "service").is_dir()


def test_keys_do_what_they_say_and_ctrl_c_ends_all(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "kept")
    try:
        said = terminal.wait_for(ACTIONS[-1].words)
        address = re.search(r"http://127\.0\.0\.1:\d+", said)
        assert address is not None
        assert "decides for 100% of the visitors" in httpx2.get(address[0], timeout=30.0).text
        # An arrow, whose last byte is a B, and two keys at once.
        for key, words in (("\x1b[Bxt", "ten times the traffic"), ("p", "the pixel is broken"), ("P", "mended")):
            terminal.press(key)
            terminal.wait_for(words)
        assert "deploy a policy" not in terminal.output
        os.killpg(terminal.process.pid, signal.SIGINT)  # as a terminal does for Ctrl-C
        eventually(lambda: terminal.process.poll() is not None, MOST)
        assert terminal.process.returncode == 130
        with pytest.raises(httpx2.TransportError):
            httpx2.get(address[0], timeout=5.0)
    finally:
        terminal.close()


def test_keys_without_a_letter_are_none_and_a_closed_terminal_quits() -> None:
    assert keys_in(b"\x1b[A\x1b[1;5Bs\x1bOPk\x1b") == "sk"
    assert keys_in("\u00e9t".encode()[1:]) == "t"
    assert keys_in(b"") == "q"


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    ended = run_zoosim("playground", "--out", str(tmp_path), cwd=tmp_path)
    assert (ended.code, "is not empty, expected a new folder" in ended.line) == (2, True)
    assert (tmp_path / "file").read_text() == "mine"
