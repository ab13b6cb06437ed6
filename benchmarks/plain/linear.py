"""Linear agents as published: a Python loop over the arms and a fresh matrix inverse."""

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class PlainLinUCB:
    """Choose by disjoint LinUCB, one ridge model an arm and one inverse an arm a decision.

    Source: Li, Chu, Langford and Schapire (2010), "A contextual-bandit approach to personalized news article
    recommendation", Algorithm 1, with ridge `regularization` where the paper has 1.
    """

    def __init__(self, n_arms: int, dim: int, alpha: float, regularization: float = 1.0) -> None:
        self.alpha = alpha
        self.A = [regularization * np.eye(dim) for _ in range(n_arms)]
        self.b = [np.zeros(dim) for _ in range(n_arms)]

    def scores(self, features: FloatArray) -> FloatArray:
        """Return theta_a'x_a + alpha sqrt(x_a' A_a^-1 x_a), shape `(K,)`; row a of `features (K, d)` is arm a's x."""
        scores = np.zeros(len(features))
        for arm, x in enumerate(features):
            inverse = np.linalg.inv(self.A[arm])
            theta = inverse @ self.b[arm]
            scores[arm] = theta @ x + self.alpha * math.sqrt(x @ inverse @ x)
        return scores

    def select(self, features: FloatArray) -> int:
        """Return the arm with the highest score, the lowest index on ties."""
        return int(np.argmax(self.scores(features)))

    def update(self, features: FloatArray, arm: int, reward: float) -> None:
        """Add the chosen arm's row: A_a += x x', b_a += r x."""
        x = features[arm]
        self.A[arm] += np.outer(x, x)
        self.b[arm] += reward * x


class PlainInteractionUCB:
    """Choose by one LinUCB shared over products, on x = [user, product, user (x) product], with stepped forgetting.

    Data sums D and b are multiplied by `discount ** period` after every `period` updates, the newest one included;
    the ridge A = D + regularization I is not discounted, so A never loses rank. `alpha = 0` is greedy, `discount = 1`
    never forgets. The model is shared, so one inverse serves a whole decision. The outer product is flattened
    user-major.

    Source: Li, Chu, Langford and Schapire (2010), Section 5.2 (user-article outer products), and Russac, Vernade and
    Cappe (2019), "Weighted linear bandits for non-stationary environments" (discounted sums; here without its second
    discounted matrix, and in steps).
    """

    def __init__(
        self, user_dim: int, product_dim: int, alpha: float, regularization: float, discount: float, period: int
    ) -> None:
        dim = user_dim + product_dim + user_dim * product_dim
        self.alpha, self.regularization, self.discount, self.period = alpha, regularization, discount, period
        self.D = np.zeros((dim, dim))
        self.b = np.zeros(dim)
        self.n_updates = 0

    def scores(self, user: FloatArray, products: FloatArray) -> FloatArray:
        """Return theta'x + alpha sqrt(x' A^-1 x), shape `(K,)`, for `user (d_u,)` and `products (K, d_p)`."""
        inverse = np.linalg.inv(self.D + self.regularization * np.eye(len(self.b)))
        theta = inverse @ self.b
        scores = np.zeros(len(products))
        for index, product in enumerate(products):
            x = _interaction(user, product)
            scores[index] = theta @ x + self.alpha * math.sqrt(x @ inverse @ x)
        return scores

    def select(self, user: FloatArray, products: FloatArray) -> int:
        """Return the row of `products` with the highest score, the lowest index on ties."""
        return int(np.argmax(self.scores(user, products)))

    def update(self, user: FloatArray, product: FloatArray, reward: float) -> None:
        """Add one observation for the chosen `product (d_p,)`, then forget if a period is full."""
        x = _interaction(user, product)
        self.D += np.outer(x, x)
        self.b += reward * x
        self.n_updates += 1
        if self.n_updates % self.period == 0:
            self.D *= self.discount**self.period
            self.b *= self.discount**self.period


def _interaction(user: FloatArray, product: FloatArray) -> FloatArray:
    """Return [u, p, u_1 p_1, u_1 p_2, ...], shape `(d_u + d_p + d_u d_p,)`."""
    return np.concatenate([user, product, np.outer(user, product).ravel()])
