"""The deadline for reading the values of a page, and the error message when it expires."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from socket import create_server
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.console import deadline as reading
from ottla.console.deadline import READING_TIMEOUT_S, Deadline, Late, new_client
from ottla.control.pages import Reach


def reach_of(bootstrap: str = "kafka:9092", *, has_left: Callable[[], bool] = lambda: False) -> Reach:
    return Reach(
        bootstrap=bootstrap,
        own_addresses=frozenset(),
        open_connection=cast(Any, None),
        loop=cast(Any, None),
        is_closed=threading.Event(),
        has_left=has_left,
    )


def test_console_client_sends_no_requests_after_the_read_deadline() -> None:
    def check() -> None:
        raise Late("too late")

    with create_server(("127.0.0.1", 0)) as server:
        client = new_client(reach_of(f"127.0.0.1:{server.getsockname()[1]}"), check)
        with pytest.raises(Late, match="too late"):
            client.topics()
        asked, _ = server.accept()
        assert asked.recv(1) == b""
        asked.close()


def test_console_record_read_ends_at_its_deadline_or_with_its_browser_or_server(monkeypatch: pytest.MonkeyPatch) -> None:
    Deadline(reach_of()).check()
    with pytest.raises(Late):
        Deadline(reach_of(has_left=lambda: True)).check()
    again = Deadline(reach_of())
    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + READING_TIMEOUT_S))
    with pytest.raises(Late, match="within 10 s"):
        again.check()
    again.begin()
    again.check()
    closed = reach_of()
    closed.is_closed.set()
    with pytest.raises(Late):
        Deadline(closed).check()


def test_only_one_console_page_at_a_time_reads_records(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Deadline(reach_of()), Deadline(reach_of())
    with first.alone():
        monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + READING_TIMEOUT_S))
        with pytest.raises(Late, match="within 10 s"), second.alone():
            raise AssertionError
    second.begin()
    with second.alone():
        pass
