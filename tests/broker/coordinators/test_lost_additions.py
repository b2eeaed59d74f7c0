"""A power cut loses the record that adds a partition to a transaction, but not its batch: the restart adds the partition again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.coordinator.result import LogRecord
from ottla.coordinator.transaction.metadata import EXHAUSTED_EPOCH, TxnMetadata, from_record
from ottla.coordinator.transaction.states import COMPLETED
from ottla.protocol.java_hash import partition_for
from ottla.protocol.records import batches, read_records
from ottla.protocol.transaction_states import TxnState
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from ottla.simulation.memory_filesystem import MemoryFilesystem
from tests.operations.histories import cut
from tests.scenarios.play import perform
from tests.scenarios.views import PARTITIONS, visible
from tests.scenarios.world import World

SETTINGS = {
    "ottla.durability": "power",
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "offsets.topic.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
STATE = ("__transaction_state", partition_for("x", PARTITIONS))
STATE_PATH = f"{DATA_DIR}/{STATE[0]}-{STATE[1]}/00000000000000000000.log"


@pytest.fixture
def disk() -> FaultyFilesystem:
    return FaultyFilesystem()


@pytest.fixture
def broker(disk: FaultyFilesystem) -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker(SETTINGS, fs=disk).start()
    yield broker
    assert broker.bugs == 0
    broker.abandon()


@pytest.fixture
def world(broker: SimulatedBroker) -> Iterator[World]:
    world = World(broker, "ottla", "")
    for command in ("topic t", "topic u", "A = init x timeout=60000"):
        perform(world, command)
    yield world
    world.close()


def power_cut(broker: SimulatedBroker, world: World, is_lost: Callable[[TxnMetadata], bool]) -> None:
    """Restart without the trailing records of the coordinator's log for which ``is_lost`` holds."""
    broker.kill()
    world.forget_connection()
    fs = broker.fs
    assert isinstance(fs, MemoryFilesystem)
    raw, lost_from = bytes(fs.files[STATE_PATH]), None
    for at, header in batches(raw):
        for record in read_records(raw[at : at + header.size_bytes]):
            metadata = from_record(LogRecord(record.key, record.value))[1]
            assert metadata is not None
            if not is_lost(metadata):
                lost_from = None
            elif lost_from is None:
                lost_from = record.offset
    assert lost_from is not None
    cut(fs, STATE, lost_from)
    broker.start()
    assert broker.broker.torn == []


def is_ongoing(metadata: TxnMetadata) -> bool:
    return metadata.state is TxnState.ONGOING


def is_ongoing_or_complete(metadata: TxnMetadata) -> bool:
    return is_ongoing(metadata) or metadata.state in COMPLETED


@pytest.mark.entry("STO-18")
def test_restart_after_a_power_cut_repeats_a_lost_partition_addition_to_the_first_transaction(
    broker: SimulatedBroker, world: World
) -> None:
    perform(world, "produce A t")
    power_cut(broker, world, is_ongoing)
    assert perform(world, "describe x").startswith("Ongoing")
    assert perform(world, "produce A u").startswith("NONE")
    assert perform(world, "commit A") == "NONE p1 e1"
    assert visible(world, ("t", 0), committed=True) == ["a1"]
    assert visible(world, ("u", 0), committed=True) == ["a2"]


def test_restart_after_a_power_cut_repeats_lost_additions_of_several_partitions(broker: SimulatedBroker, world: World) -> None:
    assert perform(world, "produce_all A t,u") == "NONE @0"
    power_cut(broker, world, is_ongoing)
    (shard,) = broker.broker.transactions.shards()
    assert shard.ids["x"].partitions == {("t", 0), ("u", 0)}
    assert perform(world, "commit A") == "NONE p1 e1"
    assert visible(world, ("t", 0), committed=True) == ["a1"]
    assert visible(world, ("u", 0), committed=True) == ["a2"]


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_restart_repeats_a_lost_partition_addition_that_followed_a_lost_completion_record(
    broker: SimulatedBroker, world: World, ends: str
) -> None:
    """The decided transaction's markers must not be sent again, because a repeated marker would end the producer's next
    transaction."""
    for command in ("produce A t", "produce A u", f"{ends} A", "produce A t"):
        perform(world, command)
    power_cut(broker, world, is_ongoing_or_complete)
    assert perform(world, "describe x").startswith("Ongoing")
    before = ["a1"] if ends == "commit" else []
    assert visible(world, ("t", 0), committed=True) == before
    assert perform(world, "commit A") == "NONE p1 e2"
    assert visible(world, ("t", 0), committed=True) == [*before, "a3"]


