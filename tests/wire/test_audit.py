"""``ottla audit`` reports transactions whose outcome was partly lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker
from ottla.cli.directories import NOT_WHOLE, audit
from ottla.protocol.records import batches
from tests.scenarios.brokers import Wire
from tests.scenarios.play import perform
from tests.scenarios.world import World

pytestmark = pytest.mark.wire


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The log directory of a stopped broker with one committed transaction on two partitions and one open transaction."""
    with Broker(data_dir=tmp_path) as broker:
        world = World(Wire(broker), "ottla", "")
        for command in (
            "topic t partitions=2",
            "A = init whole",
            "B = init open",
            "produce A t n=2",
            "produce A t/1",
            "offsets A g t=1",
            "commit A",
            "produce B t",
        ):
            perform(world, command)
        world.close()
    return tmp_path


def cut_last_batches(log: Path, count: int) -> None:
    """Remove the last batches, as a power cut may do."""
    raw = log.read_bytes()
    log.write_bytes(raw[: [at for at, _ in batches(raw)][-count]])


def test_undamaged_directory_passes_the_audit(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(str(directory)) == 0
    assert "1 decided transactions, 1 open: 0 incomplete" in capsys.readouterr().out


def test_audit_reports_a_lost_transaction_marker(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log,) = (directory / "t-1").glob("*.log")
    cut_last_batches(log, 1)
    assert audit(str(directory)) == NOT_WHOLE
    out = capsys.readouterr().out
    assert "t-1: a transaction of whole (producer 0): it was committed at epoch 1, and the partition has no marker of it" in out
    assert "t-1: a transaction of an unknown transactional id (producer 0): it is open since offset 0" in out


def test_audit_reports_a_hanging_transaction_if_the_transaction_log_is_lost(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for log in directory.glob("__transaction_state-*/*.log"):
        log.unlink()
    assert audit(str(directory)) == NOT_WHOLE
    assert (
        "t-0: a transaction of an unknown transactional id (producer 1): it is open since offset 3, and no coordinator"
        in capsys.readouterr().out
    )


def produced_by_librdkafka(broker: Broker, *ends: str) -> None:
    """Run several transactions of one producer with transaction version 1, so that all of them have the same epoch."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic("t", 2)]).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "whole"})
    producer.init_transactions(60)
    for end in ends:
        producer.begin_transaction()
        for partition in range(2):
            producer.produce("t", b"v", partition=partition)
        producer.flush(60)
        producer.commit_transaction(60) if end == "commit" else producer.abort_transaction(60)


def test_several_transactions_with_one_producer_epoch_pass_the_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(data_dir=tmp_path) as broker:
        produced_by_librdkafka(broker, "abort", "commit", "commit", "abort", "commit")
    assert audit(str(tmp_path)) == 0
    assert "5 decided transactions, 0 open: 0 incomplete" in capsys.readouterr().out


def test_audit_reports_a_lost_marker_of_the_second_commit_with_one_producer_epoch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = Broker(data_dir=tmp_path)
    broker.start()
    produced_by_librdkafka(broker, "commit", "commit")
    broker.kill()
    (log,) = (tmp_path / "t-1").glob("*.log")
    cut_last_batches(log, 2)
    assert audit(str(tmp_path)) == NOT_WHOLE
    reason = "it was committed at epoch 0, and the partition has no marker of it"
    assert f"t-1: a transaction of whole (producer 0): {reason}" in capsys.readouterr().out
    broker.start()
    broker.stop()
    (line,) = [line for line in broker.logs if "transaction_torn" in line]
    assert reason in line
