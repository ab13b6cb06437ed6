"""The learning loop over continuous boosts in one file: observe, plan by CEM, act, learn; beside two that do not learn.

    python scripts/ch07/continuous_actions_demo.py                      # 3,000 visits to 1,000 products: minutes
    python scripts/ch07/continuous_actions_demo.py --episodes 300 --radius 0.4

Three policies serve the same visitors of a search shop: boosts drawn anywhere, the static best (full boost on the
price), and an ensemble of 5 networks of 64 and 64 units that learns Q(x, a), with boosts searched by CEM where mean +
beta std is highest, beta = 2 exp(-3 t / T). Prints what each earned around some visits, and writes a page with a chart
and `decisions.csv`, with mean, std and reward of each decision, to runs/continuous-actions. The policy to take is
`item-critic`; `q-ensemble` is this loop with what makes it learn sooner.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
import polars as pl
from rich.console import Console
from rich.progress import track

from zoosim.core.checks import SMALLEST_RADIUS, check_optional, check_whole
from zoosim.core.errors import ConfigError
from zoosim.core.files import make_folder, write_text
from zoosim.core.rng import stream
from zoosim.core.search_config import SearchConfig
from zoosim.core.search_names import FEATURES
from zoosim.core.statistics import mean_interval
from zoosim.core.tables import fit_table
from zoosim.core.types import Context, FloatArray
from zoosim.experiments.request import MAX_SEED
from zoosim.optimizers import CEMConfig, cem_optimize
from zoosim.policies.q_ensemble import QEnsembleConfig, QEnsembleRegressor
from zoosim.report.drawing import COLORS, axis_style, layout_style, legend_style
from zoosim.report.sections import Drawing, Page, PageTable, render_sections
from zoosim.worlds.search.boosts import BoostWorld
from zoosim.worlds.search.shop import SearchShop
from zoosim.worlds.search.world import build_search_world

A_MAX = 0.5
BETA = 2.0
DECAY = 3.0
BATCH = 64
WARM_UP = 30
"""Visits with boosts drawn anywhere, before there is something to learn from."""

WINDOW = 500
"""Visits whose rewards a row of the table and a point of the chart average, at most."""

QUESTION = "How soon does a learner of continuous boosts earn more than the static best, on the same visitors?"
RANDOM, STATIC, LEARNER = "random", "static best", "CEM on a Q-ensemble"


class Decision(NamedTuple):
    """What the learner decided: `boosts (10,)`, and what its ensemble said of them; NaN before it has learned."""

    boosts: FloatArray
    mean: float
    std: float


class CemAgent:
    """Learn Q(x, a) with an ensemble, and choose the boosts with the highest mean + beta std.

    Args:
        episodes: How many visits there will be.
        seed: Of networks, searches and the replay memory's draws.
        radius: Euclidean radius of a trust region around the static best; None for none.
    """

    def __init__(self, episodes: int, seed: int, radius: float | None = None) -> None:
        self.episodes = episodes
        self.rng = stream(seed, "cem agent")
        self.search = CEMConfig.fast(A_MAX, radius)
        self.base = static_best() if radius is not None else None
        self.q: QEnsembleRegressor | None = None
        self.seed = seed
        self.states: list[FloatArray] = []
        self.actions: list[FloatArray] = []
        self.rewards: list[float] = []

    def beta(self, episode: int) -> float:
        """Return the weight of std at a visit."""
        return BETA * float(np.exp(-DECAY * episode / self.episodes))

    def select_action(self, state: FloatArray, episode: int) -> Decision:
        """Search the boosts to serve a visit with."""
        if self.q is None:
            return Decision(self.rng.uniform(-A_MAX, A_MAX, len(FEATURES)), np.nan, np.nan)
        objective = self.q.objective(state, self.beta(episode))
        found = cem_optimize(objective, len(FEATURES), self.search, rng=self.rng, base_action=self.base)
        mean, std = self.q.predict(state[np.newaxis], found.action[np.newaxis])
        return Decision(found.action, float(mean[0]), float(std[0]))

    def learn(self, state: FloatArray, boosts: FloatArray, reward: float) -> None:
        """Remember a visit, and train on draws from the memory."""
        self.states.append(state)
        self.actions.append(boosts)
        self.rewards.append(reward)
        count = len(self.rewards)
        if count < WARM_UP:
            return
        # The first training sees all of the warm-up some times over, later ones two batches of the memory.
        rows = np.arange(count) if self.q is None else self.rng.integers(count, size=2 * BATCH)
        n_epochs = 50 if self.q is None else 1
        if self.q is None:
            config = QEnsembleConfig(n_ensembles=5, hidden_sizes=(64, 64), learning_rate=3e-3, seed=self.seed)
            self.q = QEnsembleRegressor(state_dim=len(state), action_dim=len(FEATURES), config=config)
        states = np.array([self.states[row] for row in rows])
        actions = np.array([self.actions[row] for row in rows])
        rewards = np.array([self.rewards[row] for row in rows])
        self.q.update_batch(states, actions, rewards, n_epochs=n_epochs, batch_size=BATCH)


def static_best() -> FloatArray:
    """Return the boosts `(10,)` of the static best: full weight on the price, nothing else."""
    boosts = np.zeros(len(FEATURES))
    boosts[FEATURES.index("price")] = A_MAX
    return boosts


def encode_context(context: Context) -> FloatArray:
    """Return what the learner sees of a visit: segment, query type, estimated tastes and the base ranker's top."""
    features: FloatArray = context.features
    return features


