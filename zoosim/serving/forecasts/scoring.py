"""How decisions of an action space count for forecasts: by which importance weight, and what they can earn."""

from typing import Any, ClassVar

import msgspec

from zoosim.serving.events import ProductDecision, SearchDecision
from zoosim.serving.join import Join, SearchJoin, WaitingJoin


class Scoring:
    """What the ledger of forecasts asks of decisions of one action space; here none is scored."""

    join: ClassVar[type[Join]] = WaitingJoin
    """Type of the join of feedback to decisions."""

    def weight(self, choice: Any, exploration: float, is_list: bool) -> float | None:
        """Return how much likelier the policy alone was to decide so than the service that explores.

        Args:
            choice: The decision.
            exploration: The share of decisions that is spread evenly, from 0 to 1.
            is_list: Whether all that it shows counts, one after the other, rather than the top alone.

        Returns:
            The weight; None where the log does not tell it.
        """
        return None

    def top_alone(self, choice: Any) -> Any:
        """Return a decision with what it shows at the top alone."""
        return choice

    def worth(self, choice: Any, model: Any) -> list[float] | None:
        """Return what each part of a decision can earn, where feedback does not name rewards; empty where it does.

        Args:
            choice: The decision.
            model: The model that made it, None where it is not at hand.

        Returns:
            What a purchase of each product earns, from the top, and behind these a click; None where nobody knows.
        """
        return []


class ProductScoring(Scoring):
    """Of decisions on products.

    A service shows a candidate with probability p = (1 - e) pi + e / K, where the policy shows it with pi, e is the
    share of exploration and K the number of candidates that could stand there. So the weight is pi / p, from 0 to
    1 / (1 - e), and 1 on average.
    """

    def weight(self, choice: ProductDecision, exploration: float, is_list: bool) -> float | None:
        """Return the weight; None where nobody drew what was shown, or the candidates of a lower place are unknown."""
        if exploration >= 1.0:
            return None
        parts = len(choice.shown) if is_list else 1
        is_capped = choice.rules is not None and bool(choice.rules.per_page)
        if any(choice.is_pinned(part) for part in range(parts)) or (is_list and (is_capped or choice.slots)):
            return None
        # What is retrieved is explored by products of the whole shop, at the top alone.
        if is_list and choice.source is not None:
            return None
        n_open = choice.source.products if choice.source else len(choice.versions) // 8 - len(choice.excluded)
        weight = 1.0
        for part, chance in enumerate((choice.marginals or choice.chances)[:parts]):
            own = max(chance - exploration / (n_open - part), 0.0) / (1.0 - exploration)
            weight *= own / chance
        return weight

    def top_alone(self, choice: ProductDecision) -> ProductDecision:
        """Return a decision with its first product alone."""
        return msgspec.structs.replace(choice, shown=choice.shown[:1])


class SearchScoring(Scoring):
    """Of searches. Policies of boosts explore by themselves, and what they earn is forecast so."""

    join = SearchJoin

    def weight(self, choice: SearchDecision, exploration: float, is_list: bool) -> float | None:
        """Return 1; None where nobody drew the boosts."""
        return None if choice.density is None else 1.0

    def worth(self, choice: SearchDecision, model: Any) -> list[float] | None:
        """Return what a purchase of each product that a search showed earns, and behind these a click."""
        if model is None:
            return None
        requests = model.requests
        rows = [requests.row_of[name] for name in choice.names_shown]
        return [*requests.worth[rows].tolist(), requests.schema.reward.clicks]
