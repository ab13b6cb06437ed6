"""What is answered to decisions, and which of their products feedback is about."""

from collections.abc import Sequence

from zoosim.core.errors import PolicyError
from zoosim.core.parameters import unknown
from zoosim.serving.bodies import DecisionAnswer, Shown
from zoosim.serving.events import Choice, Decision, unpack_floats
from zoosim.serving.ids import product_id


def decision_answer(decision_id: str, decision: Decision, names: Sequence[str] | None) -> DecisionAnswer:
    """Return what is answered; without the candidates' `names`, with the probabilities of what was shown alone."""
    propensities = unpack_floats(decision.propensities).tolist()
    if names is None:
        known = [(name, propensities[place]) for name, place in zip(decision.products, decision.shown, strict=True)]
    else:
        known = list(zip(names, propensities, strict=True))
    shown_products = zip(decision.products, decision.chances, strict=True)
    return DecisionAnswer(
        decision_id=decision_id,
        shown=[Shown(name, chance) for name, chance in shown_products],
        propensities=dict(known),
        model=decision.model,
        state=decision.state,
        ignored=decision.ignored,
    )


def slot_of(choice: Choice, product: str | int | None) -> int:
    """Return at which place from the top a product was shown; raises `PolicyError` where it was not."""
    if product is None:
        if choice.names_product:
            raise PolicyError("product: got none, expected the one of the ranking that was clicked or bought")
        return 0
    products = choice.names_shown
    name = product_id(product)
    if name not in products:
        raise PolicyError(unknown("product: was not shown", name, products))
    return products.index(name)
