"""Say whose code an error comes from, and where it stands in a user's file."""

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zoosim.core.errors import PolicyError, ZoosimError


def user_place(error: BaseException, file: str) -> str:
    """Return `file:line` of the innermost frame of `error` that lies in `file`, empty if there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{Path(file).name}:{frames[-1].lineno}" if frames else ""


def source_file(cls: type) -> str:
    """Return the file that a class was written in, empty if there is none."""
    try:
        return inspect.getsourcefile(cls) or ""
    except (TypeError, OSError):
        return ""


@contextmanager
def blamed(where: str) -> Iterator[None]:
    """Turn whatever a user's own code raises into a `PolicyError` of one line, which begins with `where`."""
    try:
        yield
    except (Exception, SystemExit) as error:
        reason = one_line(error) if isinstance(error, ZoosimError) else reason_of(error)
        raise PolicyError(f"{where}{reason}") from error


def reason_of(error: BaseException) -> str:
    """Return the kind and the message of an error in one line, such as `KeyError: 0.5`; the kind alone without one."""
    return f"{type(error).__name__}: {one_line(error)}".removesuffix(": ")


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split())
