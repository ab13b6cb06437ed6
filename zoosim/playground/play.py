"""A simulated shop whose visitors come to a running service, and somebody who does to both what happens to shops."""

import asyncio
import math
import os
import re
import sys
import webbrowser
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import uvloop

from zoosim.core.errors import ZoosimError, printable
from zoosim.playground.service import ServiceProcess
from zoosim.playground.shop import Shop, Visit
from zoosim.playground.visitors import draw_visitors
from zoosim.playground.world import COUNTRIES, PRODUCTS, liking, small_shop, teach
from zoosim.serving.client import Client
from zoosim.serving.events import CHAMPION, Kind
from zoosim.serving.projection import rows_of
from zoosim.serving.store.address import find_log, open_store

SPEED = 120.0
"""Simulated seconds per second where somebody watches: a day takes twelve minutes."""

CLICKS = 0.3
"""The chance that visitors click on what their country likes most."""

APPEAL = np.array([[6.0, 3.0, 2.0, 1.0], [1.0, 6.0, 3.0, 2.0], [2.0, 1.0, 6.0, 3.0]])
"""By how much visitors of a country `(C,)` like a product `(P,)`."""

BAD = "bad"
BAD_PLAN = {"steps": [0.2, 0.5], "hours": 0.25, "least": 100}
"""The plan by which a bad policy is launched, with shares that grow within an hour."""

RUSH = 10.0
SEED = 0
LOOK = 0.5
"""Seconds between two looks at what the service did."""

UNTOUCHED = 60.0
"""Seconds without a key after which the terminal says what to look at."""

PATIENCE = 30.0
"""Seconds that a step of the script may take at most."""

MOST_TYPED = 1_024
"""Bytes of the terminal that are taken at once."""

SETTINGS = {"wait": 600.0, "most_delay": 30.0}


class Action(NamedTuple):
    """An action of whoever plays: its key, and what it does in words."""

    key: str
    words: str


SHOCK = Action("s", "shock the market: all countries change their minds")
PIXEL = Action("p", "break the pixel: no click arrives any more; again to mend it")
DEPLOY = Action("b", "deploy a bad policy, by a plan with guardrails")
KILL = Action("k", "kill the learner")
TRAFFIC = Action("t", "ten times the traffic; again for as many as usual")
QUIT = Action("q", "quit")
ACTIONS = (SHOCK, PIXEL, DEPLOY, KILL, TRAFFIC, QUIT)

WHAT_TO_SEE = """\
What to look at: the first sentence of the page says how it goes.
Press b: the bad policy gets a fifth of the visitors, and is taken back as soon as the evidence is there.
Press s: the champion finds out by itself what is liked now.
Press p: learning freezes, and nothing is taken back for a broken pixel.
Press k: decisions go on while the learner starts again."""


