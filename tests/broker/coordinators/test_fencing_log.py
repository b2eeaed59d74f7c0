"""The log line that names the new owner of a transactional id and the fenced producer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from ottla.broker.coordinators import fencing_log
from ottla.broker.coordinators.fencing_log import FencingLog
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.simulation.broker import SimulatedBroker
from tests.support.raw_client import create

Line = dict[str, Any]


@pytest.fixture
def simulated() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start().with_coordinators()
    yield broker
    broker.close()
    assert broker.bugs == 0


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Line]]:
    with capture_logs() as captured:
        # A structlog logger that was used before caches its processors and bypasses `capture_logs`, so it is replaced.
        monkeypatch.setattr(fencing_log, "log", __import__("structlog").get_logger("captured"))
        yield captured


def init(simulated: SimulatedBroker, client_id: str, expected: tuple[int, int] = (-1, -1)) -> tuple[int, int, int]:
    producer_id, epoch = expected
    request = InitProducerIdRequest(
        transactional_id="orders", transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
    )
    with simulated.connect(client_id) as client:
        answer = client.call(request, 5)
    return answer.error_code, answer.producer_id, answer.producer_epoch


def taken(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["event"] == "producer_fenced"]


def test_new_owner_of_a_transactional_id_is_logged_once(simulated: SimulatedBroker, lines: list[Line]) -> None:
    _, producer_id, epoch = init(simulated, "first")
    assert taken(lines) == []
    init(simulated, "second")
    (line,) = taken(lines)
    assert line == {
        "event": "producer_fenced",
        "log_level": "info",
        "transactional_id": "orders",
        "fenced_producer_id": producer_id,
        "fenced_producer_epoch": epoch,
        "producer_id": producer_id,
        "producer_epoch": epoch + 1,
        "client_id": "second",
        "client_host": "simulated",
        "aborted_transaction": False,
    }


def test_fencing_log_line_names_the_client_whose_transaction_was_open(simulated: SimulatedBroker, lines: list[Line]) -> None:
    _, producer_id, epoch = init(simulated, "first")
    with simulated.connect("first") as client:
        create(client, "t")
        topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="orders",
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
        client.call(request, 3)
    codes = [init(simulated, "second")[0] for _ in range(2)]
    assert codes == [51, 0]
    (line,) = taken(lines)
    assert (line["fenced_producer_epoch"], line["client_id"], line["aborted_transaction"]) == (epoch, "second", True)
    assert line["producer_epoch"] > epoch + 1


class Holding:
    """Holds transaction markers back until the test releases them."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.held: list[tuple[Any, Any]] = []

    def write_txn_markers(self, request: Any, on_response: Any) -> None:
        self.held.append((request, on_response))

    def let_go(self) -> None:
        for request, on_response in self.held:
            self.real.write_txn_markers(request, on_response)


def test_init_producer_id_during_a_commit_logs_no_aborted_transaction(simulated: SimulatedBroker, lines: list[Line]) -> None:
    _, producer_id, epoch = init(simulated, "first")
    sender: Any = simulated.broker.transactions._completions._markers
    sender._transport = transport = Holding(sender._transport)
    with simulated.connect("first") as client:
        create(client, "t")
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="orders",
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        client.call(request, 3)
        end = EndTxnRequest(transactional_id="orders", producer_id=producer_id, producer_epoch=epoch, committed=True)
        ended = client.send(end, 3)
        assert init(simulated, "second")[0] == 51
        transport.let_go()
        sender._transport = transport.real
        assert client.receive(ended).error_code == 0
    # The first producer continues with a new epoch, and then a third producer takes over the id.
    _, producer_id, epoch = init(simulated, "first", (producer_id, epoch))
    init(simulated, "third")
    (line,) = taken(lines)
    assert (line["fenced_producer_epoch"], line["client_id"], line["aborted_transaction"]) == (epoch, "third", False)


def test_fencing_log_line_omits_an_abort_after_which_the_producer_recovered(simulated: SimulatedBroker, lines: list[Line]) -> None:
    _, producer_id, epoch = init(simulated, "first")
    simulated.broker.fencing_log.note_abort("orders", ProducerIdAndEpoch(producer_id, epoch))
    _, producer_id, epoch = init(simulated, "first", (producer_id, epoch))
    init(simulated, "second")
    (line,) = taken(lines)
    assert (line["fenced_producer_epoch"], line["aborted_transaction"]) == (epoch, False)


def test_recovering_producer_is_not_logged_as_new_owner_of_its_transactional_id(
    simulated: SimulatedBroker, lines: list[Line]
) -> None:
    _, producer_id, epoch = init(simulated, "first")
    assert init(simulated, "first", (producer_id, epoch))[0] == 0
    assert taken(lines) == []


def test_number_of_aborts_remembered_for_fencing_log_lines_is_bounded() -> None:
    remembered = FencingLog(cast(Any, None))
    for number in range(fencing_log.MAX_REMEMBERED_ABORTS + 5):
        remembered.note_abort(f"id-{number}", ProducerIdAndEpoch(1, 0))
    assert len(remembered._aborted) == fencing_log.MAX_REMEMBERED_ABORTS