def test_restart_repeats_a_lost_partition_addition_under_the_next_producer_id(broker: SimulatedBroker, world: World) -> None:
    """The first producer id has no epochs left, so the next transaction has another producer id."""
    for command in (f"A = forge x state=CompleteCommit epoch={EXHAUSTED_EPOCH} client=2", "kill", "produce A t"):
        perform(world, command)
    assert perform(world, "commit A") == "NONE p2 e0"
    assert perform(world, "produce A t").startswith("NONE")
    power_cut(broker, world, is_ongoing_or_complete)
    assert perform(world, "describe x").startswith("Ongoing")
    assert perform(world, "commit A") == "NONE p2 e1"
    assert visible(world, ("t", 0), committed=True) == ["a1", "a2"]


def test_restart_repeats_the_lost_addition_of_the_offsets_partition_to_a_transaction(broker: SimulatedBroker, world: World) -> None:
    perform(world, "offsets A g t=7")
    power_cut(broker, world, is_ongoing)
    assert perform(world, "commit A") == "NONE p1 e1"
    assert perform(world, "committed g t") == "7"


def test_restart_repeats_the_lost_addition_of_a_second_partition_to_a_transaction(broker: SimulatedBroker, world: World) -> None:
    perform(world, "produce A t")
    perform(world, "produce A u")
    power_cut(broker, world, lambda metadata: ("u", 0) in metadata.partitions)
    (shard,) = broker.broker.transactions.shards()
    assert shard.ids["x"].partitions == {("t", 0), ("u", 0)}
    assert perform(world, "abort A") == "NONE p1 e1"
    assert visible(world, ("u", 0), committed=True) == []


def test_transaction_with_a_lost_partition_addition_is_aborted_at_its_timeout(broker: SimulatedBroker, world: World) -> None:
    """The timeout starts again after the restart. When it expires, the last stable offset advances."""
    perform(world, "produce A t")
    power_cut(broker, world, is_ongoing)
    broker.sleep(61_000)
    assert perform(world, "describe x").startswith("CompleteAbort")
    log = broker.broker.partitions.get("t", 0).log
    assert log.last_stable_offset == log.log_end_offset == 2


@pytest.mark.smoke
def test_lost_partition_addition_is_repeated_once_a_full_disk_has_space(
    broker: SimulatedBroker, disk: FaultyFilesystem, world: World
) -> None:
    """The coordinator neither continues nor ends the transaction until recovery has found all its batches."""
    for command in ("produce A t", "commit A", "produce A u"):
        perform(world, command)
    disk.refuses = lambda number, kind, path: STATE[0] in path and kind == "append"
    power_cut(broker, world, is_ongoing_or_complete)
    broker.sleep(61_000)
    assert perform(world, "describe x") == "NOT_COORDINATOR"
    assert perform(world, "commit A once") == "NOT_COORDINATOR"
    assert perform(world, "A = init x") == "NOT_COORDINATOR"
    disk.refuse_nothing()
    broker.sleep(5_000)
    assert perform(world, "describe x").startswith("Ongoing")
    assert perform(world, "commit A") == "NONE p1 e2"
    assert visible(world, ("u", 0), committed=True) == ["a2"]


def test_lost_partition_addition_is_repeated_after_a_second_power_cut(broker: SimulatedBroker, world: World) -> None:
    perform(world, "produce A t")
    for _ in range(2):
        power_cut(broker, world, is_ongoing)
    assert perform(world, "commit A") == "NONE p1 e1"


def test_partitions_of_a_decided_transaction_are_not_added_to_the_next_transaction(broker: SimulatedBroker, world: World) -> None:
    perform(world, "produce A t")
    perform(world, "commit A")
    broker.kill()
    world.forget_connection()
    fs = broker.fs
    assert isinstance(fs, MemoryFilesystem)
    cut(fs, ("t", 0), 1)
    cut(fs, STATE, next(o for o, state in states(fs) if state in COMPLETED))
    broker.start()
    assert perform(world, "describe x").startswith("CompleteCommit")
    assert visible(world, ("t", 0), committed=True) == ["a1"]


def states(fs: MemoryFilesystem) -> Iterator[tuple[int, TxnState]]:
    raw = bytes(fs.files[STATE_PATH])
    for at, header in batches(raw):
        for record in read_records(raw[at : at + header.size_bytes]):
            metadata = from_record(LogRecord(record.key, record.value))[1]
            if metadata is not None:
                yield record.offset, metadata.state
