"""What the footer of a Parquet file declares, read without a library, which would allocate what it declares.

The footer is a struct in Thrift's compact protocol (https://github.com/apache/parquet-format, `parquet.thrift`).
"""

import struct
from typing import Any

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
"""Fields of `FileMetaData`, `RowGroup`, `ColumnChunk` and `ColumnMetaData`."""


def footer_start(size: int, tail: bytes) -> int:
    """Return where the footer of a file of `size` bytes starts; raises `ValueError` where its `tail` is none."""
    length = int.from_bytes(tail[:4], "little")
    if size < len(MAGIC) + TAIL or tail[4:] != MAGIC or length > size - len(MAGIC) - TAIL:
        raise ValueError("it does not end as a Parquet file does")
    return size - TAIL - length


def declared_bytes(footer: bytes) -> int:
    """Return how many bytes a table takes once it is read, at least; raises `ValueError` for a broken footer."""
    try:
        fields = _Reader(footer).struct(0)
        groups = fields[GROUPS_OF_FILE]
        if fields[ROWS_OF_FILE] != sum(group[ROWS_OF_GROUP] for group in groups):
            raise ValueError("its groups have other rows than it")
        return sum(_size(column[COLUMN_META], group) for group in groups for column in group[COLUMNS_OF_GROUP])
    except (LookupError, TypeError, AttributeError, struct.error) as error:
        raise ValueError(f"its footer is broken ({type(error).__name__})") from None


def _size(column: dict[int, Any], group: dict[int, Any]) -> int:
    if column[VALUES] < group[ROWS_OF_GROUP] or group[ROWS_OF_GROUP] < 0 or column[BYTES] < 0:
        raise ValueError("a column has fewer values than rows")
    return int(max(8 * column[VALUES], column[BYTES]))


class _Reader:
    """Thrift's compact protocol: structs become mappings by the number of the field."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

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
            number = number + (header >> 4) if header >> 4 else self._signed()
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
        return [self._value(header & 15, depth) for _ in range(length)]

    def _byte(self) -> int:
        value = self.data[self.place]
        self.place += 1
        return value

    def _bytes(self, length: int) -> bytes:
        if length > len(self.data) - self.place:
            raise ValueError("its footer ends too early")
        self.place += length
        return self.data[self.place - length : self.place]

    def _unsigned(self) -> int:
        value, shift = 0, 0
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
        return (value >> 1) ^ -(value & 1)
