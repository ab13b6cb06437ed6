"""Policies over templates: what they choose by hand-sized numbers, and that they find the best template."""

from typing import Any

import numpy as np
import pytest

from zoosim import Context, PolicySpec
from zoosim.core.errors import ConfigError
from zoosim.core.id_table import find_slot
from zoosim.core.search_names import MOST_TEMPLATES, TEMPLATES
from zoosim.policies.base import Policy
from zoosim.policies.registry import find_class, make_entry
from zoosim.policies.templates.bandits import TemplateGreedy, TemplateLinUCB, TemplateTS

EIGHT = PolicySpec(user_dim=3, product_dim=8)


def made(cls: Any, **params: Any) -> Any:
    return cls(EIGHT, np.random.default_rng(0), **params)


def context(user: list[float], available: list[int] | None = None) -> Context:
    mask = np.ones(8, bool) if available is None else np.isin(np.arange(8), available)
    fields: dict[str, Any] = {"product_ids": np.arange(8), "products": np.eye(8), "available": mask}
    return Context(user_id=0, user=np.array(user), **fields)


def model_of(policy: Any, template: int) -> int:
    return int(find_slot(policy.state.templates, template))


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_static_template_is_always_its_own(name: str) -> None:
    policy = made(find_class(f"template-{name}"))
    own = TEMPLATES.index(name)
    assert policy.select_action(context([1.0, 0.0, 0.0])) == own
    assert policy.select_action(context([1.0, 0.0, 0.0], [own, 7, 0])) == own
    assert policy.propensities(context([1.0, 0.0, 0.0])).tolist() == np.eye(8)[own].tolist()
    without = [n for n in range(8) if n != own]
    assert policy.select_action(context([1.0, 0.0, 0.0], without)) == without[0]
    generic = made(find_class("template"), template=name)
    assert generic.select_action(context([1.0, 0.0, 0.0])) == own


def test_a_static_template_is_known_by_its_number() -> None:
    """Wherever it stands among the candidates; a name that fixes the template leaves nothing to choose."""
    here = context([1.0, 0.0, 0.0])
    turned = Context(**{**here, "product_ids": np.arange(8)[::-1], "products": np.eye(8)[::-1]})
    assert made(find_class("template-cm2")).select_action(turned) == 6
    with pytest.raises(ConfigError, match="template-cm2: unknown parameter 'template'"):
        made(find_class("template-cm2"), template="premium")
    assert find_class("template-cm2") is find_class("template-cm2")
    assert make_entry("template-cm2").fingerprint != make_entry("template-premium").fingerprint
    entry = make_entry("template", "mine", {"template": "premium"})
    assert entry.make(EIGHT, np.random.default_rng(0)).select_action(here) == 4


def test_a_static_template_is_found_by_its_name_among_those_of_the_shop() -> None:
    own = PolicySpec(user_dim=3, product_dim=2, templates=("plain", "dear"))
    policy = make_entry("template", "mine", {"template": "dear"}).make(own, np.random.default_rng(0))
    here: dict[str, Any] = {"product_ids": np.arange(2), "products": np.eye(2), "available": np.ones(2, bool)}
    assert policy.select_action(Context(user_id=0, user=np.zeros(3), **here)) == 1
    with pytest.raises(ConfigError, match="template: unknown template 'premium'; known: plain, dear"):
        make_entry("template-premium").make(own, np.random.default_rng(0))


def test_bounds_by_hand() -> None:
    """Template 2 earned 10 at x = [1, 1, 0, 0]: theta = 10/3 (1, 1), x' A^-1 x = 2/3; noise 100, one error of 10."""
    here = context([1.0, 0.0, 0.0])
    greedy, bold = made(TemplateGreedy), made(TemplateLinUCB, alpha=1.0)
    for policy in (greedy, bold):
        policy.update(here, 2, 10.0)
        assert policy.state.ridge.theta[model_of(policy, 2)].tolist() == pytest.approx([10 / 3, 10 / 3, 0, 0])
        assert policy.state.moments.tolist() == pytest.approx([100.0, 1.0])
    assert greedy.select_action(here) == 2
    assert 20 / 3 + 10 * np.sqrt(2 / 3) > 10 * np.sqrt(2)  # still ahead of those that were never tried
    assert bold.select_action(here) == 2
    timid = made(TemplateLinUCB, alpha=2.0)
    timid.update(here, 2, 10.0)
    assert 20 / 3 + 20 * np.sqrt(2 / 3) < 20 * np.sqrt(2)
    assert timid.select_action(here) == 0