class Playground:
    """A shop that is open, its service, and what somebody does to them."""

    def __init__(self, service: ServiceProcess, shop: Shop, bad_model: Path, say: Callable[[str], None]) -> None:
        """Begin with a service that answers.

        Args:
            service: The service.
            shop: Its shop.
            bad_model: The model that is launched as a bad policy.
            say: Called with each line on what happens.
        """
        self.service = service
        self.shop = shop
        self.is_over = False
        self._bad_model = bad_model
        self._say = say
        self._client = Client(service.url)
        self._seen = 0.0
        self._is_frozen = False
        self._launch_state = ""
        self._is_broken = False
        self._acts: dict[Action, Callable[[], Awaitable[None]]] = {
            SHOCK: self.shock,
            PIXEL: self.toggle_pixel,
            DEPLOY: self.deploy,
            KILL: self.kill_learner,
            TRAFFIC: self.toggle_traffic,
            QUIT: self.quit,
        }

    async def act(self, key: str) -> None:
        """Do what a key stands for; others do nothing."""
        for action, do in self._acts.items():
            if action.key == key.lower():
                await do()

    async def shock(self) -> None:
        """Let all countries change their minds."""
        self.shop.shock()
        self._tell("you: the market is shocked; what each country liked, another one likes now")
        said = "what each country liked, another one likes now"
        await self._ask(lambda: self._client.annotate("the market is shocked", who="you", why=said))

    async def toggle_pixel(self) -> None:
        """Break the pixel, or mend it."""
        self._is_broken = not self._is_broken
        if self._is_broken:
            self.shop.break_pixel()
        else:
            self.shop.mend_pixel()
        self._tell(f"you: the pixel is {'broken; no click arrives' if self._is_broken else 'mended'}")

    async def deploy(self) -> None:
        """Launch a bad policy."""
        self._tell("you: deploy a policy that shows what is liked least")

        def launch() -> None:
            model = self._client.keep_model(self._bad_model.read_bytes())
            self._client.deploy("launch", arm=BAD, model=model, plan=BAD_PLAN, who="you", why="somebody had an idea")

        await self._ask(launch)

    async def kill_learner(self) -> None:
        """Kill the learner."""
        is_killed = self.service.kill_learner()
        self._tell(f"you: the learner is {'killed; the service starts it again' if is_killed else 'not to be found'}")

    async def toggle_traffic(self) -> None:
        """Let ten times as many visitors come, or as many as usual."""
        self.shop.traffic = 1.0 if self.shop.traffic > 1.0 else RUSH
        self._tell(f"you: {'ten times the' if self.shop.traffic > 1.0 else 'the usual'} traffic")

    async def quit(self) -> None:
        """Let nobody in any more."""
        self.is_over = True
        self.shop.close()

    async def follow(self) -> None:
        """Say what the service does by itself, until the shop is closed."""
        while not self.is_over:
            await asyncio.sleep(LOOK)
            if not self.service.is_running:
                self._tell("the service has ended; its output is in output.txt of its folder")
                await self.quit()
                return
            await self._ask(self._look)

    def _look(self) -> None:
        deployment = self._client.deployment()
        for change in reversed(deployment["history"]):
            if change["time"] > self._seen:
                self._seen = change["time"]
                if change["who"] != "you":
                    self._tell(f"{change['who'] or 'service'}: {change['why'] or 'began'}")
        self._is_frozen = deployment["frozen"]
        launch = deployment["launch"]
        self._launch_state = launch["state"] if launch else ""

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, or patience is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while not is_so() and not self.is_over:
                    await asyncio.sleep(LOOK / 5)

    async def visitors(self, count: int) -> None:
        """Wait until so many more visitors were served."""
        until = len(self.shop.visits) + count
        await self.until(lambda: len(self.shop.visits) >= until)

    async def play_script(self) -> None:
        """Do one thing after another, each until the service has dealt with it."""
        await self.visitors(1_000)
        await self.deploy()
        await self.until(lambda: self._launch_state == "rolled back")
        await self.shock()
        await self.visitors(1_000)
        await self.toggle_pixel()
        await self.until(lambda: self._is_frozen)
        await self.toggle_pixel()
        await self.until(lambda: not self._is_frozen)
        await self.kill_learner()
        await self.visitors(500)
        await self.toggle_traffic()
        await self.visitors(1_000)
        await self.quit()

    async def _ask(self, ask: Callable[[], object]) -> None:
        """Ask the service beside the event loop; what it refuses is said."""
        try:
            await asyncio.to_thread(ask)
        except ZoosimError as error:
            self._tell(f"service: {error}")

    def _tell(self, line: str) -> None:
        moment = datetime.fromtimestamp(self.service.time.now() / 1e6, UTC)
        self._say(printable(f"{moment:%a %H:%M} {line}"))


def play(folder: Path, is_scripted: bool, say: Callable[[str], None]) -> None:
    """Open a shop and its service until somebody quits, or the script is over; then say what was lost.

    Args:
        folder: Where the service keeps its log and models.
        is_scripted: Whether a fixed script plays; else the keys of the terminal do.
        say: Called with each line.

    Raises:
        DataError: the service did not start.
    """
    say("Training a first model, and starting its service ...")
    world = small_shop(draw_visitors(SEED), APPEAL, SEED)
    champion = teach(CLICKS * APPEAL / APPEAL.max(), folder / "champion.zoosim", "adaptive", SEED)
    bad_model = teach(liking(APPEAL.argmin(axis=1).tolist()), folder / "bad.zoosim")
    with ServiceProcess(folder / "shop", champion, SETTINGS) as service:
        shop = Shop(world, service.url, service.time, speed=math.inf if is_scripted else SPEED)
        playground = Playground(service, shop, bad_model, say)
        say(f"The shop is open: {len(PRODUCTS)} products, visitors of {len(COUNTRIES)} countries.")
        say(f"Its console: {service.url}")
        if not is_scripted and _has_screen():
            webbrowser.open(service.url)
        uvloop.run(_run(playground, is_scripted, say))
    for line in account_lines(service, shop):
        say(line)


