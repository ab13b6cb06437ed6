"""What is tried when policies are tuned: lists in all combinations, draws that begin alike, and what is refused."""

import numpy as np
import pytest

from zoosim.core.errors import ConfigError
from zoosim.experiments.search_space import read_spaces, settings_of
from zoosim.policies.registry import make_entry


def test_lists_are_tried_in_all_combinations_beside_the_policy_as_it_is() -> None:
    spaces = read_spaces(["d-linucb.alpha=0.1, 0.2,1e-3", "d-linucb.discount=0.9,0.99"])
    entry = make_entry("d-linucb", params={"alpha": 0.1, "discount": 0.9})
    tried = settings_of(entry, spaces["d-linucb"], None)
    assert tried[0] == entry
    assert [(each.params["alpha"], each.params["discount"]) for each in tried] == [
        *((0.1, 0.9), (0.1, 0.99)),  # the first is the policy as it is, which is tried once
        *((0.2, 0.9), (0.2, 0.99), (0.001, 0.9), (0.001, 0.99)),
    ]
    assert len({each.name for each in tried}) == 6
    assert all(each.name.startswith("d-linucb-") for each in tried[1:])
    assert settings_of(entry, {}, None) == [entry]


def test_ranges_are_drawn_from_and_more_draws_begin_alike() -> None:
    space = read_spaces(["neural-linear.alpha=0.01:10:log", "neural-linear.batch=16:64"])["neural-linear"]
    declared = make_entry("neural-linear").params
    if "batch" not in declared:
        space.pop("batch")
    few = settings_of(make_entry("neural-linear"), space, 10)
    many = settings_of(make_entry("neural-linear"), space, 200)
    assert many[:11] == few
    values = np.array([each.params["alpha"] for each in many[1:]])
    assert values.min() > 0.01
    assert values.max() < 10
    # 200 draws, half of them below the geometric mean of the ends: 3 standard errors are .11
    assert abs(np.mean(values < 0.316) - 0.5) < 0.11


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        ([], "over: nothing is to be tried, expected POLICY.KEY=A,B,C"),
        (["alpha=1"], "over: got 'alpha=1', expected POLICY.KEY=A,B,C"),
        (["linucb.alpha"], "over: got 'linucb.alpha', expected"),
        (["linucb.alpha=1,,2"], "over: got 'linucb.alpha=1,,2', expected"),
        (["linucb.alpha=2:1"], "expected LOW below HIGH"),
        (["linucb.alpha=0:1:log"], "expected LOW below HIGH, both above 0"),
        (["linucb.alpha=1:2:3"], "over: got 'linucb.alpha=1:2:3', expected"),
        (["linucb.alpha=[1"], "over: got 'linucb.alpha=[1', expected"),
        (["linucb.alpha=1", "linucb.alpha=2"], "linucb.alpha comes twice; give all its values at once"),
        (["linucb.alpa=1"], "over: linucb has no parameter 'alpa' (did you mean alpha?)"),
        (["linucb.alpha=1,-1"], "linucb.alpha: got -1.0, expected 0 to 100"),
        (["linucb.alpha=-1:1"], "linucb.alpha: got -1.0, expected 0 to 100"),
        (["random.alpha=1"], "over: random has no parameter 'alpha'; known: floor"),
    ],
)
def test_what_cannot_be_tried_is_refused(over: list[str], expected: str) -> None:
    def read() -> None:
        for policy, space in read_spaces(over).items():
            settings_of(make_entry(policy), space, None)

    with pytest.raises(ConfigError) as caught:
        read()
    assert expected in str(caught.value)
