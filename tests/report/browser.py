"""Drive Chromium without a window over the pipes of its DevTools protocol, which needs no library."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
Scheme = Literal["light", "dark"]

LIMIT = 30.0
"""Seconds to wait for an answer."""


class Browser:
    """One tab of Chromium: commands go down one pipe, answers and events come up the other, each ended by a zero."""

    def __init__(self, write: int, read: int) -> None:
        self.write = write
        self.read = read
        self.unread = b""
        self.n_sent = 0
        self.events: list[dict[str, Any]] = []
        self.session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; events that come before it are kept."""
        self.n_sent += 1
        command = {"id": self.n_sent, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.write, json.dumps(command).encode() + b"\0")
        while True:
            message = self._next_message()
            if message.get("id") != self.n_sent:
                self.events.append(message)
            elif "error" in message:
                raise RuntimeError(f"{method}: {message['error']}")
            else:
                result: dict[str, Any] = message["result"]
                return result

    def _next_message(self) -> dict[str, Any]:
        give_up = time.monotonic() + LIMIT
        while b"\0" not in self.unread:
            try:
                self.unread += os.read(self.read, 1 << 20)
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise TimeoutError("Chromium does not answer") from None
                time.sleep(0.005)
        line, _, self.unread = self.unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def open(self, page: Path | str, width: int, scheme: Scheme = "light") -> None:
        """Open a page, a file or an address, at a width in px, and wait until its scripts have run."""
        self.resize(width)
        self.dress(scheme)
        self.events.clear()
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next_message())

    def resize(self, width: int) -> None:
        """Give the page a width in px; up to 640 px it is that of a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width <= 640
        )

    def dress(self, scheme: Scheme) -> None:
        """Show the page as a reader sees it who prefers this scheme."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key: str) -> None:
        """Press and release a key, such as Enter or Tab, where the focus is."""
        codes = {"Enter": (13, "\r"), "Tab": (9, "")}
        code, text = codes[key]
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, text=text)

    def assert_used_by_keyboard(self, controls: str, fewest: int) -> None:
        """Insist that the key Tab reaches each control of a page, at least `fewest`, and the link that skips first.

        `controls` is JavaScript for the list of them, evaluated anew each time, as panels come anew.
        """
        n_controls = self.run(f"{controls}.length")
        assert n_controls >= fewest
        reached = []
        for _ in range(n_controls + 2):  # the page itself may be one
            self.press("Tab")
            reached.append(self.run(f"{controls}.indexOf(document.activeElement)"))
        assert set(reached) >= set(range(n_controls))
        assert reached[0] == 0  # the link that skips what comes first

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression, awaited if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", answer))
        return answer["result"].get("value")

    def complaints(self, own: str = "file:") -> list[str]:
        """List what the page asked of others than its `own` address, its errors and warnings, since it was opened."""
        found = []
        for event in self.events:
            details = event.get("params", {})
            match event.get("method"):
                case "Network.requestWillBeSent" if not details["request"]["url"].startswith((own, "data:", "blob:")):
                    found.append(f"request: {details['request']['url']}")
                case "Runtime.exceptionThrown":
                    found.append(details["exceptionDetails"]["exception"]["description"])
                case "Runtime.consoleAPICalled" if details["type"] in ("error", "warning"):
                    found.append(f"console: {details['args']}")
                case "Log.entryAdded" if details["entry"]["level"] in ("error", "warning"):
                    found.append(f"log: {details['entry']['text']}")
        return found


@contextmanager
def started(program: str, profile: Path) -> Iterator[Browser]:
    """Start Chromium with an empty profile, and end it."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    os.set_blocking(from_read, False)
    # Chromium reads commands from descriptor 3 and answers on 4.
    line = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}'
    flags = [*FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
    process = subprocess.Popen(
        ["bash", "-c", line, program, *flags],
        pass_fds=(to_read, from_write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        browser = Browser(to_write, from_read)
        yield browser
        browser.session = ""
        browser.call("Browser.close")
    finally:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(to_write)
        os.close(from_read)
