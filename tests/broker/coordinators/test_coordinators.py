"""The coordinators of a broker: their periodic work, which continues if one log refuses records, and their reaction to changed
metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.coordinator.group.classic.group import ClassicGroupState
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from tests.scenarios.play import perform
from tests.scenarios.world import World


@pytest.fixture
def disk() -> FaultyFilesystem:
    return FaultyFilesystem()


@pytest.fixture
def broker(disk: FaultyFilesystem) -> Iterator[SimulatedBroker]:
    started = SimulatedBroker({"group.initial.rebalance.delay.ms": "0"}, fs=disk).start().with_coordinators()
    yield started
    disk.refuse_nothing()
    started.close()
    assert started.bugs == 0


@pytest.fixture
def world(broker: SimulatedBroker) -> Iterator[World]:
    made = World(broker, "ottla", "sweep-")
    yield made
    made.close()


def refuse(disk: FaultyFilesystem, topic: str, partition: int) -> None:
    disk.refuses = lambda number, kind, path: f"/{topic}-{partition}/" in path


def two_ids(world: World) -> list[str]:
    """Return two transactional ids whose coordinators lead different partitions."""
    transactions = world.broker.broker.transactions  # type: ignore[attr-defined]
    first = "x"
    other = next(n for n in "abcdefgh" if transactions.partition_of(f"sweep-{n}") != transactions.partition_of("sweep-x"))
    return [first, other]


def test_failed_abort_of_an_expired_transaction_does_not_block_other_aborts(
    broker: SimulatedBroker, disk: FaultyFilesystem, world: World
) -> None:
    perform(world, "topic t")
    stuck, free = two_ids(world)
    for name, actor in ((stuck, "A"), (free, "B")):
        assert perform(world, f"{actor} = init {name} timeout=500").startswith("NONE")
        perform(world, f"produce {actor} t")
    refuse(disk, TRANSACTION_TOPIC, broker.broker.transactions.partition_of(f"sweep-{stuck}"))
    broker.sleep(3_000)
    assert perform(world, f"describe {free}").startswith("CompleteAbort")
    assert perform(world, f"describe {stuck}").startswith("Ongoing")
    disk.refuse_nothing()
    broker.sleep(3_000)
    assert perform(world, f"describe {stuck}").startswith("CompleteAbort")
    assert broker.broker.transactions._retry_after_ms == {}


def test_transaction_timeout_whose_record_is_too_large_delays_no_other_timeout(broker: SimulatedBroker, world: World) -> None:
    perform(world, "topic t")
    long = "y" * 400
    for name, actor in ((long, "A"), ("z", "B")):
        assert perform(world, f"{actor} = init {name} timeout=500").startswith("NONE")
        perform(world, f"produce {actor} t")
    log = broker.broker.partitions.get(TRANSACTION_TOPIC, broker.broker.transactions.partition_of(f"sweep-{long}")).log
    broker.broker.cluster.set_configs(2, TRANSACTION_TOPIC, {"max.message.bytes": "300"})
    assert log.config.max_message_bytes == 300
    broker.sleep(3_000)
    assert perform(world, "describe z").startswith("CompleteAbort")
    assert perform(world, f"describe {long}").startswith("Ongoing")
    broker.broker.cluster.set_configs(2, TRANSACTION_TOPIC, {"max.message.bytes": None})
    broker.sleep(3_000)
    assert perform(world, f"describe {long}").startswith("CompleteAbort")


def test_failed_session_expiry_does_not_block_other_groups(broker: SimulatedBroker, disk: FaultyFilesystem, world: World) -> None:
    groups = broker.broker.groups
    other = next(n for n in "abcdefgh" if groups.partition_of(f"sweep-{n}") != groups.partition_of("sweep-g"))
    for name, actor in (("g", "M"), (other, "N")):
        assert "generation 1" in perform(world, f"{actor} = join {name} session=6000")
    # The scenario command `sync` sends no protocol name and would be refused, so the test sends SyncGroup itself.
    for name, actor in (("g", "M"), (other, "N")):
        member = world.actors[actor].member
        request = SyncGroupRequest(
            group_id=f"sweep-{name}",
            generation_id=1,
            member_id=member,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[],
        )
        assert world.client.call(request, 5).error_code == 0
    refuse(disk, OFFSETS_TOPIC, groups.partition_of("sweep-g"))
    broker.sleep(8_000)
    shard, free = groups.shard("sweep-g")[0], groups.shard(f"sweep-{other}")[0]
    assert free.groups[f"sweep-{other}"].state is ClassicGroupState.EMPTY
    assert shard.groups["sweep-g"].state is ClassicGroupState.STABLE, "the state in memory equals the log"
    disk.refuse_nothing()
    broker.sleep(2_000)
    assert shard.groups["sweep-g"].state is ClassicGroupState.EMPTY
    perform(world, "kill")
    assert broker.broker.groups.shard("sweep-g")[0].groups["sweep-g"].state is ClassicGroupState.EMPTY


def join(group: str, instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        member_id="",
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"s")],
    )


def test_static_group_member_stays_when_its_replacement_cannot_be_logged(
    broker: SimulatedBroker, disk: FaultyFilesystem, world: World
) -> None:
    first = world.client.call(join("sweep-s", "i1"), 9)
    request = SyncGroupRequest(
        group_id="sweep-s",
        generation_id=1,
        member_id=first.member_id,
        group_instance_id="i1",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[],
    )
    assert world.client.call(request, 5).error_code == 0
    group = broker.broker.groups.shard("sweep-s")[0].groups["sweep-s"]
    refuse(disk, OFFSETS_TOPIC, broker.broker.groups.partition_of("sweep-s"))
    assert world.client.call(join("sweep-s", "i1"), 9).error_code == 16
    assert broker.broker.groups.shard("sweep-s")[0].groups["sweep-s"] is group
    assert list(group.members) == [first.member_id]
    disk.refuse_nothing()
    again = world.client.call(join("sweep-s", "i1"), 9)
    assert again.error_code == 0
    perform(world, "kill")
    assert list(broker.broker.groups.shard("sweep-s")[0].groups["sweep-s"].members) == [again.member_id]


def test_group_without_members_and_offsets_is_removed(broker: SimulatedBroker, world: World) -> None:
    for n in range(500):
        assert world.client.call(join(f"sweep-{n}"), 9).error_code == 79
    shards = broker.broker.groups.shards()
    assert sum(len(s.group_ids()) for s in shards) == 500
    broker.sleep(7_000)
    assert sum(len(s.membership._deadlines) for s in shards) == 0
    # As in Kafka, the periodic removal of expired offsets also removes empty groups (offsets.retention.check.interval.ms).
    broker.sleep(600_000)
    assert sum(len(s.group_ids()) for s in shards) == 0


def test_group_heartbeats_and_idle_groups_set_no_timers(broker: SimulatedBroker, world: World) -> None:
    first = world.client.call(join("sweep-s", "i1"), 9)
    world.client.call(
        SyncGroupRequest(
            group_id="sweep-s",
            generation_id=1,
            member_id=first.member_id,
            group_instance_id="i1",
            protocol_type="consumer",
            protocol_name="range",
            assignments=[],
        ),
        5,
    )
    shard = broker.broker.groups.shard("sweep-s")[0]
    before = len(shard.membership._deadlines)
    for _ in range(300):
        broker.sleep(1_000)
        shard.membership.heartbeat("sweep-s", 1, first.member_id, "i1", broker.env.steady_ms())
    assert shard.groups["sweep-s"].state is ClassicGroupState.STABLE
    assert len(shard.membership._deadlines) <= before + 1
    broker.sleep(7_000)
    assert shard.groups["sweep-s"].state is ClassicGroupState.EMPTY
    assert shard.groups["sweep-s"].wake_ms is None


def test_offsets_of_a_deleted_topic_are_removed_once_the_log_is_writable(
    broker: SimulatedBroker, disk: FaultyFilesystem, world: World
) -> None:
    perform(world, "topic t partitions=2")
    for group in ("g", "h"):
        perform(world, f"commit_offsets {group} t=5")
        perform(world, f"commit_offsets {group} t/1=6")
    groups = broker.broker.groups
    assert groups.partition_of("sweep-g") != groups.partition_of("sweep-h")
    refuse(disk, OFFSETS_TOPIC, groups.partition_of("sweep-g"))
    answer = world.client.call(DeleteTopicsRequest([DeleteTopicState("sweep-t")]), 6)
    assert answer.responses[0].error_code == 0
    assert perform(world, "committed h") == "nothing"
    perform(world, "topic t partitions=2")
    disk.refuse_nothing()
    perform(world, "commit_offsets g t=9")
    broker.sleep(6_000)
    assert perform(world, "committed g") == "t/0 9", (
        "the offset of the deleted partition is removed and that of the new topic is kept"
    )
    assert not groups._forgotten


@pytest.mark.smoke
def test_transaction_markers_are_sent_after_an_exception_in_the_completion(
    broker: SimulatedBroker, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision is already logged, so the failed completion is retried and the client gets the outcome."""
    transactions = broker.broker.transactions
    send = transactions._completions._markers._send
    failures = ["a bug"]

    def failing(*arguments: object) -> None:
        if failures:
            raise RuntimeError(failures.pop())
        send(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(transactions._completions._markers, "_send", failing)
    perform(world, "topic t")
    perform(world, "A = init x")
    perform(world, "produce A t")
    assert perform(world, "commit A") == "NONE p1 e1"
    assert broker.broker.unexpected_errors == 1
    broker.broker.lifecycle.unexpected_errors = 0
    assert perform(world, "describe x").startswith("CompleteCommit")
    assert perform(world, "read t") == "a1"


@pytest.mark.smoke
def test_transaction_markers_are_resent_after_an_exception_in_the_local_handler(
    broker: SimulatedBroker, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport: Any = broker.broker.transactions._completions._markers._transport
    local = getattr(transport, "_local", transport)
    write, failures = local._write, ["a bug"]

    def failing(request: object) -> object:
        if failures:
            raise RuntimeError(failures.pop())
        return write(request)

    async def failing_once(request: object) -> object:
        return await failing(request)  # type: ignore[misc]

    monkeypatch.setattr(local, "_write", failing_once)
    perform(world, "topic t")
    perform(world, "A = init x")
    perform(world, "produce A t")
    assert perform(world, "commit A") == "NONE p1 e1"
    broker.sleep(2_000)
    assert broker.broker.unexpected_errors == 1
    broker.broker.lifecycle.unexpected_errors = 0
    assert perform(world, "describe x").startswith("CompleteCommit")
    assert perform(world, "read t") == "a1"


def test_topic_deletion_reaches_other_coordinators_when_one_coordinator_fails(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[str] = []

    def failing(name: str) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr(broker.broker.groups, "topic_deleted", failing)
    monkeypatch.setattr(broker.broker.share_partitions, "topic_deleted", deleted.append)
    broker.broker.cluster.create_topic("t", 1, {})
    with pytest.raises(LookupError, match="a bug"):
        broker.broker.cluster.delete_topic("t")
    assert deleted == ["t"]
