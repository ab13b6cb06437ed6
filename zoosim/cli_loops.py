"""The command `zoosim loops`."""

import typer

from zoosim import cli_options as option


def loops(
    action: option.LoopsAction = "list",
    name: option.LoopName = None,
    url: option.RunningService = "http://127.0.0.1:8100",
    model: option.LoopModel = None,
    config: option.LoopSettings = None,
    wide: option.Wide = False,
    json: option.PrintFigures = False,
    debug: option.Debug = False,
) -> None:
    """Add, remove and list the loops of a running service.

    ACTION is add NAME, remove NAME or list. The service was started with --loops DIR; a loop is one place of a shop,
    such as the home page or the basket, with its own model, settings and log, asked below /loops/NAME. Requests go on
    meanwhile. What was added is there after a restart; the log of what was removed is kept, and it is said where.
    """
    from zoosim.api.loops import loops as change

    standing = change(action, name, url=url, model=model, settings=config)
    if json:
        import json as writer

        typer.echo(writer.dumps(standing, indent=2))
        return
    from zoosim.terminal.loops import print_loops

    print_loops(standing, wide=wide)
