"""All checks of a policy, for the tests and for `zoosim check-policy`."""

from collections.abc import Callable

from zoosim.policies.base import Policy
from zoosim.policies.boosts.base import BoostPolicy
from zoosim.policies.checks.boosts import BOOST_CHECKS
from zoosim.policies.checks.contract import Check, CheckResult, ask_checks
from zoosim.policies.checks.maker import Maker
from zoosim.policies.checks.products import PRODUCT_CHECKS
from zoosim.policies.registry import check_own_name, find_class, make_entry


def check_policy(source: str | type, asking: Callable[[str], None] = lambda name: None) -> list[CheckResult]:
    """Ask every check about a policy.

    Args:
        source: A built-in name, `FILE.py:Class` or a class.
        asking: Called with the name of each check before it is asked.

    Raises:
        ConfigError, PolicyError: there is no such class, or no run would take it.
    """
    check_own_name(make_entry(source))
    maker = Maker(find_class(source))
    return ask_checks(checks_of(maker.cls), maker, asking)


def checks_of(cls: type[Policy]) -> tuple[Check, ...]:
    """Return the checks of policies that choose boosts, or of those that choose a product or a template."""
    return BOOST_CHECKS if issubclass(cls, BoostPolicy) else PRODUCT_CHECKS
