"""Connections are bounded, in all and from one address, and a service may open as many files as that takes."""

import resource

import pytest

from zoosim.serving.protocol import OTHER_FILES, Connections, allow_connections


def test_one_address_has_half_of_the_connections_at_most(caplog: pytest.LogCaptureFixture) -> None:
    connections = Connections(10)
    assert [connections.open("a") for _ in range(6)] == [True] * 5 + [False]
    connections.close("a")
    assert [connections.open("b") for _ in range(6)] == [True] * 5 + [False]
    connections.close("b")
    assert not connections.open("c")
    connections.close("c")
    connections.close("a")
    assert connections.open("c")
    assert len(caplog.records) == 1  # once a minute
    assert "5 of them from its address; most_connections is 10" in caplog.text


@pytest.mark.parametrize(("soft", "hard", "most"), [(1_024, 10_000, 4_000), (1_024, 1_024, 824), (10_000, -1, 4_000)])
def test_the_soft_limit_of_open_files_is_raised(
    soft: int, hard: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [soft, hard]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: limits.__setitem__(slice(None), list(wanted)))
    assert allow_connections(4_000) == most
    assert limits == [max(soft, most + OTHER_FILES), hard]
