"""A fault that lasts an hour causes only a few log lines, even if a timer, a retry or a peer triggers it every second."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import structlog
from structlog.testing import capture_logs

from ottla.broker.apis.api import RequestContext
from ottla.broker.coordinators.completion import Completions
from ottla.broker.coordinators.groups import DeletedTopic, Groups
from ottla.broker.coordinators.share_groups import ShareGroupStates
from ottla.broker.coordinators.share_partitions import SharePartitions
from ottla.broker.coordinators.share_states import ShareStates
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.handlers.registry import BROKER_APIS
from ottla.broker.loop.counters import Counters
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.membership.forwarding import Forwarding
from ottla.broker.membership.joined_metadata import JoinedMetadata
from ottla.broker.network.connection import Connection
from ottla.broker.partitions.runtime import Runtime
from ottla.broker.peers.backoff import Backoff
from ottla.broker.peers.peer import Peer
from ottla.broker.replication.in_sync_changes import InSyncChanges
from ottla.broker.replication.manager import ReplicaManager
from ottla.coordinator.group.share.requests import Initialization
from ottla.coordinator.share_state.records import ShareKey
from ottla.protocol.errors import Code, DecodeError, KafkaError
from ottla.protocol.messages.alter_partition import AlterPartitionResponse, ResponsePartitionData, ResponseTopicData
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.envelope import EnvelopeResponse
from ottla.protocol.records import build_batch, read_header
from ottla.protocol.steps import run
from ottla.protocol.transaction_states import TxnState
from ottla.simulation.broker import SimulatedBroker
from tests.broker.network.connected import Transport

SECONDS = 3_600
MOST_LINES = 12
"""Maximum number of lines: the first, then lines after 10 s, 30 s, 70 s and so on, up to one every ten minutes."""
REFUSED = KafkaError(Code.KAFKA_STORAGE_ERROR, "the log refuses")


class Part:
    """A stand-in for objects that the tested code uses. Unlike SimpleNamespace it is hashable."""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


def refuse(*_: Any, **__: Any) -> Any:
    raise REFUSED


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker().start().with_coordinators()
    simulated.broker.cluster.create_topic("t", 1, {})
    yield simulated
    simulated.abandon()


class Lasting:
    """Each ``meet_EVENT`` method returns a function that triggers the fault with this log event once."""

    def __init__(self, broker: SimulatedBroker) -> None:
        self.server = broker.broker
        self.env: Any = broker.env
        self.log = self.server.partitions.get("t", 0).log
        self.runtime = Part(execute=refuse, partition=Part(log=self.log))

    def errors(self) -> RepeatedErrors:
        return RepeatedErrors(self.env, structlog.get_logger("broker"))

    def shards(self, shard: Any) -> Any:
        """Return a container with one shard whose log refuses every record."""
        return Part(
            items=lambda: [(shard, self.runtime)],
            serves=lambda one: True,
            get=lambda index: (shard, self.runtime),
            drop_offline=lambda: None,
        )

    def groups(self, **shard: Any) -> Groups:
        groups = self.server.groups
        groups._shards = self.shards(Part(partition=0, **shard))
        return groups

    def meet_group_change_postponed(self) -> Callable[[], object]:
        numbers = iter(range(10 * SECONDS))
        return self.groups(tick=lambda *_: [(f"g-{next(numbers)}", None)]).tick

    def meet_offsets_not_expired(self) -> Callable[[], object]:
        groups = self.groups(expire_offsets=lambda *_: [None])
        return lambda: run(groups.expire_offsets())

    def meet_offsets_not_deleted(self) -> Callable[[], object]:
        groups = self.groups(forget_topic=lambda *_: [None])
        groups._has_share_states_to_forget = False
        groups._forgotten = {DeletedTopic("t", index, 100): None for index in range(50)}
        return lambda: run(groups.forget_topics())

    def meet_share_states_not_deleted(self) -> Callable[[], object]:
        groups = self.groups(shares=Part(forget_topics=lambda *_: [None]))
        return lambda: run(groups.forget_topics())

    def share_states(self, **shard: Any) -> ShareStates:
        states = self.server.share_states
        states._shards = self.shards(Part(partition=0, persisted={}, **shard))
        return states

    def meet_share_states_not_written(self) -> Callable[[], object]:
        states = self.share_states(cold_snapshots=lambda *_: [None])
        return lambda: run(states.snapshot_cold())

    def meet_share_states_not_pruned(self) -> Callable[[], object]:
        states = self.share_states(first_needed_offset=lambda: 5)
        states._delete_records = refuse
        return lambda: run(states.delete_what_is_not_needed())

    def share_groups(self) -> ShareGroupStates:
        shares = Part(
            is_initializing=lambda *_: True,
            not_initialized=lambda *_: None,
            state_lost=lambda *_: Part(records=[]),
        )
        groups: Any = Part(shard=lambda group_id: (Part(shares=shares), self.runtime))
        cluster: Any = Part(ensure_coordinator=refuse)
        return ShareGroupStates(self.env, groups, cast(Any, None), cluster, cast(Any, None), refuse)

    def meet_share_states_not_initialized(self) -> Callable[[], object]:
        states, asked = self.share_groups(), Initialization(group_id="g", state_epoch=0, start_offsets={bytes(16): {0: 0}})
        return lambda: run(states.initialize(asked))

    def meet_share_state_metadata_not_written(self) -> Callable[[], object]:
        states = self.share_groups()
        return lambda: states.state_lost(ShareKey("g", bytes(16), 0))

    def meet_share_records_not_released(self) -> Callable[[], object]:
        shared = Part(is_gone=False, source=Part(log=self.log), dead_letters=())
        share_partitions: Any = Part(
            _errors=self.errors(),
            _shared=Part(get=lambda key: shared),
            sessions=Part(names=lambda *_: False, has_any_of=lambda group: True),
            _configured=lambda one: Part(release=lambda member: None),
            _carry_out=refuse,
            _of_groups={"g": [None]},
        )
        session: Any = Part(key=("g", "m"), partitions=[(bytes(16), 0)])
        return lambda: run(SharePartitions._release(share_partitions, session))

    def transactions(self, **shard: Any) -> Transactions:
        transactions = self.server.transactions
        transactions._shards = self.shards(Part(partition=0, **shard))
        transactions.shards = list  # type: ignore[method-assign]
        transactions.runtime_of = lambda shard: self.runtime  # type: ignore[method-assign, assignment, return-value]
        return transactions

    def meet_transactional_ids_not_expired(self) -> Callable[[], object]:
        transactions = self.transactions(expire_ids=lambda *_: [None])
        return lambda: run(transactions.expire_ids())

    def meet_transaction_timeout_delayed(self) -> Callable[[], object]:
        ids = [f"x-{number}" for number in range(20)]
        transactions = self.transactions(timed_out=lambda now: ids, is_timed_out=lambda *_: True, abort_timed_out=refuse)
        return lambda: run(transactions.abort_timed_out())

    def meet_completion_delayed(self) -> Callable[[], object]:
        metadata = Part(transactional_id="x", state=TxnState.PREPARE_COMMIT)
        phase: Completions = self.server.transactions._completions
        phase._runtime_of = lambda shard: self.runtime  # type: ignore[assignment, return-value]
        shard: Any = Part(ids={"x": metadata}, complete=refuse)
        return lambda: self.server.stepping.start(phase._log_complete(shard, cast(Any, metadata)))

    def meet_log_read_failed(self) -> Callable[[], object]:
        partition = self.server.partitions.get("t", 0)

        def short(log: Any) -> None:
            raise OSError(errno.ENOMEM, "Cannot allocate memory", "/data/t-0/0.log")

        def read() -> None:
            with pytest.raises(KafkaError):
                partition.look_up(short)

        return read

    def meet_directory_not_removed(self) -> Callable[[], object]:
        partitions = self.server.partitions

        def delete(*_: Any) -> None:
            raise OSError(errno.EBUSY, "Device or resource busy")

        partitions.directory.delete = delete  # type: ignore[method-assign, assignment]
        return lambda: run(partitions._delete([self.log]))

    def meet_file_not_removed(self) -> Callable[[], object]:
        directory = self.server.directory

        def unlink(path: str) -> None:
            raise OSError(errno.EBUSY, "Device or resource busy", path)

        directory.trash._fs = cast(Any, Part(unlink=unlink))
        numbers = iter(range(10 * SECONDS))

        def empty() -> None:
            directory.trash.add_files([f"/data/{next(numbers)}.deleted" for _ in range(10)], 0)
            run(self.server.housekeeping._empty_trash())

        return empty

    def meet_record_skipped(self) -> Callable[[], object]:
        def replay(*_: Any) -> None:
            raise DecodeError("an unknown type")

        return self.replaying(replay, build_batch([(b"k", b"v")] * 20, 0))

    def meet_batch_skipped(self) -> Callable[[], object]:
        damaged = build_batch([(b"k", b"v")], 0)
        damaged[-1] ^= 0xFF
        damaged[61:] = b"\xff" * len(damaged[61:])
        return self.replaying(lambda *_: None, damaged)

    def replaying(self, replay: Any, raw: bytearray) -> Callable[[], object]:
        runtime = Runtime(self.env, self.server.partitions.get("t", 0), replay, self.server.stepping)
        return lambda: runtime._replay_batch(read_header(raw), raw, None, is_strict=False)

    def meet_metadata_record_skipped(self) -> Callable[[], object]:
        def replay(*_: Any) -> None:
            raise DecodeError("an unknown type")

        joined: Any = Part(state=Part(replay=replay), _errors=self.errors())
        offsets = iter(range(10 * SECONDS))
        return lambda: JoinedMetadata._apply(joined, cast(Any, None), next(offsets))

    def meet_envelope_refused(self) -> Callable[[], object]:
        def send(message: Any, then: Callable[[Any], None], **_: Any) -> None:
            then(EnvelopeResponse(response_data=None, error_code=Code.CLUSTER_AUTHORIZATION_FAILED))

        forwarding = Forwarding(self.env, cast(Any, Part(send=send)))
        api, request = BROKER_APIS.declaration(19), CreateTopicsRequest(topics=[], timeout_ms=1_000)
        context = RequestContext(version=7, client_id="c", client_host="127.0.0.1", connection_id=1, listener="PLAINTEXT")
        return lambda: run(forwarding._forwarded(api, request, context))

    def meet_in_sync_change_refused(self) -> Callable[[], object]:
        refusal = ResponsePartitionData(partition_index=0, error_code=Code.INELIGIBLE_REPLICA)
        answer = AlterPartitionResponse(error_code=0, topics=[ResponseTopicData(topic_id=bytes(16), partitions=[refusal])])
        change = Part(proposed={1, 2})
        leader = Part(in_sync=None, alter_refused=lambda *_: False)
        partition = Part(is_led=True, leader=leader, log=self.log)
        changes = InSyncChanges(
            self.env, cast(Any, None), Counters(), broker_id=1, broker_epoch=lambda: 1, changed=lambda one: None
        )

        def refused() -> None:
            changes._in_flight = cast(Any, {(bytes(16), 0): (partition, change)})
            changes._answered(answer)

        return refused

    def meet_replicas_lagged(self) -> Callable[[], object]:
        change = Part(committed={1, 2}, proposed={1})
        partitions = [Part(log=self.log, leader=Part(shrink=lambda *_: change)) for _ in range(20)]
        manager: Any = Part(
            _led=dict.fromkeys(partitions), _lag=self.errors(), _env=self.env, _in_sync_changes=Part(ask=lambda *_: None)
        )
        return lambda: run(ReplicaManager.shrink(manager))

    def meet_peer_disconnected(self) -> Callable[[], object]:
        peer: Any = Part(_become=lambda state: None, _errors=self.errors(), _env=self.env, _try_again=None)

        def lost() -> None:
            peer._backoff = Backoff(50, 1_000)
            Peer._back_off(peer, "the peer closed the connection")

        return lost

    def meet_connection_closed(self) -> Callable[[], object]:
        return self.connecting(lambda connection: connection.close("unknown API key 18245"))

    def meet_connection_aborted(self) -> Callable[[], object]:
        return self.connecting(lambda connection: connection.abort("it takes no answers"))

    def connecting(self, end: Callable[[Any], None]) -> Callable[[], object]:
        def connect() -> None:
            connection: Any = Connection(self.server, "PLAINTEXT")
            connection.connection_made(Transport())
            end(connection)
            connection.connection_lost(None)

        return connect

    def meet_task_failed(self) -> Callable[[], object]:
        def fail() -> None:
            try:
                raise ValueError("a bug")
            except ValueError:
                self.server.lifecycle.bug("task_failed", task="retention")

        return fail


EVENTS = sorted(name.removeprefix("meet_") for name in vars(Lasting) if name.startswith("meet_"))


@pytest.mark.parametrize("event", EVENTS)
def test_disk_fault_that_lasts_an_hour_causes_few_log_lines(broker: SimulatedBroker, event: str) -> None:
    lasting = Lasting(broker)
    meet: Callable[[], object] = getattr(lasting, f"meet_{event}")()
    with capture_logs() as lines:
        for _ in range(SECONDS):
            meet()
            # The loop calls the tested code directly, so only the clock advances and timers do not run.
            lasting.env.scheduler.now_ms += 1_000
    found = [line for line in lines if line["event"] == event]
    assert 2 <= len(found) <= MOST_LINES
    assert "times" not in found[0]
    assert found[-1]["times"] > SECONDS / 2
