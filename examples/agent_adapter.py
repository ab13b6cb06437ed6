"""Agents that are written as `predict(user_id, sim)` and `update(user_id, arm, reward, sim)`, in zoosim's arena.

    zoosim run gauntlet --policies random,linucb --policy examples/agent_adapter.py:DisjointLinUCB

For an agent of yours write a class as `DisjointLinUCB` below, whose `make_agent` returns it. What such agents read of
their simulator is in `Simulator`: who a visitor is and what the products are, and no click probability.
"""

import operator
from typing import Any, Protocol

import numpy as np

import zoosim


class Agent(Protocol):
    """What the adapter asks of an agent; arms are the numbers of products, from 0."""

    def predict(self, user_id: int, sim: "Simulator") -> int:
        """Return the arm to show."""

    def update(self, user_id: int, arm: int, reward: float, sim: "Simulator") -> None:
        """Learn what an arm earned."""


class Column(np.ndarray):
    """A column of a table, with what agents ask of one in pandas."""

    @property
    def values(self) -> np.ndarray:
        """The column as a plain array."""
        return np.asarray(self)

    def unique(self) -> np.ndarray:
        """Return its values, each once."""
        return np.unique(self)


class Simulator:
    """A shop as such agents see it: `n_products`, `n_users`, `personas`, `products`, `user_to_persona_map`.

    Args:
        spec: The task: how many users and personas there are.
        context: A request of it; all requests must have the same products, as the agents have an arm for each.
    """

    def __init__(self, spec: zoosim.PolicySpec, context: zoosim.Context) -> None:
        self.n_users = spec.n_users
        self.n_products = len(context.product_ids)
        self.personas: dict[str, dict[str, float]] = {f"persona {n}": {} for n in range(spec.user_dim)}
        categories = np.array([f"category {n}" for n in context.products.argmax(axis=1)])
        self.products = {"category": categories.view(Column)}
        self.user_to_persona_map: dict[int, str] = {}

    def meet(self, context: zoosim.Context) -> None:
        """Note who comes, and refuse requests with other products."""
        if not np.array_equal(context.product_ids, np.arange(self.n_products)) or not context.available.all():
            raise ValueError(f"an agent with {self.n_products} arms needs all of these products in each request")
        self.user_to_persona_map[context.user_id] = f"persona {context.user.argmax()}"


class FeatureEngineer:
    """One-hot persona and category of each product, as the agents' features `(n_products, feature_dim)`."""

    def __init__(self, sim: Simulator) -> None:
        self.personas = list(sim.personas)
        self.categories = np.unique(sim.products["category"])
        self.feature_dim = len(self.personas) + len(self.categories)

    def create_features(self, user_id: int, sim: Simulator) -> np.ndarray:
        """Return the features of every product for a user, a row each."""
        features = np.zeros((sim.n_products, self.feature_dim))
        features[:, self.personas.index(sim.user_to_persona_map[user_id])] = 1.0
        places = np.searchsorted(self.categories, sim.products["category"].values)
        features[np.arange(sim.n_products), len(self.personas) + places] = 1.0
        return features


class AgentPolicy(zoosim.Policy):
    """A policy that asks an agent; it is made when the first visitor comes, since only then are the products known.

    `propensities` hold for agents that decide without chance: one that draws must define them here.
    """

    agent: Agent | None = None

    def make_agent(self, sim: Simulator) -> Agent:
        """Return a new agent for a shop."""
        raise NotImplementedError

    def select_action(self, context: zoosim.Context) -> int:
        # `int` would take 2.7 for 2.
        return operator.index(self.prepared(context).predict(context.user_id, self.sim))

    def update(
        self, context: zoosim.Context, action: int, reward: float, feedback: Any = None, next_context: Any = None
    ) -> None:
        self.prepared(context).update(context.user_id, action, reward, self.sim)

    def prepared(self, context: zoosim.Context) -> Agent:
        """Return the agent, and let its simulator know who comes."""
        if self.agent is None:
            self.sim = Simulator(self.spec, context)
            self.agent = self.make_agent(self.sim)
        self.sim.meet(context)
        return self.agent


class LinUCBAgent:
    """LinUCB with a ridge model for each product (Li, Chu, Langford & Schapire 2010, algorithm 1)."""

    def __init__(self, n_products: int, feature_engineer: FeatureEngineer, alpha: float = 1.0) -> None:
        self.feature_engineer = feature_engineer
        self.alpha = alpha
        self.A = np.tile(np.eye(feature_engineer.feature_dim), (n_products, 1, 1))
        self.b = np.zeros((n_products, feature_engineer.feature_dim))

    def predict(self, user_id: int, sim: Simulator) -> int:
        """Return the arm with the highest theta'x + alpha sqrt(x' A^-1 x)."""
        x = self.feature_engineer.create_features(user_id, sim)
        solved = np.linalg.solve(self.A, x[:, :, np.newaxis])[:, :, 0]  # A^-1 x of each arm
        return int(np.argmax((solved * self.b).sum(axis=1) + self.alpha * np.sqrt((solved * x).sum(axis=1))))

    def update(self, user_id: int, arm: int, reward: float, sim: Simulator) -> None:
        """Add the arm's row to its sums."""
        x = self.feature_engineer.create_features(user_id, sim)[arm]
        self.A[arm] += np.outer(x, x)
        self.b[arm] += reward * x


class DisjointLinUCB(AgentPolicy):
    """The agent above as a policy of the arena."""

    alpha: float = zoosim.parameter(0.2, low=0, help="how widely to explore")

    def make_agent(self, sim: Simulator) -> Agent:
        return LinUCBAgent(sim.n_products, FeatureEngineer(sim), self.alpha)
