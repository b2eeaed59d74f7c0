"""Group commit: one group of fsyncs serves all waiting responses, in the right order, and a failed fsync acknowledges nothing."""

from __future__ import annotations

import errno
import gc
from collections.abc import Iterator

import pytest

from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.env import SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.checkpoints import RECOVERY_POINTS
from ottla.storage.filesystem import Damaged
from ottla.storage.last_stop import CLEAN_FILE, LOG_STARTS
from tests.scenarios.play import cut_up, perform
from tests.scenarios.verbs import VERBS
from tests.scenarios.world import World

AFTER_VERSION_1 = ("topic t", "topic u", "A = init x", "add A u v=3", "produce A u v=11", "commit A v=4")
"""Commands after which a client's first transaction used version 1. The next transaction, of version 2, has the same epoch."""


class Slow(MemoryFilesystem):
    """A filesystem that records which files were synced, and can let syncs fail."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []
        self.fails = False
        self.unopened: dict[str, OSError] = {}
        self.shortages = 0
        """Number of further syncs that fail because no file descriptor is free."""
        self.spared = 0

    def spare_descriptors(self, count: int) -> None:
        self.spared += count

    def sync_file(self, path: str) -> None:
        if path in self.unopened:
            raise self.unopened[path]
        if self.shortages:
            self.shortages -= 1
            raise OSError(errno.EMFILE, "Too many open files", path)
        if self.fails:
            raise OSError(5, "Input/output error")
        self.synced.append(path)


@pytest.fixture
def fs() -> Slow:
    return Slow()


@pytest.fixture
def world(fs: Slow) -> Iterator[World]:
    broker = SimulatedBroker({"ottla.durability": "power"}, fs=fs).start()
    world = World(broker, "ottla", "")
    yield world
    world.close()
    broker.abandon()


def rounds(world: World) -> int:
    commit = world.broker.broker.barrier.group_commit  # type: ignore[attr-defined]
    return int(commit.rounds)


@pytest.mark.entry("STO-18")
def test_produce_response_waits_for_the_sync_with_durability_power(world: World, fs: Slow) -> None:
    for command in ("topic t", "A = init", "produce A t"):
        perform(world, command)
    assert fs.synced[-1] == "/data/t-0/00000000000000000000.log"
    before = rounds(world)
    perform(world, "read t")
    assert rounds(world) == before, "a read does not wait for a sync"


def test_transaction_data_decision_markers_and_completion_are_synced_in_order(world: World, fs: Slow) -> None:
    for command in ("topic t", "A = init x", "produce A t", "offsets A g t=1"):
        perform(world, command)
    fs.synced.clear()
    before = rounds(world)
    assert perform(world, "commit A nosettle") == "NONE p1 e1"
    assert rounds(world) - before == 2
    decision = next(i for i, path in enumerate(fs.synced) if "__transaction_state" in path)
    marker = next(i for i, path in enumerate(fs.synced) if path.startswith("/data/t-0"))
    assert decision < marker
    assert perform(world, "describe x").startswith("CompleteCommit")
    assert perform(world, "produce A t") == "NONE @2", "the next transaction does not wait for the sync"


@pytest.mark.parametrize(("command", "topic"), [("produce A t", "t"), ("offsets A g t=1", "__consumer_offsets")])
def test_partition_addition_to_a_transaction_is_synced_before_its_first_batch_is_written(
    world: World, fs: Slow, monkeypatch: pytest.MonkeyPatch, command: str, topic: str
) -> None:
    """Without the sync, a restart that lost the first transaction's end could write its markers after the second transaction's
    batches."""
    for first in AFTER_VERSION_1:
        perform(world, first)
    partitions = world.broker.broker.partitions  # type: ignore[attr-defined]
    written: list[int] = []

    def sync_file(path: str) -> None:
        if "__transaction_state" in path:
            logs = [partition.log for partition in partitions if partition.log.topic == topic]
            written.append(sum(log.log_end_offset for log in logs))

    monkeypatch.setattr(fs, "sync_file", sync_file)
    assert perform(world, command).startswith("NONE")
    assert written == [0]
    assert perform(world, "commit A") == "NONE p1 e1"
    before = rounds(world)
    assert perform(world, command).startswith("NONE")
    assert rounds(world) - before == 1, "a transaction with its own epoch needs no extra sync round"


@pytest.mark.parametrize("is_made_again", [False, True])
def test_transactional_offsets_of_a_topic_deleted_during_the_sync_are_not_committed(world: World, is_made_again: bool) -> None:
    """The offsets wait for the record that adds the group. A new topic with the same name must not get them."""
    for command in (*AFTER_VERSION_1, "commit_offsets g u=1"):
        perform(world, command)
    broker: SimulatedBroker = world.broker  # type: ignore[assignment]
    env, cluster = broker.env, broker.broker.cluster
    client = world.connect()
    settle, env.settle = env.settle, lambda: None  # type: ignore[method-assign]
    ask = VERBS["offsets"](world, cut_up("offsets A g t=5 u=7", {}))
    sent = client.send(ask.request, ask.version)  # type: ignore[union-attr, arg-type]
    before = cluster.state.topics["t"].topic_id
    cluster.delete_topic("t")
    if is_made_again:
        cluster.create_topic("t", 1, {})
        assert cluster.state.topics["t"].topic_id != before
    env.settle = settle  # type: ignore[method-assign]
    env.settle()
    assert ask.show(client.receive(sent)) == "UNKNOWN_TOPIC_OR_PARTITION | NONE"  # type: ignore[union-attr]
    assert perform(world, "commit A") == "NONE p1 e1"
    assert perform(world, "committed g t u") == "-1 | 7"


def test_delete_records_syncs_the_log_start_offset_before_the_response(world: World, fs: Slow) -> None:
    for command in ("topic t", "A = init", "produce A t n=3"):
        perform(world, command)
    fs.synced.clear()
    assert perform(world, "delete_records t before=2") == "NONE"
    assert fs.synced == ["/data/log-start-offset-checkpoint"]


def test_one_round_of_fsyncs_serves_all_waiting_responses(world: World) -> None:
    perform(world, "topic t")
    for name in "ABCDE":
        perform(world, f"{name} = init")
    clients = [world.connect() for _ in range(5)]
    before = rounds(world)
    sent = []
    env = world.broker.env  # type: ignore[attr-defined]
    settle, env.settle = env.settle, lambda: None
    for client, name in zip(clients, "ABCDE", strict=True):
        ask = VERBS["produce"](world, cut_up(f"produce {name} t", {}))
        sent.append((client, ask, client.send(ask.request, ask.version)))  # type: ignore[union-attr, arg-type]
    env.settle = settle
    env.settle()
    assert [ask.show(client.receive(what)) for client, ask, what in sent] == [f"NONE @{n}" for n in range(5)]  # type: ignore[union-attr]
    assert rounds(world) - before == 1


class Still(SimulatedEnv):
    """An environment that runs callbacks only while ``is_still`` is False."""

    is_still = True

    def settle(self) -> None:
        if not self.is_still:
            super().settle()


@pytest.mark.parametrize("command", ["produce A t", "produce_all A t,t/1"])
def test_batch_waits_for_the_sync_of_a_partition_addition_logged_before_a_kill(world: World, fs: Slow, command: str) -> None:
    """A batch is retried after a kill. Its partition is already part of the transaction, but that record is not yet synced."""
    for preparation in ("topic t partitions=2", "A = init x"):
        perform(world, preparation)
    broker: SimulatedBroker = world.broker  # type: ignore[assignment]
    transactions = broker.broker.transactions
    identity = ProducerIdAndEpoch(*next((m.producer_id, m.producer_epoch) for s in transactions.shards() for m in s.ids.values()))
    transactions.add_partitions("x", identity, [("t", 0)], client_transaction_version=2)
    broker.kill()
    world.forget_connection()
    broker.env_type = Still
    broker.start()
    fs.synced.clear()
    ask = VERBS[command.split(maxsplit=1)[0]](world, cut_up(command, {}))
    sent = world.client.send(ask.request, ask.version)  # type: ignore[union-attr, arg-type]
    assert broker.broker.partitions.get("t", 0).log.log_end_offset == 0
    broker.env.is_still = False  # type: ignore[attr-defined]
    broker.env.settle()
    assert ask.show(world.client.receive(sent)) == "NONE @0"  # type: ignore[union-attr]
    assert any("__transaction_state" in path for path in fs.synced)


def test_transaction_decided_during_the_start_gets_its_markers_once(world: World) -> None:
    """A starting broker sends markers for decisions once they are synced. Here a client ends the transaction before the sync."""
    for command in ("topic t", "A = init x", "produce A t"):
        perform(world, command)
    broker: SimulatedBroker = world.broker  # type: ignore[assignment]
    broker.kill()
    world.forget_connection()
    broker.env_type = Still
    broker.start()
    ask = VERBS["commit"](world, cut_up("commit A", {}))
    sent = world.client.send(ask.request, ask.version)  # type: ignore[union-attr, arg-type]
    broker.env.is_still = False  # type: ignore[attr-defined]
    broker.env.settle()
    assert ask.show(world.client.receive(sent)) == "NONE p1 e1"  # type: ignore[union-attr]
    assert perform(world, "describe x").startswith("CompleteCommit")
    assert broker.broker.partitions.get("t", 0).log.log_end_offset == 2


@pytest.mark.entry("STO-18", "STO-05")
@pytest.mark.parametrize("turns", range(6))
def test_fsync_that_ends_after_the_broker_stop_has_no_effect(world: World, fs: Slow, turns: int) -> None:
    """The log directory is closed and another broker may own it, so no marker is written and no further sync begins."""
    for command in ("topic t", "A = init x", "produce A t"):
        perform(world, command)
    broker: SimulatedBroker = world.broker  # type: ignore[assignment]
    env = broker.env
    settle, env.settle = env.settle, lambda: None  # type: ignore[method-assign]
    ask = VERBS["commit"](world, cut_up("commit A", {}))
    world.client.send(ask.request, ask.version)  # type: ignore[union-attr]
    for _ in range(turns):
        if env.scheduler.soon:
            env.scheduler.soon.popleft()()
    broker.stop()
    left, rounds_done = dict(fs.files), rounds(world)
    assert CLEAN_FILE in {path.rpartition("/")[2] for path in left}
    env.settle = settle  # type: ignore[method-assign]
    env.advance(60_000)
    assert dict(fs.files) == left
    assert rounds(world) == rounds_done
    broker.start()


@pytest.mark.entry("STO-20")
def test_appends_are_refused_after_a_failed_sync(world: World, fs: Slow) -> None:
    for command in ("topic t", "A = init", "produce A t"):
        perform(world, command)
    fs.fails = True
    assert perform(world, "produce A t") == "closed"
    fs.fails = False
    assert perform(world, "produce A t seq=1") == "KAFKA_STORAGE_ERROR", "a retry is not acknowledged as a duplicate"
    assert perform(world, "produce A t seq=2") == "KAFKA_STORAGE_ERROR"
    assert perform(world, "topic u") != ""


@pytest.mark.entry("STO-20")
def test_records_of_a_failed_sync_are_not_readable(world: World, fs: Slow) -> None:
    """A power cut may remove the record, so no client may read it. Other logs remain readable."""
    for command in ("topic t", "topic u", "A = init", "produce A t", "produce A u"):
        perform(world, command)
    fs.fails = True
    assert perform(world, "produce A t") == "closed"
    fs.fails = False
    assert "a3" not in perform(world, "read t uncommitted")
    assert perform(world, "read u uncommitted").startswith("a2")
    assert perform(world, "delete_records u before=1") == "KAFKA_STORAGE_ERROR"
    assert perform(world, "read u uncommitted").startswith("a2"), "other partitions remain readable"


def test_decompression_of_a_batch_that_waits_for_verification_counts_once(fs: Slow) -> None:
    broker = SimulatedBroker({"ottla.durability": "power", "ottla.request.inflated.max.bytes": "150000"}, fs=fs).start()
    world = World(broker, "ottla", "")
    for command in AFTER_VERSION_1:
        perform(world, command)
    assert perform(world, "produce A t size=100000 codec=gzip") == "NONE @0"
    world.close()
    broker.abandon()


def test_sync_of_a_log_file_is_retried_when_no_file_descriptor_is_free(world: World, fs: Slow) -> None:
    """No fsync was attempted, so no data is lost: the response waits, and the log directory stays online."""
    for command in ("topic t", "A = init", "produce A t"):
        perform(world, command)
    fs.synced.clear()
    fs.shortages = 3
    assert perform(world, "produce A t") == "NONE @1"
    assert fs.synced[-1] == "/data/t-0/00000000000000000000.log"
    assert fs.spared, "open files are closed to free descriptors"
    assert world.broker.broker.disk.refused_writes == 3, "health and metrics report the refused writes"  # type: ignore[attr-defined]
    assert perform(world, "produce A t") == "NONE @2"
    world.broker.sleep(2_000)  # type: ignore[attr-defined]
    assert world.broker.broker.disk.is_sound, "the directory is reported as sound a minute after the last refusal"  # type: ignore[attr-defined]


def test_topic_may_be_deleted_during_a_sync(world: World, fs: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    def sync_file(path: str) -> None:
        if path not in fs.files:
            raise FileNotFoundError(2, "No such file", path)

    monkeypatch.setattr(fs, "sync_file", sync_file)
    for command in ("topic t", "topic u", "A = init"):
        perform(world, command)
    client = world.connect()
    ask = VERBS["produce"](world, cut_up("produce A t", {}))
    client.send(ask.request, ask.version)  # type: ignore[union-attr]
    world.broker.broker.cluster.delete_topic("t")  # type: ignore[attr-defined]
    assert perform(world, "produce A u seq=0") == "NONE @0"
    assert not world.broker.broker.barrier.group_commit.has_failed  # type: ignore[attr-defined]


@pytest.mark.entry("STO-20")
def test_failed_background_sync_takes_the_data_directory_offline(fs: Slow) -> None:
    """With ``durability=process`` no response waits for the sync, and a later successful sync would hide the loss."""
    broker = SimulatedBroker({"log.flush.offset.checkpoint.interval.ms": "1000"}, fs=fs).start()
    world = World(broker, "ottla", "")
    for command in ("topic t internal.segment.bytes=200", "A = init", "produce A t size=100", "produce A t size=100"):
        perform(world, command)
    fs.fails = True
    broker.sleep(1_500)
    fs.fails = False
    broker.sleep(1_500)
    assert perform(world, "produce A t") == "KAFKA_STORAGE_ERROR"
    assert perform(world, "read t").startswith("a1"), "synced records remain readable"
    world.close()
    broker.stop()
    assert not any(path.endswith(".kafka_cleanshutdown") for path in fs.files)
    broker.abandon()


def test_checkpoint_write_is_retried_when_no_file_descriptor_is_free(fs: Slow) -> None:
    broker = SimulatedBroker({"log.flush.offset.checkpoint.interval.ms": "1000"}, fs=fs).start()
    world = World(broker, "ottla", "")
    for command in ("topic t internal.segment.bytes=200", "A = init", "produce A t size=100", "produce A t size=100"):
        perform(world, command)
    fs.shortages = 1
    broker.sleep(1_500)
    assert not fs.synced
    broker.sleep(2_500)
    assert fs.synced
    assert perform(world, "produce A t").startswith("NONE")
    assert broker.broker.disk.is_sound
    world.close()
    broker.abandon()


def settled(fs: Slow, **settings: str) -> tuple[SimulatedBroker, World]:
    """Return a broker whose topics ``t`` and ``u`` have a closed segment each, and a `World` that runs commands."""
    broker = SimulatedBroker({key.replace("_", "."): value for key, value in settings.items()}, fs=fs).start()
    world = World(broker, "ottla", "")
    small = "internal.segment.bytes=200 cleanup.policy=compact min.cleanable.dirty.ratio=0"
    for command in (f"topic t {small}", f"topic u {small}", "A = init"):
        perform(world, command)
    for topic in "ttuu":
        assert perform(world, f"produce A {topic} size=100 keyed").startswith("NONE")
    return broker, world


@pytest.mark.entry("STO-20")
def test_failed_sync_before_compaction_takes_the_data_directory_offline(fs: Slow) -> None:
    """A second sync of the same files would succeed, because the kernel has dropped the pages that it could not write."""
    broker, world = settled(fs, log_cleaner_backoff_ms="1000")
    fs.fails = True
    broker.sleep(1_500)
    fs.fails = False
    assert broker.broker.disk.has_failed
    assert perform(world, "produce A u keyed once") == "KAFKA_STORAGE_ERROR"
    assert broker.broker.partitions.get("t", 0).log.recovery_point == 0
    world.close()
    broker.abandon()


@pytest.mark.parametrize("cause", ["link", "descriptors"])
def test_file_that_cannot_be_opened_does_not_fail_other_syncs(fs: Slow, cause: str) -> None:
    broker, world = settled(fs, log_flush_offset_checkpoint_interval_ms="1000", log_cleaner_enable="false")
    fs.unopened["/data/t-0/00000000000000000000.log"] = (
        Damaged("t", "a symbolic link was found instead of a file")
        if cause == "link"
        else OSError(errno.EMFILE, "Too many open files")
    )
    broker.sleep(1_500)
    t, u = (broker.broker.partitions.get(name, 0).log for name in "tu")
    assert (t.is_offline, t.is_failed, t.recovery_point) == (cause == "link", False, 0)
    assert (u.is_offline, u.is_failed, u.recovery_point) == (False, False, 1)
    assert not broker.broker.disk.has_failed
    assert perform(world, "produce A u keyed") == "NONE @2"
    fs.unopened.clear()
    broker.sleep(1_500)
    assert t.recovery_point == (0 if cause == "link" else 1)
    world.close()
    broker.abandon()


@pytest.mark.parametrize("cause", ["link", "descriptors"])
def test_group_fsync_skips_or_retries_a_file_that_cannot_be_opened(world: World, fs: Slow, cause: str) -> None:
    for command in ("topic t", "topic u", "A = init x", "B = init", "produce A t", "produce B u"):
        perform(world, command)
    broker = world.broker.broker  # type: ignore[attr-defined]
    if cause == "link":
        fs.unopened["/data/u-0/00000000000000000000.log"] = Damaged("u", "a symbolic link was found instead of a file")
        assert perform(world, "produce B u once") == "closed"
        assert perform(world, "produce B u once") == "KAFKA_STORAGE_ERROR"
        assert broker.partitions.get("u", 0).log.is_offline
    else:
        fs.unopened["/data/u-0/00000000000000000000.log"] = OSError(errno.EMFILE, "Too many open files")
        world.broker.env.call_later(500, fs.unopened.clear)  # type: ignore[attr-defined]
        assert perform(world, "produce B u") == "NONE @1"
    assert not broker.barrier.group_commit.has_failed
    assert not broker.disk.has_failed
    assert perform(world, "produce A t") == "NONE @1"
    assert perform(world, "commit A") == "NONE p1 e1"


def test_transaction_completes_although_another_file_synced_with_its_log_is_damaged(world: World, fs: Slow) -> None:
    for command in ("topic t", "topic u", "A = init x", "B = init", "produce A t", "produce B u"):
        perform(world, command)
    broker = world.broker.broker  # type: ignore[attr-defined]
    fs.unopened["/data/u-0/00000000000000000000.log"] = Damaged("u", "a symbolic link was found instead of a file")
    broker.barrier.group_commit.wrote(broker.partitions.get("u", 0).log)
    perform(world, "commit A once")
    world.forget_connection()
    assert perform(world, "describe x").startswith("CompleteCommit")
    assert broker.partitions.get("u", 0).log.is_offline
    assert not broker.barrier.group_commit.has_failed


def test_fsync_bookkeeping_of_a_deleted_log_is_released(world: World) -> None:
    for command in ("topic t internal.segment.bytes=200", "A = init", *["produce A t size=100"] * 8):
        perform(world, command)
    broker = world.broker.broker  # type: ignore[attr-defined]
    assert len(broker.partitions.get("t", 0).log.segments) == 8
    remembered = len(broker.barrier.group_commit._newest)
    perform(world, "delete t")
    gc.collect()
    assert len(broker.barrier.group_commit._newest) == remembered - 1


def test_recreated_topic_syncs_checkpoints_without_the_deleted_topic_before_its_first_append(world: World, fs: Slow) -> None:
    """After a power cut the old log start offset would apply to the new log, and hide the new records below it."""
    for command in ("topic t", "A = init", "produce A t"):
        perform(world, command)
    with world.broker.connect() as client:  # type: ignore[attr-defined]
        client.call(
            DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])],
                timeout_ms=1_000,
            )
        )
        client.call(DeleteTopicsRequest(topics=[DeleteTopicState("t")], topic_names=[], timeout_ms=1_000))
    fs.synced.clear()
    perform(world, "topic t")
    perform(world, "produce A t")
    assert {f"/data/{name}" for name in (LOG_STARTS, RECOVERY_POINTS)} <= set(fs.synced)
