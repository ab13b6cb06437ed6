"""Open a playground: a simulated shop, and a service that its visitors come to."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from zoosim.core.errors import ConfigError
from zoosim.core.extras import needs_extra
from zoosim.core.files import make_folder


def open_playground(out: str | os.PathLike[str] | None, *, scripted: bool, say: Callable[[str], None]) -> None:
    """Open a simulated shop with a running service, until somebody quits or the script is over.

    Args:
        out: The folder for the service's log and models, new or empty. Default: one that is removed in the end.
        scripted: Whether a fixed script plays; else the keys of the terminal do.
        say: Called with each line on what happens.

    Raises:
        ConfigError: the folder cannot be used.
        DataError: the service did not start.
    """
    needs_extra("playground", "serve")
    from zoosim.playground.play import play

    with ExitStack() as opened:
        if out is None:
            folder = Path(opened.enter_context(TemporaryDirectory(prefix="zoosim-playground-")))
        else:
            folder = Path(out)
            make_folder(folder)
            if any(folder.iterdir()):
                raise ConfigError(f"{folder}: is not empty, expected a new folder; give another --out")
        play(folder, scripted, say)
        if out is not None:
            say(f"The log is kept: zoosim evaluate {folder / 'shop' / 'service'} --policy random")
