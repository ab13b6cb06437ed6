"""Importance weights that take the exploration of a service off its decisions, so that they speak for the policy."""

from zoosim.serving.events import Choice, ProductDecision, SearchDecision


def policy_weight(choice: Choice, exploration: float, is_list: bool) -> float | None:
    """Return how much likelier the policy alone was to decide so than the service that explores.

    A service shows a candidate with probability p = (1 - e) pi + e / K, where the policy shows it with pi, e is the
    share of exploration and K the number of candidates that could stand there. So the weight is pi / p, from 0 to
    1 / (1 - e), and 1 on average. Policies of boosts explore by themselves, and what they earn is forecast so.

    Args:
        choice: The decision.
        exploration: The share of decisions that is spread evenly, from 0 to 1.
        is_list: Whether all that it shows counts, one after the other, rather than the top alone.

    Returns:
        The weight; None where the log does not tell it: nobody drew what was shown, or the candidates of a lower place.
    """
    if isinstance(choice, SearchDecision):
        return None if choice.density is None else 1.0
    if not isinstance(choice, ProductDecision) or exploration >= 1.0:
        return None
    parts = len(choice.shown) if is_list else 1
    is_capped = choice.rules is not None and bool(choice.rules.per_page)
    if any(choice.is_pinned(part) for part in range(parts)) or (is_list and (is_capped or choice.slots)):
        return None
    n_open = len(choice.versions) // 8 - len(choice.excluded)
    weight = 1.0
    for part, chance in enumerate(choice.chances[:parts]):
        own = max(chance - exploration / (n_open - part), 0.0) / (1.0 - exploration)
        weight *= own / chance
    return weight
