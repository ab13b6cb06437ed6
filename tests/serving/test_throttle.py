"""What may come with every request is said once a minute."""

from zoosim.serving.throttle import Throttle


def test_a_line_is_said_once_in_a_while() -> None:
    moments = iter([0.0, 1.0, 59.9, 60.0, 61.0, 200.0])
    throttle = Throttle(60.0, lambda: next(moments))
    assert [throttle.allows() for _ in range(6)] == [True, False, False, True, False, True]
