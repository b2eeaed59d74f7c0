"""The deadline for reading the values of a page, and the error message when it expires."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from socket import create_server
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.client.kafka_client import KafkaClient
from ottla.console import deadline as reading
from ottla.console.deadline import READING_TIMEOUT_S, TIMEOUT_S, Deadline, Late, new_client
from ottla.console.groups import groups
from ottla.console.page_request import Asked
from ottla.control.pages import Reach
from ottla.protocol.errors import Code
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata

GROUPS = 100


def reach_of(bootstrap: str = "kafka:9092", *, has_left: Callable[[], bool] = lambda: False) -> Reach:
    return Reach(bootstrap=bootstrap, from_within={}, on_loop=cast(Any, None), is_closed=threading.Event(), has_left=has_left)


def test_groups_without_coordinator_take_one_read_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    none = Coordinator(error_code=Code.COORDINATOR_NOT_AVAILABLE)
    listed = [ListedGroup(group_id=f"group-{at:03}", group_state="Empty", group_type="classic") for at in range(GROUPS)]
    broker = ScriptedBroker(
        answers={
            "Metadata": [metadata(nodes={1: "kafka"}, leaders={})],
            "ListGroups": [ListGroupsResponse(groups=listed)],
            "FindCoordinator": [FindCoordinatorResponse(coordinators=[none])],
        }
    )
    world = ScriptedCluster(kafka=broker)
    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: world.now_s))
    client = KafkaClient("kafka:9092")
    client.brokers = world.brokers(TIMEOUT_S)
    rows = groups(Asked(query={}, client=client, on_loop=cast(Any, None), deadline=Deadline(reach_of())))["part"].rows
    assert world.now_s <= READING_TIMEOUT_S + TIMEOUT_S
    assert (len(rows), {row["lag"] for row in rows}) == (GROUPS, {None})
    assert "COORDINATOR_NOT_AVAILABLE" in rows[0]["problem"]
    assert "within 10 s" in rows[-1]["problem"]


def test_client_sends_nothing_after_the_read_deadline() -> None:
    def check() -> None:
        raise Late("too late")

    with create_server(("127.0.0.1", 0)) as server:
        client = new_client(reach_of(f"127.0.0.1:{server.getsockname()[1]}"), check)
        with pytest.raises(Late, match="too late"):
            client.topics()
        asked, _ = server.accept()
        assert asked.recv(1) == b""
        asked.close()


def test_read_ends_at_its_deadline_or_with_its_browser_or_server(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_one_page_at_a_time_reads_records(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Deadline(reach_of()), Deadline(reach_of())
    with first.alone():
        monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + READING_TIMEOUT_S))
        with pytest.raises(Late, match="within 10 s"), second.alone():
            raise AssertionError
    second.begin()
    with second.alone():
        pass
