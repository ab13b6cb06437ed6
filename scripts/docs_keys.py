"""Write the tables of worlds' keys into the pages of docs/, as `zoosim.worlds.keys` tells them.

    python scripts/docs_keys.py

The table of a world stands between the lines `<!-- keys of WORLD -->` and `<!-- end of keys -->`.
"""

import re
from pathlib import Path

from zoosim.worlds.keys import world_keys
from zoosim.worlds.registry import find_world

DOCS = Path(__file__).parents[1] / "docs"
TABLE = re.compile(r"<!-- keys of (\S+) -->\n.*?<!-- end of keys -->", re.DOTALL)


def keys_table(world: str) -> str:
    """Return the table of a world's keys with its marks."""
    rows = [f"| `{key.name}` | {key.default} | {key.range} | {key.meaning} |" for key in world_keys(find_world(world))]
    lines = ["| key | default | range | meaning |", "| --- | --- | --- | --- |", *rows]
    return "\n".join([f"<!-- keys of {world} -->", "", *lines, "", "<!-- end of keys -->"])


def with_tables(text: str) -> str:
    """Return a page with its tables as they are now."""
    return TABLE.sub(lambda table: keys_table(table[1]), text)


def main() -> None:
    """Write the pages whose tables have changed."""
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        new = with_tables(text)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"wrote docs/{page.name}")


if __name__ == "__main__":
    main()