def run(episodes: int, products: int, seed: int, radius: float | None = None) -> pl.DataFrame:
    """Serve the same visits by all three policies.

    Returns:
        One row per visit and policy: `episode`, `policy`, `reward` and `gmv` in EUR; of the learner also `beta`,
        `mean` and `std` of what it chose, and `ms`, the time of the decision.
    """
    config = SearchConfig(n_products=products, a_max=A_MAX)
    world = BoostWorld(SearchShop(build_search_world(config, seed=seed)))
    cem_agent = CemAgent(episodes, seed, radius)
    anywhere = stream(seed, "random boosts")
    rows = []
    for episode in track(range(episodes), "visits", console=Console(stderr=True)):
        visit = world.arrive(episode)
        state = encode_context(world.context(visit))
        started = time.perf_counter()
        decision = cem_agent.select_action(state, episode)
        ms = 1e3 * (time.perf_counter() - started)
        policies = {
            RANDOM: anywhere.uniform(-A_MAX, A_MAX, len(FEATURES)),
            STATIC: static_best(),
            LEARNER: decision.boosts,
        }
        for name, boosts in policies.items():
            outcome = world.serve(visit, boosts)
            row = {"episode": episode, "policy": name, "reward": outcome.reward, "gmv": outcome.parts["gmv"]}
            if name == LEARNER:
                row |= {"beta": cem_agent.beta(episode), "mean": decision.mean, "std": decision.std, "ms": ms}
                cem_agent.learn(state, boosts, outcome.reward)
            rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def build_page(rows: pl.DataFrame) -> Page:
    """Return a page with a verdict, the table and the chart."""
    episodes = 1 + int(rows["episode"].max())  # type: ignore[arg-type]
    ends = sorted({max(1, episodes // 6), max(1, episodes // 2), episodes})
    by_policy = {name: rows.filter(policy=name).sort("episode") for name in (RANDOM, STATIC, LEARNER)}
    cells = []
    for end in ends:
        cells += [_table_row(name, _before(own, end)) for name, own in by_policy.items()]
    last = {name: _before(own, episodes)["reward"].to_numpy() for name, own in by_policy.items()}
    lead = mean_interval(last[LEARNER] - last[STATIC])
    margin = "" if lead.high is None else f" ± {lead.high - lead.mean:.2f}"
    gain = lead.mean / last[STATIC].mean()
    answer = (
        f"In the last {len(last[STATIC]):,} of {episodes:,} visits the learner earns EUR {lead.mean:+.2f}{margin} per "
        f"visit against the static best, {gain:+.0%}."
    )
    ms = float(np.median(by_policy[LEARNER]["ms"].to_numpy()))
    decided = f"A decision takes {ms:.2f} ms in the median."
    caption = f"Rewards and GMV in EUR, means of the {WINDOW} visits before (fewer at first) with 95% intervals."
    heads = ("visits", "policy", "mean reward", "95% interval", "mean GMV")
    table = PageTable("What each earned", heads, cells, n_text=2, caption=caption)
    drawing = Drawing("Mean reward of the visits before", caption, _chart(by_policy))
    return Page(answer, [table], [drawing], details=[decided, "One shop and one seed: other seeds differ."])


def _before(rows: pl.DataFrame, end: int) -> pl.DataFrame:
    """Return the rows of the visits before visit `end`, at most `WINDOW`, and not more than a half of them."""
    return rows[end - min(WINDOW, (end + 1) // 2) : end]


def _table_row(name: str, rows: pl.DataFrame) -> tuple[str, ...]:
    reward = mean_interval(rows["reward"].to_numpy())
    interval = "" if reward.low is None else f"{reward.low:.2f} to {reward.high:.2f}"
    gmv = float(rows["gmv"].to_numpy().mean())
    label = f"{name} (beta {rows['beta'][-1]:.2f})" if name == LEARNER else name
    return f"{1 + rows['episode'][-1]:,}", label, f"{reward.mean:.2f}", interval, f"{gmv:.2f}"


def _chart(by_policy: dict[str, pl.DataFrame]) -> go.Figure:
    """Draw each policy's mean reward over the visits before."""
    figure = go.Figure(layout=layout_style(height=420, margin={"l": 60, "r": 30, "t": 40, "b": 50}, **legend_style()))
    for color, (name, rows) in zip(COLORS, by_policy.items(), strict=False):
        means = rows["reward"].rolling_mean(WINDOW, min_samples=1)
        figure.add_scatter(x=rows["episode"] + 1, y=means, name=name, mode="lines", line={"color": color, "width": 2})
    figure.update_xaxes(**axis_style(), title_text="visits")
    figure.update_yaxes(**axis_style(), title_text="EUR per visit")
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the loop, print its table and write its page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=3_000, help="visits")
    parser.add_argument("--products", type=int, default=1_000, help="products of the shop")
    parser.add_argument("--seed", type=int, default=0, help="of the shop, its visitors and the learner")
    parser.add_argument("--radius", type=float, help="of a trust region around the static best; none if left out")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/continuous-actions"), help="folder of page and decisions"
    )
    options = parser.parse_args(arguments)
    try:
        check_whole("--episodes", options.episodes, 2, 1_000_000)
        check_whole("--products", options.products, 1, 100_000)
        check_whole("--seed", options.seed, 0, MAX_SEED)
        check_optional("--radius", options.radius, SMALLEST_RADIUS, 1e9)
        make_folder(options.out)
    except ConfigError as error:
        parser.error(str(error))
    rows = run(options.episodes, options.products, options.seed, options.radius)
    page = build_page(rows)
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = ["python", "scripts/ch07/continuous_actions_demo.py", *given]
    write_text(options.out / "report.html", render_sections("continuous actions", QUESTION, page, command))
    rows.filter(policy=LEARNER).write_csv(options.out / "decisions.csv")
    print("\n".join(fit_table(page.tables[0].as_text()).lines))
    print(f"\n{page.verdict}\npage: {(options.out / 'report.html').resolve().as_uri()}")


if __name__ == "__main__":
    main()
