"""Compare our policies with other libraries' on the same visits: `python -m benchmarks.peers --shops 40`.

Prints one table: in `shops` the share of the way from random choices to the oracle, on labelled tables the accuracy in
the last fifth of the visits, in percent with 95% intervals over seeds. An interrupted run resumes in its --out folder.
"""

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import NoReturn

from benchmarks.peers.contests import Contest, Options, find_tables, in_shops, on_table
from benchmarks.peers.rivals import PEERS, RIVALS
from benchmarks.peers.table import lines
from zoosim.core.errors import ZoosimError
from zoosim.core.parameters import unknown


def main() -> None:
    """Run the contests that the command line asks for, and print the table."""
    asked = _parser().parse_args()
    names = _names(asked.policies)
    if asked.tables is not None and not asked.tables.is_dir():
        _refuse(f"--tables {asked.tables}: no such folder")
    if asked.shops < 1 and asked.tables is None:
        _refuse("got --shops 0 and no --tables, expected one of them")
    asked.out.mkdir(parents=True, exist_ok=True)
    options = Options(names, asked.tune, asked.jobs, asked.out)
    try:
        contests = _contests(asked, options)
    except ZoosimError as error:
        _refuse(str(error))
    for line in lines(contests, names, tune=asked.tune):
        print(line)


def _contests(asked: argparse.Namespace, options: Options) -> list[Contest]:
    contests = []
    if asked.shops:
        seeds = range(asked.first_seed, asked.first_seed + asked.shops)
        contests.append(in_shops(options, seeds, asked.steps))
    if asked.tables is not None:
        seeds = range(asked.first_seed, asked.first_seed + asked.orders)
        tables = find_tables(asked.tables, asked.label, asked.out)
        contests += [on_table(options, title, table, seeds) for title, table in tables.items()]
    return contests


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.peers")
    parser.add_argument("--shops", type=int, default=40, help="how many drawn shops, 0 for none [default: 40]")
    parser.add_argument("--first-seed", type=int, default=1000, help="seed of the first one [default: 1000]")
    parser.add_argument("--steps", type=int, help="visits to each shop [default: 20000]")
    parser.add_argument(
        "--tables", type=Path, metavar="DIR", help="folder of labelled tables; digits and two moons too"
    )
    parser.add_argument("--label", nargs="+", default=["label", "category"], help="names of the column of classes")
    parser.add_argument("--orders", type=int, default=5, help="seeds per table, which order its rows [default: 5]")
    parser.add_argument("--policies", help=f"who competes, of {', '.join(RIVALS)} [default: all]")
    parser.add_argument("--tune", action="store_true", help="also try the grid of each, and take the best in hindsight")
    parser.add_argument("--jobs", type=int, default=2, help="processes [default: 2]")
    parser.add_argument("--out", type=Path, default=Path("runs/peers"), help="folder [default: runs/peers]")
    return parser


def _names(asked: str | None) -> list[str]:
    """Return who competes, `random` in any case, as shares are measured from it."""
    names = list(RIVALS) if asked is None else [name.strip() for name in asked.split(",")]
    for name in names:
        if name not in RIVALS:
            _refuse(unknown("--policies: unknown policy", name, RIVALS))
    needed = dict.fromkeys(PEERS[name].library for name in names if name in PEERS)
    missing = [library for library in needed if importlib.util.find_spec(library) is None]
    if missing:
        _refuse(f"{', '.join(missing)}: not installed; pip install '.[peers]', or name --policies")
    return list(dict.fromkeys(["random", *names]))


def _refuse(message: str) -> NoReturn:
    """End with a line of what is wrong, and exit code 2."""
    print(f"benchmarks.peers: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
