"""Messages of the learner to the process that decides: the lines of its state that changed, or all of it.

A state is tens of megabytes, of which some kilobytes change with the rewards of a second. So arrays are compared in
lines of 64 bytes, and what differs is sent. Where arrays grew, all is sent.
"""

import json
from collections.abc import Mapping
from typing import TypeGuard

import msgspec
import numpy as np
from numpy.typing import NDArray

from zoosim.core.state import saves_by_itself
from zoosim.policies.base import Policy
from zoosim.policies.kernel import KernelPolicy
from zoosim.policies.persistence import packed_state, unpack_state
from zoosim.serving.console.watch import Figures
from zoosim.serving.events import CHAMPION, Row
from zoosim.serving.launches.report import FailedCheck, LaunchReport
from zoosim.serving.shadows.report import ShadowReport

LINE = 64
"""Bytes that are compared, and sent, together."""

WORDS = LINE // 8
"""Numbers of 64 bits in a line: 8, as many as such a number has bytes."""

FULL_LINE = np.dtype((np.void, LINE))
"""A line as one item of an array: such items are moved whole, which takes a third of the time of moving bytes."""

BLOCK = 2**15
"""Such numbers that are compared at once: 256 kB of each state."""

SMALL = 2**12
"""Bytes of an array that are compared as a whole before its lines are: to copy so few takes less than a microsecond."""

PLAIN = "plain"
"""The name of what a state holds beside arrays, as the bytes of its JSON."""


class PackedArray(msgspec.Struct, array_like=True):
    """An array as plain values."""

    dtype: str
    shape: tuple[int, ...]
    content: memoryview


class News(msgspec.Struct, array_like=True):
    """News of the learner since its last message, from the log behind the position `after` and up to `position`.

    `rows` are what was said there of models, rules and products, `origin` is what the policy of the `arm` began from,
    `counts` say what came of its decisions, `due` is the time at which the next one of any arm is over: 0 for at once,
    None for never, and `time` is that of the newest row that was read, 0 where none was. `last_feedback` is when
    feedback came last, `silence` says what is wrong where it has ceased, `launch` how a launch stands, `console` what
    the console shows, and `shadows` what shadows would have earned; None where that was told just now.
    """

    after: int
    position: int
    origin: str
    rows: list[Row] = []
    counts: dict[str, int] = {}
    due: int | None = None
    time: int = 0
    arm: str = CHAMPION
    last_feedback: int = 0
    silence: FailedCheck | None = None
    launch: LaunchReport | None = None
    console: Figures | None = None
    shadows: list[ShadowReport] | None = None


class Whole(msgspec.Struct, array_like=True, tag="whole"):
    """All that was learned from the log.

    `state` is JSON, since MessagePack has no numbers as long as the state of a generator.
    """

    news: News
    state: str
    arrays: dict[str, PackedArray]


class StateChanges(msgspec.Struct, array_like=True, tag="changes"):
    """Changes of a state since the last message: by array, the numbers of lines and their bytes."""

    news: News
    lines: dict[str, tuple[bytes, bytes]]


Message = Whole | StateChanges

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Message).decode


# A difference does not say which state it is to. It need not: messages come through one pipe, in order, and a learner
# that was started again begins with the whole state. Who has lost its state asks for the whole, and takes no difference
# before that.
class Publisher:
    """Remembers what was told of a policy, and says what is new."""

    def __init__(self) -> None:
        self._known: dict[str, NDArray[np.uint8]] | None = None
        self._origin = ""

    def message(self, policy: Policy, news: News) -> Message:
        """Return what is new in a policy's state, to be encoded before the policy learns on.

        Args:
            policy: The policy.
            news: What goes with it, with the position that the policy's state is at.
        """
        now = {name: _bytes_of(array) for name, array in _arrays_of(policy).items()}
        old = self._known
        same_sizes = old is not None and {n: len(a) for n, a in old.items()} == {n: len(a) for n, a in now.items()}
        is_same_origin = news.origin == self._origin
        self._origin = news.origin
        if old is None or not same_sizes or not is_same_origin:
            # Copies: the policy goes on to change its arrays in place, and the next message is the difference to these.
            self._known = {name: array.copy() for name, array in now.items()}
            state, arrays = packed_state(policy)
            # Views: the state may be most of the memory.
            packed = {name: PackedArray(a.dtype.str, a.shape, _bytes_of(a).data) for name, a in arrays.items()}
            return Whole(news, json.dumps(state), packed)
        lines = {}
        for name, array in now.items():
            numbers = _changed_lines(old[name], array)
            if len(numbers):
                lines[name] = numbers.astype("<u4").tobytes(), _read_lines(array, numbers)
        # What is known is changed in place, too: it would take longer to copy a large state than to compare it.
        _write(lines, old)
        return StateChanges(news, lines)


