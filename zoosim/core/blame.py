"""Find the place in a user's file that an error comes from."""

import inspect
import traceback
from pathlib import Path


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
