"""Messages of the learner: who takes them has the same state, and they hold the lines that changed."""

import numpy as np
import pytest

from zoosim.policies.checks.shop import SMALL
from zoosim.policies.products.visitor_linear import VisitorLinUCB
from zoosim.serving import publishing
from zoosim.serving.publishing import (
    LINE,
    Message,
    News,
    Publisher,
    StateChanges,
    Whole,
    decode,
    encode,
    take_changes,
    take_whole,
)

NEWS = News(0, 1, "origin")


def made() -> VisitorLinUCB:
    return VisitorLinUCB(SMALL.spec, np.random.default_rng(0), visits=3)


def take(policy: VisitorLinUCB, message: Message) -> None:
    if isinstance(message, Whole):
        take_whole(policy, message)
    else:
        take_changes(policy, message)


def test_who_takes_messages_has_the_state_of_who_sent_them() -> None:
    """Also right after the memory of visitors has grown, when all is sent."""
    publisher, policy, other = Publisher(), made(), made()
    kinds = []
    for visit in range(70):
        context = SMALL.context(visit)
        policy.update(type(context)({**context, "user_id": visit}), visit % 5, float(visit % 2))
        message = decode(encode(publisher.message(policy, NEWS)))
        kinds.append(type(message))
        take(other, message)
        mine, theirs = policy.state_dict(), other.state_dict()
        assert all(np.array_equal(array, theirs[name]) for name, array in mine.items())
    assert kinds[0] is Whole
    assert kinds.count(Whole) == 2
    assert isinstance(publisher.message(policy, NEWS), StateChanges)


def test_a_reward_sends_few_lines() -> None:
    publisher, policy = Publisher(), made()
    publisher.message(policy, NEWS)
    policy.update(SMALL.context(0), 1, 1.0)
    message = publisher.message(policy, NEWS)
    assert isinstance(message, StateChanges)
    _, content = message.lines["visitors.visits"]
    assert len(content) <= 2 * LINE  # a visit of a few numbers of 4 bytes
    message = publisher.message(policy, NEWS)
    assert isinstance(message, StateChanges)
    assert not message.lines


@pytest.mark.parametrize("size", [5, LINE, 3 * LINE + 7, 40 * LINE, 40 * LINE + 63])
def test_lines_that_differ_are_found(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte i belongs to line i // LINE, in any block."""
    monkeypatch.setattr(publishing, "BLOCK", 4 * publishing.WORDS)
    rng = np.random.default_rng(size)
    for count in range(1, 6):
        before = rng.integers(0, 255, size).astype(np.uint8)
        after = before.copy()
        places = rng.integers(0, size, count)
        after[places] ^= 1
        expected = np.flatnonzero([(before[i : i + LINE] != after[i : i + LINE]).any() for i in range(0, size, LINE)])
        numbers = publishing._changed_lines(before, after)
        np.testing.assert_array_equal(numbers, expected)
        content = publishing._read_lines(after, numbers)
        assert len(content) == LINE * len(numbers)
        for place, number in enumerate(numbers):
            part = after[number * LINE : (number + 1) * LINE]
            assert content[place * LINE : (place + 1) * LINE] == part.tobytes().ljust(LINE, b"\0")
        publishing._write({"array": (numbers.astype("<u4").tobytes(), content)}, {"array": before})
        np.testing.assert_array_equal(before, after)
