"""Hosts that answer, and hosts that do not."""

from __future__ import annotations

import socket
import threading

import pytest

from resultant.networks import hub


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "getproxies", dict)


def test_host_that_accepts_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert hub.reachable(address)
    # The port is closed now.
    assert not hub.reachable(address)


def test_search_for_a_host_does_not_last(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ended, connected = [], threading.Event(), []

    def connect(address: tuple[str, int], timeout: float) -> None:
        asked.append(address)
        connected.append(ended.wait(30))

    monkeypatch.setattr(socket, "create_connection", connect)
    assert not hub.reachable("https://hub.example", seconds=0.05)
    assert asked == [("hub.example", 443)] and not connected
    ended.set()


def test_proxy_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "getproxies", lambda: {"https": "http://proxy:3128"})
    monkeypatch.setattr(socket, "create_connection", pytest.fail)
    assert hub.reachable("https://hub.example")


def test_other_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example")
    assert hub.hub_host() == "https://mirror.example"
