"""Do a study (`python -m studies NAME`), or list them all (`python -m studies`)."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from studies.study import STUDIES
from zoosim.core.config import read_setting
from zoosim.core.errors import ZoosimError, printable

if TYPE_CHECKING:
    from zoosim.report.sections import Page


def main() -> None:
    """Run the command line: exit code 0 when all is well, 2 on bad input, 130 on Ctrl-C."""
    given = vars(make_parser().parse_args())
    name, out, as_json, settings = (given.pop(key) for key in ("name", "out", "json", "set"))
    if name is None:
        for study in STUDIES.values():
            print(f"{study.name:<{max(map(len, STUDIES))}}  {study.summary}")
        return
    try:
        options = {key: value for key, value in given.items() if value is not None}
        options |= {".".join(path): value for path, value in map(read_setting, settings)}
        _do(name, out, as_json, options)
    except ZoosimError as error:
        _stop(str(error), 2)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        _stop(f"the study {name} compares with torch, which is not installed; pip install 'zoosim[torch]'", 2)
    except KeyboardInterrupt:
        _stop("interrupted: what was kept on disk is not measured again", 130)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; options that are left out are None."""
    parser = argparse.ArgumentParser("python -m studies", description="Do a study, or list them all.")
    parser.add_argument("name", nargs="?", metavar="NAME", help="which study; none: list them")
    parser.add_argument(
        "data", nargs="?", default=argparse.SUPPRESS, metavar="FOLDER", help="the folder that it reads, as by --data"
    )
    parser.add_argument("--seeds", metavar="N|A:B", help="0 to N-1, or A to B-1")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes; one per core by default")
    parser.add_argument("--config", metavar="FILE.yaml", help="changes to the search shop, under the key env")
    parser.add_argument(
        "--data", metavar="FOLDER", help="open-bandit: the Open Bandit Dataset; leaderboard: the result files"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another option of the study")
    parser.add_argument("--out", metavar="DIR", help="folder for summary.json and report.html; runs/NAME by default")
    parser.add_argument("--json", action="store_true", help="print summary.json to standard output")
    return parser


def _do(name: str, out: str | None, as_json: bool, options: dict[str, object]) -> None:
    from studies.run import run_study

    result = run_study(name, out, progress=lambda line: print(f"  {line}", file=sys.stderr), **options)
    if as_json:
        sys.stdout.write((result.path / "summary.json").read_text(encoding="utf-8"))
    else:
        _print_page(name, result.page, result.path)


def _print_page(name: str, page: "Page", folder: Path) -> None:
    """Print the first table of a page and those that ask for it, its verdict and its address in the `folder`."""
    from zoosim.terminal.output import print_address, print_lines, print_table

    first, *others = page.tables
    for content in (first, *(table for table in others if table.printed)):
        print_table(replace(content, heading=f"{name}: {content.heading}").as_text(), has_page=True)
    print_lines([page.verdict])
    print_address(folder)


def _stop(line: str, code: int) -> None:
    print(f"studies: {printable(' '.join(line.split()))}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
