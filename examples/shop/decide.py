"""Load a model of the shop that `make_shop.py` made, decide with it, and tell what it would really earn.

python examples/shop/decide.py MODEL [--seed N]
"""

import argparse

from make_shop import logging_policy, make_shop, true_value

import zoosim


def main() -> None:
    """Decide for one visitor, and for many."""
    parser = argparse.ArgumentParser(description="Decide with a model.")
    parser.add_argument("model")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model = zoosim.load(options.model)
    choice = model.decide({"country": "fr", "age": 31, "member": "yes", "device": "phone"})
    print(f"{choice.product}, shown with probability {choice.propensity:.3f}")
    shop = make_shop(options.seed)
    logged = (logging_policy(shop) * shop.click_rates).sum(axis=1).mean()
    print(f"true click rate: {true_value(shop, model):.2%}, of the logged choices {logged:.2%}")


if __name__ == "__main__":
    main()
