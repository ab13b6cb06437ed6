"""What a service must withstand, at full size: `python -m benchmarks.serving kills --count 50`.

The tests in `tests/serving` run the same in small. Each ends with exit code 1 where it does not hold.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.serving import damage, kills, propensities, requests, rollback


class Proof(NamedTuple):
    """What to run in an empty folder, and how many times what it is about happens by default."""

    run: Callable[[int, Path], None]
    size: int


PROOFS = {
    "kills": Proof(kills.on_sqlite, 50),
    "kills-valkey": Proof(kills.on_valkey, 50),
    "draws": Proof(propensities.draws, 1_000_000),
    "coverage": Proof(propensities.coverage, 30),
    "damage": Proof(damage.main, 10_000),
    "schema-requests": Proof(requests.of_the_right_form, 10_000),
    "rollback": Proof(rollback.main, 20),
    "random-requests": Proof(requests.at_random, 100_000),
}


def main() -> None:
    """Run one of them, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=PROOFS)
    parser.add_argument("--count", type=int, help="kills of each process, decisions, runs, damages, requests")
    options = parser.parse_args()
    proof = PROOFS[options.name]
    with tempfile.TemporaryDirectory() as folder:
        proof.run(options.count or proof.size, Path(folder))


if __name__ == "__main__":
    main()
