"""The reasons that the console gives for a group's lag, in the words of ``ottla why``."""

from __future__ import annotations

from contextlib import closing

from ottla.broker.view.groups import GroupDetail, GroupHold, GroupPosition
from ottla.broker.view.partitions import HeldPartition, OpenTransaction
from ottla.broker.view.transactions import TransactionDescription
from ottla.console.group_reasons import why_group_waits
from ottla.console.site import Console, OpenPage
from tests.console.test_deadline import reach_of

HELD = HeldPartition(topic="orders", partition=0, last_stable_offset=3, high_watermark=5)
HOLDER = OpenTransaction(producer_id=7, producer_epoch=1, start_offset=3)
SHOP = TransactionDescription(
    transactional_id="shop",
    state="Ongoing",
    producer_id=7,
    producer_epoch=1,
    timeout_ms=60_000,
    start_ms=0,
    partitions=[("orders", 0)],
)


def why(*holds: GroupHold, end: int | None = 5) -> list[str]:
    position = GroupPosition(topic="orders", partition=0, committed=3, end=end, lag=None if end is None else end - 3)
    detail = GroupDetail(
        group_id="g", type="classic", state="Empty", epoch=None, assignor="", members=[], positions=[position], holds=list(holds)
    )
    return why_group_waits(detail, 1_000, {"shop": "client till"}, ["--bootstrap", "b:1"])


def test_console_names_the_open_transaction_and_client_that_block_a_group() -> None:
    _, held, advice = why(GroupHold(held=HELD, holder=HOLDER, transaction=SHOP, may_be_elsewhere=False))
    assert held.startswith("read_committed consumers of orders:0 are held at 3 of 5: transaction of producer 7 epoch 1")
    assert "transactional id shop from client till, open for 1.0 s" in held
    assert advice.endswith(": ottla txn abort --bootstrap b:1 shop"), "the command works as it stands"


def test_console_reports_a_transaction_without_a_coordinator_as_hanging() -> None:
    lines = why(GroupHold(held=HELD, holder=HOLDER, transaction=None, may_be_elsewhere=False))
    assert "it is hanging: end it with ottla txn abort --partition orders:0 --start-offset 3 --bootstrap b:1" in lines


def test_console_does_not_report_a_transaction_of_another_coordinator_as_hanging() -> None:
    lines = why(GroupHold(held=HELD, holder=HOLDER, transaction=None, may_be_elsewhere=True))
    assert not any("hanging" in line for line in lines)
    assert lines[-1].endswith("of producer 7 epoch 1, which this console cannot see; ottla why --bootstrap b:1 g explains it")


def test_commands_of_a_console_page_have_the_connection_options_of_its_cluster() -> None:
    console = Console(of_cluster=["--client-config", "client.properties"])
    page = console.events("/console/v1/group", {"name": "g"}, reach_of("kafka:9092"))
    assert isinstance(page, OpenPage)
    with closing(page):
        assert page.asked().of_cluster == ["--bootstrap", "kafka:9092", "--client-config", "client.properties"]


def test_console_reports_an_unknown_end_offset_of_a_group_and_counts_no_lag() -> None:
    assert why(end=None) == [
        "group g has no members, so no records are read",
        "the lag in 1 partition is unknown, because this broker has no replica there",
    ]
