"""Texts that somebody sends and a service keeps: ids of all kinds, and the names of columns.

The log holds them for good, catalogues and learners for as long as they run, so each is short and can be printed,
however it comes in: as a text, as a number, in a mapping, in a path or by the API of Personalizer.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta

from zoosim.core.digests import short_hash
from zoosim.core.errors import PolicyError
from zoosim.core.parameters import shown
from zoosim.core.types import NOBODY
from zoosim.policies.model import name_of

LONGEST_ID = 256
MOST_COLUMNS = 2_000
"""Columns of a visitor, or of a product, at most, where they are kept as they came."""

LONGEST_TEXT = 10_000
"""Characters of what a column says, where that is kept as it came."""

_UNPRINTED = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
"""Control characters, which also move a terminal, what ends a line, and halves of characters."""

Id = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID, pattern=rf"^[^{_UNPRINTED}]+\Z")]
"""An id that a body must have; `check_id` says the same of one that comes in another way."""

OptionalId = Annotated[str, Meta(max_length=LONGEST_ID, pattern=rf"^[^{_UNPRINTED}]*\Z")]

_unprinted = re.compile(f"[{_UNPRINTED}]").search


def why_no_id(text: str) -> str:
    """Return what is wrong with an id; empty where nothing is."""
    if not 0 < len(text) <= LONGEST_ID:
        return f"got an id of {len(text):,} characters, expected 1 to {LONGEST_ID}"
    if _unprinted(text):
        return f"got the id {shown(text)}, expected one without control characters"
    return ""


def check_id(text: str, what: str) -> str:
    """Return an id; raises `PolicyError`, which begins with what it is of, where it is none."""
    reason = why_no_id(text)
    if reason:
        raise PolicyError(f"{what}: {reason}")
    return text


def product_id(candidate: Any) -> str:
    """Return the canonical id of a product that is given by it or by a mapping; raises `PolicyError` for none."""
    return check_id(name_of(candidate), "candidates")


def user_id_of(visitor_id: str) -> int:
    """Return the number by which policies know a visitor: a hash of the id, 0 or more, `NOBODY` for an empty one."""
    if not visitor_id:
        return NOBODY
    return int.from_bytes(short_hash(visitor_id.encode()), "big") >> 1


def check_columns(names: Iterable[Any], values: Iterable[Any]) -> None:
    """Refuse columns that are not to be kept as they came: `PolicyError`."""
    for count, name in enumerate(names, 1):
        check_id(name, "columns")
        if count > MOST_COLUMNS:
            raise PolicyError(f"columns: got more than {MOST_COLUMNS:,}, expected fewer")
    for value in values:
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, str) and len(part) > LONGEST_TEXT:
                raise PolicyError(f"columns: got a text of {len(part):,} characters, expected at most {LONGEST_TEXT:,}")
