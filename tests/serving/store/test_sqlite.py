"""The log in a file: whatever happens to the file is noticed."""

from pathlib import Path

import numpy as np

from tests.serving.store.test_contract import row
from zoosim.core.errors import DataError, StoreError
from zoosim.serving.store.sqlite import SqliteStore


def test_no_flipped_bit_and_no_cut_of_the_file_goes_unnoticed(tmp_path: Path) -> None:
    """What can still be read is what was written."""
    whole = tmp_path / "log.db"
    store = SqliteStore(whole)
    store.append([row(f"{number}" * 20, number) for number in range(40)], durable=True)
    written = store.read(0, 100)
    store.close()
    content = whole.read_bytes()
    rng = np.random.default_rng(0)
    flips = [
        (int(place), 1 << int(bit)) for place, bit in zip(*rng.integers(0, (len(content), 8), (400, 2)).T, strict=True)
    ]
    broken = [bytes_with(content, place, bit) for place, bit in flips]
    broken += [content[:length] for length in rng.integers(0, len(content), 50)]
    noticed = 0
    for number, damaged in enumerate(broken):
        path = tmp_path / f"{number}.db"
        path.write_bytes(damaged)
        try:
            rows = SqliteStore(path, read_only=True).read(0, 100)
        except (DataError, StoreError):
            noticed += 1
        else:
            assert rows == written
        path.unlink()
    assert noticed > 50


def bytes_with(content: bytes, place: int, bit: int) -> bytes:
    """Return bytes of which one bit is another."""
    return content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]
