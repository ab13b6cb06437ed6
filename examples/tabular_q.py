"""Learn values as a table: 3 contexts, 4 actions, rewards x + a with noise."""

import numpy as np

from zoosim.policies.templates.tabular_q import TabularQFunction


def main() -> None:
    """Print what 100 rewards teach, and 10,000."""
    for rewards in (100, 10_000):
        rng, Q = np.random.default_rng(42), TabularQFunction(n_contexts=3, n_actions=4)
        for _ in range(rewards):
            x, a = int(rng.integers(0, 3)), int(rng.integers(0, 4))
            Q.update(x, a, target=x + a + rng.normal(0, 0.5), lr=0.1)
        print(f"Learned Q-function after {rewards:,} rewards:")
        for x in range(3):
            print(f"Context {x}: Q-values = {[f'{Q.get(x, a):.2f}' for a in range(4)]}")
            best, value = Q.get_optimal_action(x), Q.get_optimal_value(x)
            print(f"           -> pi*(x={x}) = action {best}, V*(x={x}) = {value:.2f}")


if __name__ == "__main__":
    main()
