"""The size limit of a page event holds for any names and values from clients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from ottla.broker.view.groups import GroupDetail, GroupPosition
from ottla.broker.view.members import GroupMember
from ottla.broker.view.transactions import TransactionDescription
from ottla.client.explain.timeline import Timeline, TimelineEvent
from ottla.client.records.record import ConsumedRecord
from ottla.console import groups as groups_page
from ottla.console import site
from ottla.console import transactions as transactions_page
from ottla.console.groups import ASSIGNED_SHOWN, MEMBERS_SHOWN, METADATA_SHOWN, group
from ottla.console.page_request import Asked
from ottla.console.shown_record import HEADER_CHARACTERS_SHOWN, shown
from ottla.console.site import MAX_EVENT_BYTES
from ottla.console.steering import HITS_SHOWN, steering
from ottla.console.transactions import PARTITIONS_SHOWN, transaction
from ottla.control.faults.added_fault import AddedFault
from ottla.control.faults.fault import Fault
from ottla.control.faults.hits import Hit
from tests.console.asking import asked_with
from tests.console.test_open_page import OpenPageWorld, data_of

MANY = 5_000


def asked(query: dict[str, str], view: object = None, **controlled: Any) -> Asked:
    broker = SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: 0))
    history = SimpleNamespace(view=lambda name: None, holder=lambda name: None)
    client = cast(Any, SimpleNamespace(brokers=None))
    return asked_with(query, view=view, client=client, **{"broker": broker, "history": history, "clock": None, **controlled})


def test_console_shortens_long_record_header_lists() -> None:
    headers: list[tuple[str, bytes | None]] = [("n" * 900, b"\xff" * 900)] * 30
    record = ConsumedRecord("t", 0, 0, 0, None, b"\xff" * 900, headers, -1, -1, transactional=False, control=None)
    page = shown(record)
    assert (len(page["headers"]), page["more_headers"]) == (20, 10)
    assert {len(header["name"]) for header in page["headers"]} == {HEADER_CHARACTERS_SHOWN}
    assert {len(header["value"]["text"]) for header in page["headers"]} == {HEADER_CHARACTERS_SHOWN}
    assert {header["value"]["size_bytes"] for header in page["headers"]} == {900}
    assert (len(page["value"]["text"]), page["value"]["is_cut"]) == (1_000, True)


def test_console_shortens_long_partition_lists_of_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = [("orders", index) for index in range(MANY)]
    happened = [TimelineEvent(0, "begin", "a transaction begins", "", (1, 0), partitions)] * 200
    described = TransactionDescription(
        transactional_id="shop",
        state="Ongoing",
        producer_id=1,
        producer_epoch=0,
        timeout_ms=1_000,
        start_ms=0,
        partitions=partitions,
    )
    monkeypatch.setattr(transactions_page, "newest_timeline", lambda *given: Timeline(happened, []))
    view = SimpleNamespace(
        transaction=lambda name: described, topic=lambda name: SimpleNamespace(partitions=1), log_states=lambda of: [None]
    )
    page = transaction(asked({"id": "shop"}, view))
    for cut in (page["partitions"], page["events"][0]["partitions"]):
        assert len(cut) == PARTITIONS_SHOWN + 1
        assert cut[-2:] == [f"orders:{PARTITIONS_SHOWN - 1}", f"and {MANY - PARTITIONS_SHOWN:,} more"]


def test_console_shortens_long_group_member_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    assignment = {f"t{at:04}": list(range(30)) for at in range(MANY)} | {"empty": []}
    member = GroupMember(
        member_id="m", instance_id=None, client_id="c", host="/127.0.0.1", epoch=None, assignment=assignment, partitions=[]
    )
    position = GroupPosition(topic="orders", partition=0, committed=1, end=1, lag=0, metadata="x" * 4_096)
    detail = GroupDetail(
        group_id="billing",
        type="classic",
        state="Stable",
        epoch=None,
        assignor="range",
        members=[member] * MANY,
        positions=[position],
        holds=[],
    )
    monkeypatch.setattr(groups_page, "why_group_waits", lambda *given: ["a line"] * MANY)
    page = group(asked({"name": "billing"}, SimpleNamespace(group=lambda name: detail)))
    assert (len(page["members"]), page["more_members"]) == (MEMBERS_SHOWN, MANY - MEMBERS_SHOWN)
    assert page["members"][0]["assignment"] == {
        "t0000": list(range(30)),
        "t0001": [*range(ASSIGNED_SHOWN - 30), f"and {60 - ASSIGNED_SHOWN} more"],
        f"and {MANY - 1:,} more topics": [],
    }
    assert page["why"][-1].startswith("and 4,")
    assert len(page["part"].rows[0]["metadata"]) == METADATA_SHOWN
    assert len(msgspec.json.encode(page)) < MAX_EVENT_BYTES


def test_console_page_has_only_the_newest_hits_of_a_fault_without_their_requests() -> None:
    fault = AddedFault(1, Fault(api="Produce", observe=True), lambda number: None)
    fault.newest_hits.extend(Hit(api="Produce", connection_id=at, request={"topics": ["x"] * 20}) for at in range(100))
    page = steering(asked({}, faults=SimpleNamespace(all=lambda: [fault]), clock=None))
    (view,) = page["faults"]
    assert [hit.connection_id for hit in view.newest_hits] == list(range(100 - HITS_SHOWN, 100))
    assert not any(hit.request for hit in view.newest_hits)
    assert fault.newest_hits[-1].request, "the fault of the control API keeps its request"


def test_console_page_values_that_are_too_large_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = OpenPageWorld(iter(["x" * MAX_EVENT_BYTES, "small"]))
    monkeypatch.setattr(site, "time", SimpleNamespace(monotonic=lambda: world.now_s))
    page = world.page()
    kind, said = data_of(next(page))
    assert (kind, said) == (
        "refused",
        {"status": 409, "error": "this page has more than 4 MiB, which is not sent to a browser"},
    )
    assert data_of(next(page)) == ("values", "small")
