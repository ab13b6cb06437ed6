"""Flip bits of what a service keeps, and cut it off: is that noticed, and does what is sound still serve?"""

import contextlib
import copy
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from tests.serving.process import serving
from tests.serving.shop import make_model
from tests.serving.state_digest import state_digest
from tests.serving.test_service import replayed
from zoosim import Client
from zoosim.core.errors import DataError, StoreError
from zoosim.policies.model import Model, load_model
from zoosim.serving.events import Row, without_gap
from zoosim.serving.folder import MODELS, SNAPSHOTS, keep_model_file, load_served_model
from zoosim.serving.snapshots import newest_replica
from zoosim.serving.store.address import LOG, Address, open_store

SEED, VISITS, MOST_ROWS = 0, 60, 1_000_000


def main(count: int, folder: Path) -> None:
    """Damage the newest snapshot, the model and the log of a served folder in turn; print what came of it."""
    model = make_model(folder)
    store = folder / "service"
    serve_visits(store, model)
    written = open_store(Address(store), read_only=True).read(0, MOST_ROWS)
    undisturbed = state_digest(replayed(store))
    (kept_model,) = (store / MODELS).iterdir()
    targets = {"snapshot": sorted((store / SNAPSHOTS).iterdir())[-1], "model": kept_model, "log": store / LOG}
    rng = np.random.default_rng(SEED)
    outcomes: Counter[str] = Counter()
    sound_model = load_model(kept_model)
    for number in range(count):
        what = list(targets)[number % len(targets)]
        whole = targets[what].read_bytes()
        targets[what].write_bytes(damaged(whole, rng))
        load = partial(load_served_model, store) if what == "model" else lambda _: copy.deepcopy(sound_model)
        outcomes[f"{what}: {outcome_of(store, what, load, written, undisturbed)}"] += 1
        if what == "model":
            keep_model_file(store, model)  # what a start with the model's file does first
            assert targets[what].read_bytes() == whole
        targets[what].write_bytes(whole)
        for rest in store.glob(f"{LOG}-*"):
            rest.unlink()
    for outcome, times in sorted(outcomes.items()):
        print(f"{outcome}: {times:,}")
    print(f"{count:,} bit flips and cuts of {', '.join(targets)}: no other state unnoticed")


def serve_visits(folder: Path, model: Path) -> None:
    """Serve visitors long enough for several snapshots."""
    with serving(folder, model, wait=600.0, snapshot=0.2, most_delay=30.0) as service, Client(service.url) as client:
        for number in range(VISITS):
            decision = client.decide({}, decision_id=f"{number}")
            client.give_feedback(decision.id, {"click": 1.0})
            time.sleep(0.02)
        service.wait_for_learner()
        assert service.stop() == 0


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes of which one bit is another, or whose end is gone."""
    place = int(rng.integers(len(content)))
    if rng.random() < 0.5:
        return content[:place]
    return content[:place] + bytes([content[place] ^ 1 << int(rng.integers(8))]) + content[place + 1 :]


def outcome_of(folder: Path, what: str, load: Callable[[str], Model], written: list[Row], undisturbed: str) -> str:
    """Return what a start, and its learner, make of a damaged folder; fails where its state differs unnoticed."""
    complaints: list[str] = []
    try:
        with contextlib.closing(open_store(Address(folder))) as store:
            rows = list(without_gap(store.read(0, MOST_ROWS), 1))
            replica = newest_replica(folder / SNAPSHOTS, load, store.rows, complaints.append)
            for row in rows:
                if row.seq > replica.position:
                    replica.apply(row)
    except (DataError, StoreError):
        return "refused"
    if rows != written:
        assert complaints
        assert what == "log"
        return "rows are gone, and the start says so"
    assert state_digest(replica) == undisturbed
    return "the one before it is taken, the state is the same" if complaints else "read as it was written"