def _has_screen() -> bool:
    """Return whether a browser has a window to open: one of the terminal would take the keys."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


async def _run(playground: Playground, is_scripted: bool, say: Callable[[str], None]) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(playground.shop.open())
        tasks.create_task(playground.follow())
        if is_scripted:
            await playground.play_script()
        else:
            await _play_keys(playground, say)


async def _play_keys(playground: Playground, say: Callable[[str], None]) -> None:
    """Do what keys say, until somebody quits."""
    say("Keys:")
    for action in ACTIONS:
        say(f"  {action.key}  {action.words}")
    has_hinted = False
    async with _keys() as keys:
        while not playground.is_over:
            try:
                async with asyncio.timeout(None if has_hinted else UNTOUCHED):
                    await playground.act(await keys.get())
            except TimeoutError:
                say(WHAT_TO_SEE)
                has_hinted = True


@asynccontextmanager
async def _keys() -> AsyncIterator["asyncio.Queue[str]"]:
    """Yield the keys that are pressed in the terminal, as they come; a closed terminal quits."""
    keys: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    terminal = sys.stdin.fileno()

    def take() -> None:
        # All at once, and not by `sys.stdin`, which would keep what is behind the first one until another key comes.
        for key in keys_in(os.read(terminal, MOST_TYPED)):
            keys.put_nowait(key)

    with _unbuffered():
        loop.add_reader(terminal, take)
        try:
            yield keys
        finally:
            loop.remove_reader(terminal)


def keys_in(typed: bytes) -> str:
    """Return the keys in what a terminal sent, that to quit where it was closed."""
    # An arrow or another key without a letter sends several bytes that begin with escape, some of which are letters.
    return re.sub("\x1b(\\[[0-9;?]*.|O.|.)?", "", typed.decode(errors="ignore")) if typed else QUIT.key


@contextmanager
def _unbuffered() -> Iterator[None]:
    """Let the terminal hand on each key at once, and not wait for a line."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def account_lines(service: ServiceProcess, shop: Shop) -> list[str]:
    """Say what happened to the visitors, and what was lost, by the log of a service that has ended."""
    rows = _rows_by_kind(service)
    clicked = sum(visit.is_clicked for visit in shop.visits)
    on_their_way = shop.clicks_on_their_way
    untold = clicked - rows[Kind.FEEDBACK] - on_their_way
    lost_answers = len(shop.visits) - rows[Kind.DECISION]
    lines = [
        f"{len(shop.visits):,} visitors in {shop.hours:.1f} simulated hours; {clicked:,} clicked.",
        f"Answers that the log lacks: {max(lost_answers, 0):,}. Visitors without an answer: {shop.refused.total():,}.",
        f"Clicks that never arrived, as the pixel was broken: {max(untold, 0):,} (and {on_their_way:,} on their way).",
    ]
    return [*lines, *_cost_of_bad(shop)]


def _rows_by_kind(service: ServiceProcess) -> Mapping[Kind, int]:
    address = find_log(service.store)
    assert address is not None
    store = open_store(address, True)
    try:
        return Counter(row.kind for row in rows_of(store))
    finally:
        store.close()


def _cost_of_bad(shop: Shop) -> list[str]:
    """Say what a bad policy cost beside what the champion earned at the same time."""
    bad = [visit for visit in shop.visits if visit.arm == BAD]
    if not bad:
        return []
    begin, end = bad[0].time, bad[-1].time
    beside = [visit for visit in shop.visits if visit.arm == CHAMPION and begin <= visit.time <= end]
    rate = _click_rate(bad)
    usual = _click_rate(beside)
    return [
        f"The bad policy decided for {len(bad):,} visitors before it was taken back; {rate:.0%} of them clicked, "
        f"{usual:.0%} of the champion's: about {max((usual - rate) * len(bad), 0.0):.0f} clicks lost."
    ]


def _click_rate(visits: Sequence[Visit]) -> float:
    return sum(visit.is_clicked for visit in visits) / max(len(visits), 1)
