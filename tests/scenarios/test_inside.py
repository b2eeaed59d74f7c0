"""Rules about internal behaviour, which no client request can show, on a broker whose clock and files the test controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch, TxnConfig
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ottla.protocol.records import build_batch, read_header
from ottla.protocol.steps import next_turn, run
from ottla.protocol.transaction_states import TxnState
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import Closed
from ottla.storage.producer_state import ProducerEntry, ProducerState
from tests.scenarios.play import perform
from tests.scenarios.world import World
from tests.support.counting import Limit, Meter, check_best, run_steps

EXPIRY_STEP = Limit(lines=100_000, ms=5)
FETCH = Limit(lines=20_000, ms=200)


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}).start()
    yield broker
    broker.close()
    assert broker.bugs == 0


@pytest.fixture
def world(broker: SimulatedBroker) -> Iterator[World]:
    world = World(broker, "ottla", "inside-")
    yield world
    world.close()


class Transport:
    """A transport for markers that forwards them, or responds in place of the broker.

    ``answer`` returns the error code for the nth request, or None to forward it.
    """

    def __init__(self, broker: Any, answer: Callable[[int], Code | None]) -> None:
        self._real = broker.transactions._completions._markers._transport
        self._answer = answer
        self.sent: list[WriteTxnMarkersRequest] = []
        self.held: list[Callable[[], None]] = []
        self.holding = False

    def write_txn_markers(self, request: WriteTxnMarkersRequest, on_response: Callable[[WriteTxnMarkersResponse], None]) -> None:
        self.sent.append(request)
        code = self._answer(len(self.sent))
        if self.holding:
            self.held.append(lambda: self._real.write_txn_markers(request, on_response))
        elif code is None:
            self._real.write_txn_markers(request, on_response)
        else:
            from ottla.broker.handlers.write_txn_markers import failed

            on_response(failed(request, 2, code))


def carry(broker: SimulatedBroker, answer: Callable[[int], Code | None] = lambda n: None) -> Transport:
    transport = Transport(broker.broker, answer)
    broker.broker.transactions._completions._markers._transport = transport
    return transport


@pytest.mark.entry("MRK-06", "MRK-07")
@pytest.mark.parametrize(
    "code",
    [
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.NOT_ENOUGH_REPLICAS,
        Code.REQUEST_TIMED_OUT,
        Code.KAFKA_STORAGE_ERROR,
    ],
)
def test_transaction_markers_with_a_retriable_error_are_sent_again(broker: SimulatedBroker, world: World, code: Code) -> None:
    for command in ("topic t", "A = init x", "produce A t"):
        perform(world, command)
    codes: list[Code | None] = [code]
    transport = carry(broker, lambda n: codes[-1])
    world.held.add("t")
    # The response does not wait longer than `MARKERS_AWAITED_MS`.
    assert perform(world, "commit A") == "NONE p1 e1"
    assert perform(world, "describe x").startswith("PrepareCommit")
    assert perform(world, "produce A t") == "CONCURRENT_TRANSACTIONS"
    refused = len(transport.sent)
    assert refused > 1
    codes.append(None)
    broker.sleep(2_000)
    assert len(transport.sent) == refused + 1
    assert perform(world, "describe x").startswith("CompleteCommit")
    assert perform(world, "read t") == "a1"


@pytest.mark.entry("MRK-07")
@pytest.mark.parametrize(
    "code", [Code.INVALID_PRODUCER_EPOCH, Code.TRANSACTION_COORDINATOR_FENCED, Code.CLUSTER_AUTHORIZATION_FAILED]
)
def test_transaction_markers_with_a_final_error_are_not_sent_again(broker: SimulatedBroker, world: World, code: Code) -> None:
    for command in ("topic t", "A = init x", "produce A t"):
        perform(world, command)
    transport = carry(broker, lambda n: code)
    world.held.add("t")
    perform(world, "commit A")
    broker.sleep(10_000)
    assert len(transport.sent) == 1
    assert perform(world, "describe x").startswith("PrepareCommit")
    perform(world, "restart")
    assert perform(world, "read t") == "a1", "a restart sends the markers again"


@pytest.mark.entry("MRK-09", "MRK-10")
def test_repeated_or_late_marker_responses_complete_a_transaction_once(broker: SimulatedBroker, world: World) -> None:
    for command in ("topic t", "A = init x", "produce A t"):
        perform(world, command)
    transport = carry(broker)
    transport.holding = True
    world.held.add("t")
    perform(world, "commit A")
    (late,) = transport.held
    transport.holding = False
    late()
    late()
    for command in ("produce A t", "commit A", "produce A t"):
        assert perform(world, command).startswith("NONE")
    late()
    assert perform(world, "describe x").startswith("Ongoing")
    assert perform(world, "txn_log x").split().count("CompleteCommit:1") == 1


@pytest.mark.entry("IDM-18")
def test_stopping_broker_accepts_no_requests(broker: SimulatedBroker, world: World) -> None:
    for command in ("topic t", "A = init", "produce A t"):
        perform(world, command)
    client = world.client
    broker.stop()
    with pytest.raises(Closed):
        client.receive((3, 9))
    broker.start()
    world.forget_connection()
    assert perform(world, "produce A t seq=0") == "NONE @0 stamped"


@pytest.mark.smoke
@pytest.mark.entry("IDM-20")
def test_expiry_of_a_million_producers_does_not_block_the_event_loop(meter: Meter) -> None:
    state, count = ProducerState(), meter.size(1_000_000)
    old, young = ProducerEntry(0), ProducerEntry(0)
    old.seen(0, -1)
    young.seen(1_000, -1)
    state.replace(ProducerEntry(pid, packed=(old if pid % 10 == 0 else young).packed) for pid in range(count))
    check_best(meter, EXPIRY_STEP, lambda n: run_steps(meter, state.remove_expired(1_500 + n, 1_400 + n, 5_000)))
    assert len(state.entries) == count * 9 // 10


@pytest.mark.entry("IDM-21")
def test_expiry_of_an_old_producer_epoch_keeps_the_new_epoch() -> None:
    state = ProducerState()
    for epoch, seen_ms in ((0, 1_000), (1, 2_000)):
        header = read_header(build_batch([(None, b"v")], 1, producer_id=7, producer_epoch=epoch, base_sequence=0))
        state.apply_data(header, epoch, epoch, 1, seen_ms)
    run(state.remove_expired(2_500, 1_000, 10))
    assert state.entries[7].epoch == 1


@pytest.mark.heavy
@pytest.mark.entry("IDM-22")
@pytest.mark.parametrize("age_ms", [10**10, -3_000_000])
def test_producer_expiration_counts_from_the_last_batch_of_the_producer(age_ms: int) -> None:
    """Apache Kafka uses record timestamps, so it expires even an active producer whose records have old timestamps."""
    broker = SimulatedBroker({"producer.id.expiration.ms": "7200000", "connections.max.idle.ms": "36000000"}).start()
    world = World(broker, "ottla", "inside-")
    for command in ("topic t", "A = init", f"produce A t age={age_ms}"):
        perform(world, command)
    broker.sleep(3_600_000)
    assert str(perform(world, "producers t")).startswith("p1 e0")
    # The test's sleeps together exceed the expiration time of two hours by one check interval. If the age counted from a timestamp
    # that is 3,000 s ahead, the producer would not have expired yet.
    broker.sleep(3_600_000 + 700_000)
    assert perform(world, "producers t") == "nobody"
    world.close()
    broker.close()
    assert broker.bugs == 0


@pytest.mark.entry("ADD-14", "NET-13")
@pytest.mark.parametrize("jump_ms", [-15, -3_600_000, 3_600_000])
def test_wall_clock_jumps_do_not_trigger_timeouts(broker: SimulatedBroker, world: World, jump_ms: int) -> None:
    for command in ("topic t", "A = init x timeout=60000", "M = join g session=10000"):
        perform(world, command)
    broker.env.wall_jump_ms = jump_ms
    assert perform(world, "produce A t").startswith("NONE")
    broker.sleep(5_000)
    assert perform(world, "offsets A g t=1 member=M") == "NONE", "the session of the member has not ended"
    assert perform(world, "describe x").startswith("Ongoing"), "the transaction has not timed out"
    broker.sleep(56_000)
    assert perform(world, "describe x").startswith("CompleteAbort"), "the transaction times out later"


@pytest.mark.heavy
@pytest.mark.entry("CRD-11")
def test_many_transactional_ids_expire_in_record_batches_within_the_size_limit() -> None:
    shard = TransactionShard(0, TxnConfig(id_expiration_ms=1_000), 2)
    for number in range(20_000):
        name = f"id-{number}" if number % 1_000 else "x" * 30_000 + str(number)
        shard.ids[name] = TxnMetadata(name, number, 0, 60_000, TxnState.EMPTY, update_ms=0)
    seen = 0
    for step in shard.expire_ids(5_000, 1_000, 50_000):
        size = len(build_batch(((r.key, r.value) for r in step.records), 1))
        assert size < 80_000
        seen += len(step.records)
        for record in step.records:
            shard.replay(record)
    assert seen == 20_000
    assert not shard.ids


@pytest.mark.entry("CRD-18")
def test_repeated_init_producer_id_of_one_transactional_id_keeps_the_state_small() -> None:
    shard = TransactionShard(0, TxnConfig(), 2)
    pids = iter(range(1_000))
    for _ in range(5_000):
        for record in shard.init_producer_id("x", 60_000, None, 1, lambda: next(pids)).records:
            shard.replay(record)
    assert len(shard.ids) == 1
    assert len(shard._last_epochs) <= 1
    assert not list(shard.unfinished())


@pytest.mark.entry("CRD-22")
def test_slow_periodic_broker_task_never_runs_concurrently_with_itself(broker: SimulatedBroker) -> None:
    running: list[int] = []
    runs = 0

    async def task() -> None:
        nonlocal runs
        assert not running
        running.append(1)
        for _ in range(50):
            broker.env.call_soon(lambda: None)
            await next_turn()
        running.clear()
        runs += 1

    broker.broker.housekeeping.repeat("slow", lambda _: 1, task)
    broker.sleep(100)
    assert runs > 10


@pytest.mark.smoke
@pytest.mark.entry("CRD-24")
def test_metric_counts_transactions_past_their_timeout(broker: SimulatedBroker, world: World) -> None:
    from ottla.broker.metrics.exposition import collect

    def late() -> float:
        name = "kafka_server_replicamanager_partitionswithlatetransactionscount"
        return next(m for m in collect(broker.broker) if m.name == name).samples[0].value

    for command in ("topic t", "A = init x", "broker_config transaction.partition.verification.enable=false", "produce A t v=9"):
        perform(world, command)
    assert late() == 0
    broker.sleep(900_000 + 300_000 - 1_000)
    assert late() == 0
    broker.sleep(2_000)
    assert late() == 1
    world.forget_connection()  # The broker has closed the connection, which was idle for 20 minutes.
    assert perform(world, "marker A t abort") == "NONE"
    assert late() == 0


@pytest.mark.entry("RDC-21")
def test_fetch_over_many_aborted_transactions_blocks_the_event_loop_briefly(
    meter: Meter, broker: SimulatedBroker, world: World
) -> None:
    for command in ("topic t", "A = init x"):
        perform(world, command)
    shard = broker.broker.partitions.get("inside-t", 0)
    from ottla.protocol.records import EndTxnMarker

    for pid in range(meter.size(20_000)):
        batch = build_batch([(None, b"v")], 1, producer_id=pid, producer_epoch=0, base_sequence=0, transactional=True)
        shard.append(batch, read_header(batch))
        shard.append_marker(EndTxnMarker(pid, 0, False, 0), 0)

    def fetch(_: int) -> None:
        assert meter.run(lambda: perform(world, "fetch t committed max=1048576")).startswith("NONE")

    check_best(meter, FETCH, fetch)


@pytest.mark.entry("PRD-19", "INI-05")
def test_producer_sequence_check_and_append_are_atomic(broker: SimulatedBroker, world: World) -> None:
    """Kafka verifies a batch asynchronously before the append.

    ottla does both without interruption, so pipelined requests do not interleave.
    """
    for command in ("topic t", "A = init x", "add A t"):
        perform(world, command)
    client = broker.connect()
    from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

    sent = [client.send(InitProducerIdRequest(transactional_id="inside-y", transaction_timeout_ms=60_000), 5) for _ in range(5)]
    answers = [client.receive(one) for one in sent]
    assert [(a.error_code, a.producer_epoch) for a in answers] == [(0, n) for n in range(5)]
    client.close()


@pytest.mark.entry("CRD-15")
@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Code.NOT_ENOUGH_REPLICAS, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.REQUEST_TIMED_OUT, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.COORDINATOR_NOT_AVAILABLE),
        (Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_COORDINATOR),
        (Code.KAFKA_STORAGE_ERROR, Code.NOT_COORDINATOR),
        (Code.MESSAGE_TOO_LARGE, Code.UNKNOWN_SERVER_ERROR),
    ],
)
def test_append_errors_of_a_coordinator_log_become_coordinator_errors_for_clients(
    broker: SimulatedBroker, world: World, monkeypatch: pytest.MonkeyPatch, failure: Code, code: Code
) -> None:
    from ottla.broker.partitions.partitions import Partition

    for command in ("topic t", "A = init x"):
        perform(world, command)
    identity = ProducerIdAndEpoch(world.actors["A"].pid, 0)

    def refuse(self: Partition, batch: bytearray) -> None:
        raise KafkaError(failure)

    with monkeypatch.context() as patched:
        patched.setattr(Partition, "append_own", refuse)
        for command in ("init x once", "init y once", "add A t once"):
            assert perform(world, command) == code.name
    assert broker.broker.transactions.shard_of("inside-x").ids["inside-x"].producer_epoch == identity.epoch
    assert perform(world, "add A t") == "NONE"
    assert perform(world, "describe y") == "TRANSACTIONAL_ID_NOT_FOUND"
