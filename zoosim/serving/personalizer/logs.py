"""The log of a service: from when to when it reaches, and deleting it."""

from typing import Any

from zoosim.serving.personalizer.configuration import timestamp
from zoosim.serving.service import Service


async def log_properties(service: Service) -> dict[str, Any]:
    """Return from when to when decisions were logged; nothing where none was, or all were deleted."""
    reach = await service.upkeep.log_reach()
    if reach is None:
        return {}
    first, last = reach
    return {"dateRange": {"from": timestamp(first), "to": timestamp(last)}}


async def delete_log(service: Service) -> None:
    """Delete what was logged so far; rows that are still to be learned go once they are."""
    await service.upkeep.delete_log()
