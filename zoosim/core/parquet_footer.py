"""The sizes that a Parquet file's footer and pages declare, read without a library, which would allocate them.

The footer, and what stands before each page, are structs in Thrift's compact protocol
(https://github.com/apache/parquet-format, `parquet.thrift`).
"""

import mmap
import struct
from typing import Any

from zoosim.core.files import release_pages

MAGIC = b"PAR1"
TAIL = 8
"""Bytes at the end of a file: the length of its footer, and `MAGIC`."""

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
"""Types of the compact protocol."""

DEEPEST = 16
"""Levels of structs and lists; Parquet has 6."""

COLUMNS_OF_GROUP, COLUMN_META = 1, 3
ROWS_OF_FILE, GROUPS_OF_FILE, ROWS_OF_GROUP = 3, 4, 3
VALUES, BYTES = 5, 6
DATA_PAGE, DICTIONARY_PAGE = 9, 11
"""Fields of `FileMetaData`, `RowGroup`, `ColumnChunk` and `ColumnMetaData`."""

PAGE_KIND, BYTES_OF_PAGE, STORED_BYTES = 1, 2, 3
DATA, DICTIONARY, DATA_V2 = 0, 2, 3
HEADER_OF = {DATA: 5, DICTIONARY: 7, DATA_V2: 8}
VALUES_OF_PAGE = 1
"""Fields of `PageHeader`, kinds of pages, and where a page says how many values it holds."""

LONGEST_HEADER = 1_000_000
"""Bytes before a page; it may quote the column's largest words."""


def footer_start(size: int, tail: bytes) -> int:
    """Return where the footer of a file of `size` bytes starts; raises `ValueError` where its `tail` is none."""
    length = int.from_bytes(tail[:4], "little")
    if size < len(MAGIC) + TAIL or tail[4:] != MAGIC or length > size - len(MAGIC) - TAIL:
        raise ValueError("it does not end as a Parquet file does")
    return size - TAIL - length


def declared_sizes(footer: bytes) -> tuple[int, int]:
    """Return how many bytes a table takes once it is read, at least, and how many columns it has.

    Raises:
        ValueError: the footer is broken.
    """
    try:
        fields = _Reader(footer).struct(0)
        groups = fields[GROUPS_OF_FILE]
        if fields[ROWS_OF_FILE] != sum(group[ROWS_OF_GROUP] for group in groups):
            raise ValueError("its groups have other rows than it")
        n_bytes = sum(_size(column[COLUMN_META], group) for group in groups for column in group[COLUMNS_OF_GROUP])
        return n_bytes, max((len(group[COLUMNS_OF_GROUP]) for group in groups), default=0)
    except (LookupError, TypeError, AttributeError, struct.error) as error:
        raise ValueError(f"its footer is broken ({type(error).__name__})") from None


def _size(column: dict[int, Any], group: dict[int, Any]) -> int:
    if column[VALUES] < group[ROWS_OF_GROUP] or group[ROWS_OF_GROUP] < 0 or column[BYTES] < 0:
        raise ValueError("a column has fewer values than rows")
    return int(max(8 * column[VALUES], column[BYTES]))


def check_pages(content: mmap.mmap, start: int) -> None:
    """Raise `ValueError` unless the pages of each column hold what the footer, from `start`, says of the column.

    A library would trust the pages: one that holds fewer values than it says ends the process in some releases.

    Args:
        content: A map of the file.
        start: Where the footer starts.
    """
    try:
        for group in _Reader(content[start:-TAIL]).struct(0)[GROUPS_OF_FILE]:
            for column in group[COLUMNS_OF_GROUP]:
                _check_pages_of(column[COLUMN_META], content, start)
                release_pages(content)
    except (LookupError, TypeError, AttributeError, struct.error) as error:
        raise ValueError(f"its pages are broken ({type(error).__name__})") from None


def _check_pages_of(column: dict[int, Any], content: mmap.mmap, end: int) -> None:
    place = column[DATA_PAGE]
    if 0 < column.get(DICTIONARY_PAGE, 0) < place:
        place = column[DICTIONARY_PAGE]
    n_values = 0
    while n_values < column[VALUES]:
        if not len(MAGIC) <= place < end:
            raise ValueError("a column has fewer values than it says")
        reader = _Reader(content, place, min(end, place + LONGEST_HEADER))
        page = reader.struct(0)
        place = reader.place + page[STORED_BYTES]
        if page[STORED_BYTES] < 0 or place > end or not 0 <= page[BYTES_OF_PAGE] <= column[BYTES]:
            raise ValueError("a page is larger than its column")
        values = page[HEADER_OF[page[PAGE_KIND]]][VALUES_OF_PAGE]
        if values < 0:
            raise ValueError("a page has fewer values than none")
        n_values += values if page[PAGE_KIND] != DICTIONARY else 0
    if n_values != column[VALUES]:
        raise ValueError("a column has more values than it says")


class _Reader:
    """Thrift's compact protocol, from a place in a content to an end: structs become mappings by the field's number."""

    def __init__(self, content: bytes | mmap.mmap, place: int = 0, end: int | None = None) -> None:
        self.content = content
        self.place = place
        self.end = len(content) if end is None else end

    def struct(self, depth: int) -> dict[int, Any]:
        """Read a struct."""
        if depth > DEEPEST:
            raise ValueError("its footer is nested too deep")
        fields: dict[int, Any] = {}
        number = 0
        while True:
            header = self._byte()
            kind = header & 15
            if not kind:
                return fields
            # The number of a field is told by its distance from the last one, or, where that is 0, in full.
            number = number + (header >> 4) if header >> 4 else self._signed()
            # In a struct a truth value is its own type, and takes no byte; in a list it takes one.
            fields[number] = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (TRUE, FALSE, BYTE):
            return self._byte()
        if kind in (I16, I32, I64):
            return self._signed()
        if kind == DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == BINARY:
            return self._bytes(self._unsigned())
        if kind in (LIST, SET):
            return self._list(depth + 1)
        if kind == STRUCT:
            return self.struct(depth + 1)
        raise ValueError(f"its footer holds a value of the unknown type {kind}")

    def _list(self, depth: int) -> list[Any]:
        if depth > DEEPEST:
            raise ValueError("its footer is nested too deep")
        header = self._byte()
        length = header >> 4
        if length == 15:
            length = self._unsigned()
        # Each value takes a byte at least, so a false length ends where the data does.
        return [self._value(header & 15, depth) for _ in range(length)]

    def _byte(self) -> int:
        return self.content[self._advance(1)]

    def _bytes(self, length: int) -> bytes:
        start = self._advance(length)
        return self.content[start : self.place]

    def _advance(self, length: int) -> int:
        """Go some bytes on; return where they start."""
        start = self.place
        if length > self.end - start:
            raise ValueError("its footer, or what stands before a page, ends too early")
        self.place += length
        return start

    def _unsigned(self) -> int:
        value = 0
        shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("its footer holds a number that is too large")

    def _signed(self) -> int:
        value = self._unsigned()
        # Zigzag: 0, -1, 1, -2 are written as 0, 1, 2, 3, so that small negative numbers are short.
        return (value >> 1) ^ -(value & 1)
