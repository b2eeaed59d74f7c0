"""The reasons that the console gives for a group's lag, in the words of ``ottla why``."""

from __future__ import annotations

from ottla.broker.view.groups import GroupDetail, GroupHold, GroupPosition
from ottla.broker.view.partitions import HeldPartition, OpenTransaction
from ottla.broker.view.transactions import TransactionDescription
from ottla.console.group_reasons import why_group_waits

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
    return why_group_waits(detail, 1_000, {"shop": "client till"})


def test_console_names_the_open_transaction_and_client_that_block_a_group() -> None:
    _, held, advice = why(GroupHold(held=HELD, holder=HOLDER, transaction=SHOP, may_be_elsewhere=False))
    assert held.startswith("read_committed consumers of orders:0 are held at 3 of 5: transaction of producer 7 epoch 1")
    assert "transactional id shop from client till, open for 1.0 s" in held
    assert "ottla txn abort shop" in advice


def test_console_reports_a_transaction_without_a_coordinator_as_hanging() -> None:
    lines = why(GroupHold(held=HELD, holder=HOLDER, transaction=None, may_be_elsewhere=False))
    assert any(line.startswith("it is hanging: end it with ottla txn abort --partition orders:0") for line in lines)


def test_console_does_not_report_a_transaction_of_another_coordinator_as_hanging() -> None:
    lines = why(GroupHold(held=HELD, holder=HOLDER, transaction=None, may_be_elsewhere=True))
    assert not any("hanging" in line for line in lines)
    assert lines[-1].endswith("transaction of producer 7 epoch 1, which this console cannot see; ottla why explains it")


def test_console_reports_an_unknown_end_offset_of_a_group_and_counts_no_lag() -> None:
    assert why(end=None) == [
        "group g has no members, so no records are read",
        "the lag in 1 partition is unknown, because this broker has no replica there",
    ]
