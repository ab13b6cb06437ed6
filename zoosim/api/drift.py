"""Changes of what a log, or the log of a service, holds against its first period."""

from typing import TYPE_CHECKING, Any

from zoosim.core.calls import public_call

if TYPE_CHECKING:
    from zoosim.logs.drift import Drift


@public_call
def drift(log: Any, *, window: int = 2_000, level: float = 0.05) -> "Drift":
    """Say what changed of a log's visitors, rewards, propensities and products, since when, at what cost, what to do.

    The newest window is compared with the first period. However long the log gets and however often this is asked, the
    probability that anything is ever told of a log in which nothing changes is at most `level`.

    Args:
        log: A log as `zoosim.evaluate` takes it, such as the folder of a service.
        window: How many decisions the first period and the newest window have, at least 100; enough to span what
            changes anyhow, such as a week.
        level: That probability.

    Raises:
        ConfigError: an option is out of range.
        DataError: the log cannot be read, is too short, or its decisions are on other things than single products.
    """
    from zoosim.api.served import open_log
    from zoosim.core.action_space import PRODUCTS
    from zoosim.logs.drift import find_drift

    return find_drift(open_log(log, action_space=PRODUCTS), window=window, level=level)