def take_whole(policy: Policy, message: Whole) -> None:
    """Give a policy a state that was published whole; raises `DataError` for one that does not fit it."""
    arrays = {
        name: np.frombuffer(array.content, array.dtype).reshape(array.shape) for name, array in message.arrays.items()
    }
    unpack_state(policy, json.loads(message.state), arrays)


def take_changes(policy: Policy, message: StateChanges) -> None:
    """Write changed lines into the state of a policy that has what was published before."""
    if not message.lines:
        return
    # In place where that is possible: unpacking a state checks and copies all of it each time.
    if _is_written_in_place(policy):
        policy.change_state(lambda arrays: _write(message.lines, arrays))
        return
    arrays = {name: np.array(array, order="C") for name, array in _arrays_of(policy).items()}
    _write(message.lines, arrays)
    unpack_state(policy, json.loads(arrays.pop(PLAIN).tobytes()), arrays)


def _write(lines: Mapping[str, tuple[bytes, bytes]], arrays: Mapping[str, np.ndarray]) -> None:
    """Write lines into arrays, by the name of the array: their ascending numbers and what they hold."""
    for name, (numbers, content) in lines.items():
        target = arrays[name].reshape(-1).view(np.uint8)
        indices = np.frombuffer(numbers, "<u4").astype(np.int64)
        end = len(target) // LINE * LINE
        n_full = int(np.searchsorted(indices, end // LINE))
        target[:end].view(FULL_LINE)[indices[:n_full]] = np.frombuffer(content, FULL_LINE)[:n_full]
        if n_full < len(indices):  # the last one, which was filled up with zeros to be sent
            target[end:] = np.frombuffer(content, np.uint8)[n_full * LINE :][: len(target) - end]


def _arrays_of(policy: Policy) -> dict[str, np.ndarray]:
    """Return all that a policy has learned as arrays by name; plain values are those of their JSON."""
    if _is_written_in_place(policy):
        return policy.learned_in_use()
    state, arrays = packed_state(policy)
    return {**arrays, PLAIN: np.frombuffer(json.dumps(state).encode(), np.uint8)}


def _is_written_in_place(policy: Policy) -> TypeGuard[KernelPolicy]:
    """Return whether a policy has learned nothing but arrays that may change in place."""
    return isinstance(policy, KernelPolicy) and not saves_by_itself(policy)


def _bytes_of(array: np.ndarray) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _read_lines(array: NDArray[np.uint8], numbers: NDArray[np.int64]) -> bytes:
    """Return lines by their ascending numbers; the last of the array is filled up with zeros."""
    end = len(array) // LINE * LINE
    n_full = int(np.searchsorted(numbers, end // LINE))
    content = array[:end].view(FULL_LINE).take(numbers[:n_full]).tobytes()
    if n_full < len(numbers):
        content += array[end:].tobytes().ljust(LINE, b"\0")
    return content


def _changed_lines(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the numbers of the lines that differ, ascending."""
    # Most arrays of small policies are as they were, which is known without a look at their lines.
    if len(after) <= SMALL and before.tobytes() == after.tobytes():
        return np.zeros(0, np.int64)
    full = len(after) // LINE * LINE
    # Compared as bits: as numbers, NaN would differ from itself, and -0.0 would not differ from 0.0.
    old_words = before[:full].view(np.uint64)
    new_words = after[:full].view(np.uint64)
    numbers = [np.zeros(0, np.int64)]
    # Most blocks are the same, and are known to be before anybody looks for lines; what is compared stays in the cache.
    for start in range(0, len(new_words), BLOCK):
        differ = old_words[start : start + BLOCK] != new_words[start : start + BLOCK]
        if differ.any():
            # The comparisons of a line, a byte each, are one number, which is 0 where all of it is the same.
            numbers.append(start // WORDS + np.flatnonzero(differ.view(np.uint64)))
    if before[full:].tobytes() != after[full:].tobytes():
        numbers.append(np.array([full // LINE]))
    return np.concatenate(numbers)