def test_bounds_count_what_was_shown_before_its_reward_comes() -> None:
    """By hand: template 0 shown twice at x = [1, 1, 0, 0] has a variance of 2/5, against 2 before any reward.

    The widths begin to run ahead when a second decision comes before the reward of the first.
    """
    here = context([1.0, 0.0, 0.0])
    policy = made(TemplateLinUCB, alpha=1.0)
    actions = [policy.select_action(here) for _ in range(10)]
    assert actions == [0, 0, 1, 2, 3, 4, 5, 6, 7, 1]
    x = np.array([1.0, 1.0, 0.0, 0.0])

    def variance(ridge: Any) -> float:
        return float(x @ ridge.inverse[model_of(policy, 0)] @ x)

    assert variance(policy.state.ridge) == pytest.approx(2)
    assert variance(policy.state.widths.ahead) == pytest.approx(2 / 5)
    policy.update(here, 0, 0.0)
    assert variance(policy.state.ridge) == pytest.approx(2 / 3)
    assert variance(policy.state.widths.ahead) == pytest.approx(2 / 5)
    for action in actions[1:]:
        policy.update(here, action, 0.0)
    assert policy.state.widths.late[0] == 0
    assert variance(policy.state.ridge) == pytest.approx(2 / 5)


@pytest.mark.parametrize("cls", [TemplateGreedy, TemplateLinUCB, TemplateTS])
def test_templates_are_known_by_their_id(cls: Any) -> None:
    """The same templates in another order, and 40 of them, have the same models and chances."""
    rng = np.random.default_rng(3)
    policy = made(cls, discount=0.99)
    for n in range(200):
        ids = rng.permutation(40)[:8] - 5
        here = Context(**{**context(rng.random(3).tolist()), "product_ids": ids})
        policy.update(here, policy.select_action(here), float(n % 3))
    assert len(policy.state.turns) > 16
    again = made(cls, discount=0.99)
    again.load_state_dict(policy.state_dict())
    assert again.propensities(here).tolist() == policy.propensities(here).tolist()
    assert policy.propensities(here).sum() == 1.0
    chosen = ids[policy.recommend(here)]
    order = rng.permutation(8)
    turned = Context(**{**here, "product_ids": ids[order]})
    assert ids[order][policy.recommend(turned)] == chosen


def test_every_template_of_the_largest_library_keeps_its_model() -> None:
    policy = TemplateGreedy(PolicySpec(user_dim=1, product_dim=1), np.random.default_rng(0))
    numbers = np.arange(MOST_TEMPLATES)
    products: dict[str, Any] = {"products": np.zeros((len(numbers), 1)), "available": np.ones(len(numbers), bool)}
    here = Context(user_id=0, user=np.zeros(1), product_ids=numbers, **products)
    for number in numbers:
        policy.update(here, int(number), 1.0)
    assert {int(find_slot(policy.state.templates, int(number))) for number in numbers} == {
        *range(1, 1 + MOST_TEMPLATES)
    }


def test_exploration_is_scaled_by_the_noise_of_the_rewards() -> None:
    """The same choices whether rewards are EUR or cents."""
    chosen = []
    for scale in (1.0, 100.0):
        policy, rng, own = made(TemplateTS), np.random.default_rng(1), []
        for _ in range(300):
            here = context(rng.random(3).tolist())
            own.append(policy.select_action(here))
            policy.update(here, own[-1], scale * float(rng.random() < 0.1 * own[-1]))
        chosen.append(own)
    assert chosen[0][1:] == chosen[1][1:]


@pytest.mark.parametrize(("cls", "least"), [(TemplateLinUCB, 0.9), (TemplateTS, 0.9)])
def test_they_find_the_best_of_each_kind_of_visit(cls: type[Policy], least: float) -> None:
    """Three kinds of visit, rewards of 0 or 50, 3,000 visits, seed 2; blind to the kind it cannot be done."""
    chances = np.full((3, 8), 0.1)
    chances[[0, 1, 2], [1, 4, 6]] = 0.4
    shares = []
    for blind in (False, True):
        policy, rng = made(cls), np.random.default_rng(2)
        hits = []
        for _ in range(3_000):
            kind = int(rng.integers(3))
            here = context([1.0, 1.0, 1.0] if blind else np.eye(3)[kind].tolist())
            action = policy.select_action(here)
            policy.update(here, action, 50.0 * float(rng.random() < chances[kind, action]))
            hits.append(chances[kind, action] == 0.4)
        shares.append(np.mean(hits[-1_000:]))
    assert shares[0] > least
    assert shares[1] < 0.5


@pytest.mark.parametrize("cls", [TemplateLinUCB, TemplateTS])
def test_zeros_at_first_do_not_end_exploration(cls: type[Policy]) -> None:
    """Template 0 never pays, the others 10 each time: after 50 visits it is hardly shown, on 20 of 20 seeds."""
    for seed in range(20):
        policy = cls(EIGHT, np.random.default_rng(seed))
        actions = []
        for _ in range(100):
            here = context([1.0, 0.0, 0.0])
            actions.append(policy.select_action(here))
            policy.update(here, actions[-1], 0.0 if actions[-1] == 0 else 10.0)
        assert actions[-50:].count(0) <= 10


def test_states_of_others_are_refused() -> None:
    policy = made(TemplateTS)
    state = policy.state_dict()
    for other in (made(TemplateTS, alpha=9.0), made(TemplateTS, context="simple"), made(TemplateLinUCB)):
        with pytest.raises(ConfigError):
            other.load_state_dict(state)
    with pytest.raises(ConfigError):
        policy.load_state_dict({**state, "moments": np.array([-1.0, 3.0])})
