"""`zoosim` whose services have no console, and keep no periods of their log for one: what S32 compares with.

The process of the learner imports this module, too, since it is the main one.
"""

from starlette.routing import Route

from zoosim.cli import main
from zoosim.serving.console.routes import Console
from zoosim.serving.console.series import SeriesProjection
from zoosim.serving.events import Row


def _no_routes(console: Console) -> list[Route]:
    return []


def _read_nothing(projection: SeriesProjection, row: Row) -> None:
    projection.series.position = row.seq


setattr(Console, "routes", _no_routes)  # noqa: B010 - mypy takes no other assignment to a method
setattr(SeriesProjection, "apply", _read_nothing)  # noqa: B010

if __name__ == "__main__":
    main()
