"""Faults on requests to a whole broker: errors, delays, closed connections, dropped responses and throttling."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.control.faults.registry import Fault
from ottla.protocol.errors import Code
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.protocol.records import build_batch
from ottla.simulation.client import Closed
from ottla.simulation.env import START_MS
from tests.control.faulty import Faulty
from tests.scenarios.play import perform
from tests.scenarios.world import World

ERROR = "NOT_LEADER_OR_FOLLOWER"
CODE = int(Code.NOT_LEADER_OR_FOLLOWER)


def produced(*places: str, acks: int = -1, size: int = 1) -> ProduceRequest:
    """Return a produce request with a record for each partition: ``t/1`` is partition 1 of topic t."""
    batch = bytes(build_batch([(None, b"v" * size)], START_MS))
    topics: dict[str, list[PartitionProduceData]] = {}
    for place in places:
        topic, _, index = place.partition("/")
        topics.setdefault(topic, []).append(PartitionProduceData(index=int(index or 0), records=batch))
    data = [TopicProduceData(name=topic, partition_data=parts) for topic, parts in topics.items()]
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1_000, topic_data=data)


def codes_of_produce(answer: Any) -> dict[str, int]:
    return {f"{t.name}/{p.index}": p.error_code for t in answer.responses for p in t.partition_responses}


def fetched(*indexes: int, session: tuple[int, int] = (0, -1), wait_ms: int = 0, topic: str = "f-t") -> FetchRequest:
    parts = [FetchPartition(partition=i, fetch_offset=0, partition_max_bytes=1 << 20) for i in indexes]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=topic, partitions=parts)] if parts else [],
    )


def codes_of_fetch(answer: Any) -> dict[int, int]:
    return {p.partition_index: p.error_code for t in answer.responses for p in t.partitions}


def test_error_fault_refuses_one_request_and_does_not_execute_it(faulty: Faulty) -> None:
    faulty.do("topic t")
    fault = faulty.add(api="Produce", error=ERROR)
    with faulty.broker.connect() as client:
        assert codes_of_produce(client.call(produced("f-t"), 9)) == {"f-t/0": CODE}
        assert codes_of_produce(client.call(produced("f-t"), 9)) == {"f-t/0": 0}
    assert (fault.hits, fault.matched, fault.is_spent) == (1, 1, True)
    assert faulty.do("log t").count("data") == 1


def test_error_fault_refuses_only_its_partition(faulty: Faulty) -> None:
    faulty.do("topic t partitions=2", "topic u")
    faulty.add(api="Produce", topic="f-t", partition=1, error=ERROR)
    with faulty.broker.connect() as client:
        answer = client.call(produced("f-t/0", "f-t/1", "f-u/0"), 9)
    assert codes_of_produce(answer) == {"f-t/0": 0, "f-t/1": CODE, "f-u/0": 0}
    assert [len(t.partition_responses) for t in answer.responses] == [2, 1]
    assert [faulty.do(f"log {p}").count("data") for p in ("t", "t/1", "u")] == [1, 0, 1]


def test_faults_by_topic_name_match_requests_by_topic_id(faulty: Faulty) -> None:
    faulty.do("topic t partitions=2")
    topic_id = faulty.world.topic_id("f-t")
    request = produced("f-t/0", "f-t/1")
    request.topic_data[0].name, request.topic_data[0].topic_id = "", topic_id
    faulty.add(api="Produce", topic="f-?", partition=0, error=ERROR)
    with faulty.broker.connect() as client:
        answer = client.call(request, 13)
    assert [(t.topic_id, p.index, p.error_code) for t in answer.responses for p in t.partition_responses] == [
        (topic_id, 1, 0),
        (topic_id, 0, CODE),
    ]


@pytest.mark.parametrize(("partitions", "stored"), [({}, 0), ({"topic": "f-t"}, 0), ({"topic": "f-t", "partition": 0}, 1)])
def test_error_fault_for_acks_0_closes_the_connection(faulty: Faulty, partitions: dict[str, Any], stored: int) -> None:
    """Without a response only the closed connection tells the producer that a batch was refused."""
    faulty.do("topic t partitions=2")
    faulty.add(api="Produce", error=ERROR, **partitions)
    with faulty.broker.connect() as client:
        client.send(produced("f-t/0", "f-t/1", acks=0), 9)
        with pytest.raises(Closed, match="closed"):
            client.call(produced("f-t"), 9)
    assert faulty.do("log t/1").count("data") == stored


def test_error_fault_for_acks_0_does_not_affect_other_partitions(faulty: Faulty) -> None:
    faulty.do("topic t partitions=2")
    faulty.add(api="Produce", error=ERROR, topic="f-t", partition=1)
    with faulty.broker.connect() as client:
        client.send(produced("f-t/0", acks=0), 9)
        assert codes_of_produce(client.call(produced("f-t"), 9)) == {"f-t/0": 0}
    assert faulty.do("log t").count("data") == 2


@pytest.mark.parametrize("version", [4, 12])
def test_fetch_error_of_a_fault_is_set_per_partition(faulty: Faulty, version: int) -> None:
    faulty.do("topic t partitions=2", "P = init", "produce P t", "produce P t/1")
    faulty.add(api="Fetch", topic="f-t", partition=1, error="CORRUPT_MESSAGE")
    faulty.add(api="Fetch", error=ERROR)
    with faulty.broker.connect() as client:
        first = client.call(fetched(0, 1), version)
        assert codes_of_fetch(first) == {0: 0, 1: int(Code.CORRUPT_MESSAGE)}
        assert [bool(p.records) for t in first.responses for p in t.partitions] == [True, False]
        assert codes_of_fetch(client.call(fetched(0, 1), version)) == {0: CODE, 1: CODE}
        assert codes_of_fetch(client.call(fetched(0, 1), version)) == {0: 0, 1: 0}


def test_fetch_error_of_a_fault_reaches_unlisted_partitions_of_a_fetch_session(faulty: Faulty) -> None:
    """The response is immediate, although no new data completes the fetch."""
    faulty.do("topic t partitions=2")
    with faulty.broker.connect() as client:
        opened = client.call(fetched(0, 1, session=(0, 0)), 12)
        fault = faulty.add(api="Fetch", topic="f-t", partition=1, error=ERROR)
        before_ms = faulty.broker.now_ms()
        answer = client.call(fetched(session=(opened.session_id, 1), wait_ms=30_000), 12)
        assert codes_of_fetch(answer) == {1: CODE}
        assert faulty.broker.now_ms() - before_ms < 1_000
        assert (fault.hits, answer.session_id, answer.error_code) == (1, opened.session_id, 0)
        assert client.call(fetched(session=(opened.session_id, 2)), 12).error_code == 0


def test_fetch_session_error_of_a_fault_is_top_level(faulty: Faulty) -> None:
    faulty.do("topic t")
    faulty.add(api="Fetch", error="FETCH_SESSION_ID_NOT_FOUND")
    with faulty.broker.connect() as client:
        assert client.call(fetched(0), 12).error_code == Code.FETCH_SESSION_ID_NOT_FOUND


def test_metadata_error_of_a_fault_is_set_on_topic_or_partition(faulty: Faulty) -> None:
    faulty.do("topic t partitions=2", "topic u")
    faulty.add(api="Metadata", topic="f-t", error="UNKNOWN_TOPIC_OR_PARTITION")
    faulty.add(api="Metadata", topic="f-t", partition=1, error="LEADER_NOT_AVAILABLE")
    request = MetadataRequest([MetadataRequestTopic(name="f-t"), MetadataRequestTopic(name="f-u")])
    with faulty.broker.connect() as client:
        first, second = (client.call(request, 12).topics for _ in range(2))
    assert {t.name: (t.error_code, len(t.partitions)) for t in first} == {"f-t": (3, 0), "f-u": (0, 1)}
    assert {(t.name, p.partition_index): p.error_code for t in second for p in t.partitions} == {
        ("f-t", 0): 0,
        ("f-t", 1): 5,
        ("f-u", 0): 0,
    }


def test_list_offsets_error_of_a_fault_does_not_affect_other_partitions(faulty: Faulty) -> None:
    faulty.do("topic t partitions=2")
    faulty.add(api="ListOffsets", partition=1, error=ERROR)
    parts = [ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(2)]
    with faulty.broker.connect() as client:
        answer = client.call(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="f-t", partitions=parts)]), 7)
    assert [(p.partition_index, p.error_code, p.offset) for t in answer.topics for p in t.partitions] == [(0, 0, 0), (1, CODE, -1)]


@pytest.mark.parametrize("version", [3, 5])
def test_partition_refused_by_a_fault_is_not_added_to_the_transaction(faulty: Faulty, version: int) -> None:
    faulty.do("topic t", "topic u", "A = init x")
    faulty.add(api="AddPartitionsToTxn", topic="f-u", error="CONCURRENT_TRANSACTIONS")
    assert faulty.do(f"add A t,u v={version} once") == "NONE | CONCURRENT_TRANSACTIONS"
    assert faulty.do("describe x").endswith(" t/0")


def test_error_fault_refuses_the_offset_commit_of_one_partition(faulty: Faulty) -> None:
    faulty.do("topic t partitions=2", "A = init x", "add_offsets A g", "commit_offsets h t=1")
    faulty.add(api="TxnOffsetCommit", partition=1, error="COORDINATOR_LOAD_IN_PROGRESS")
    faulty.add(api="OffsetCommit", partition=1, error="UNKNOWN_TOPIC_OR_PARTITION")
    assert faulty.do("offsets A g t=5 t/1=6 once") == "NONE | COORDINATOR_LOAD_IN_PROGRESS"
    assert faulty.do("commit_offsets h t=7 t/1=8 once") == "NONE | UNKNOWN_TOPIC_OR_PARTITION"
    assert [faulty.do(f"committed h {p}") for p in ("t", "t/1")] == ["7", "-1"]
    faulty.do("commit A")
    assert [faulty.do(f"committed g {p}") for p in ("t", "t/1")] == ["5", "-1"]


@pytest.mark.parametrize("version", [7, 8])
def test_offset_fetch_error_of_a_fault_is_set_on_partition_or_group(faulty: Faulty, version: int) -> None:
    faulty.do("topic t", "topic u", "commit_offsets g t=1 u=2")
    faulty.add(api="OffsetFetch", topic="f-t", error="UNSTABLE_OFFSET_COMMIT")
    faulty.add(api="OffsetFetch", group="f-g", error="COORDINATOR_NOT_AVAILABLE")
    assert faulty.do(f"committed g t u v={version} once").split(" | ") == ["UNSTABLE_OFFSET_COMMIT", "2"]
    assert faulty.do(f"committed g t u v={version} once") == "COORDINATOR_NOT_AVAILABLE"
    assert faulty.do(f"committed g t u v={version}").split(" | ") == ["1", "2"]


def test_write_txn_markers_error_of_a_fault_is_set_on_its_partition(faulty: Faulty) -> None:
    faulty.do("topic t", "topic u", "A = init x", "produce A t", "produce A u")
    actor = faulty.world.actors["A"]
    faulty.add(api="WriteTxnMarkers", topic="f-u", error=ERROR)
    topics = [WritableTxnMarkerTopic(name=name, partition_indexes=[0]) for name in ("f-t", "f-u")]
    marker = WritableTxnMarker(producer_id=actor.pid, producer_epoch=actor.epoch, transaction_result=False, topics=topics)
    with faulty.broker.connect() as client:
        answer = client.call(WriteTxnMarkersRequest([marker]), 1)
    codes = {t.name: p.error_code for m in answer.markers for t in m.topics for p in t.partitions}
    assert (codes, len(answer.markers)) == ({"f-t": 0, "f-u": CODE}, 1)
    assert [faulty.do(f"log {t}").count("abort") for t in "tu"] == [1, 0]


def test_response_of_a_fault_replaces_the_response_of_the_broker(faulty: Faulty) -> None:
    answer = {"coordinators": [{"key": "g", "node_id": 9, "host": "elsewhere", "port": 1}]}
    faulty.add(api="FindCoordinator", group="g", answer=answer)
    with faulty.broker.connect() as client:
        told = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators[0]
        assert (told.node_id, told.host, told.error_code) == (9, "elsewhere", 0)
        assert client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators[0].host != "elsewhere"


def test_fetch_response_configured_in_a_fault_is_sent_to_the_client(faulty: Faulty) -> None:
    topics = [{"topic": "t", "partitions": [{"partition_index": 3, "error_code": "OFFSET_OUT_OF_RANGE", "records": "AAE="}]}]
    faulty.add(api="Fetch", answer={"responses": topics})
    with faulty.broker.connect() as client:
        told = client.call(fetched(3, topic="t"), 12).responses[0].partitions[0]
    assert (told.error_code, bytes(told.records)) == (Code.OFFSET_OUT_OF_RANGE, b"\0\1")


@pytest.mark.parametrize(("moment", "stored"), [("before", 0), ("after", 1)])
def test_cut_fault_closes_the_connection_before_or_after_the_request_is_executed(faulty: Faulty, moment: str, stored: int) -> None:
    faulty.do("topic t")
    faulty.add(api="Produce", cut=moment)
    with faulty.broker.connect() as client, pytest.raises(Closed, match="closed"):
        client.call(produced("f-t"), 9)
    assert faulty.do("log t").count("data") == stored


def test_pending_responses_are_sent_before_a_cut_fault_closes_the_connection(faulty: Faulty) -> None:
    faulty.do("topic t")
    faulty.add(api="Produce", nth=2, cut="after")
    with faulty.broker.connect() as client:
        first, second = (client.send(produced("f-t"), 9) for _ in range(2))
        assert codes_of_produce(client.receive(first)) == {"f-t/0": 0}
        with pytest.raises(Closed, match="closed"):
            client.receive(second)


def test_response_dropped_by_a_fault_does_not_delay_later_responses(faulty: Faulty) -> None:
    faulty.do("topic t")
    faulty.add(api="Produce", drop_answer=True)
    with faulty.broker.connect() as client:
        client.send(produced("f-t"), 9)
        later = client.send(ApiVersionsRequest(), 0)
        assert client.receive(later).error_code == 0
        assert codes_of_produce(client.call(produced("f-t"), 9)) == {"f-t/0": 0}
    assert faulty.do("log t").count("data") == 2


def test_parked_fetch_response_dropped_by_a_fault_does_not_delay_later_responses(faulty: Faulty) -> None:
    faulty.do("topic t")
    faulty.add(api="Fetch", drop_answer=True)
    with faulty.broker.connect() as client:
        client.send(fetched(0, wait_ms=500), 12)
        assert client.receive(client.send(ApiVersionsRequest(), 0)).error_code == 0
        faulty.broker.sleep(1_000)
        assert client.call(fetched(0), 12).error_code == 0


def test_request_dropped_by_a_fault_is_not_executed(faulty: Faulty) -> None:
    faulty.do("topic t")
    faulty.add(api="Produce", drop_request=True)
    with faulty.broker.connect() as client:
        client.send(produced("f-t"), 9)
        assert client.receive(client.send(ApiVersionsRequest(), 0)).error_code == 0
    assert faulty.do("log t") == "empty"


@pytest.mark.parametrize("version", [4, 5])
def test_client_retries_end_txn_after_a_fault_dropped_the_response(faulty: Faulty, version: int) -> None:
    """After a timeout a producer retries on another connection, and the transaction is committed once."""
    faulty.do(
        "topic t", "A = init x", "add A t v=3" if version == 4 else "Z = copy A", f"produce A t v={11 if version == 4 else 12}"
    )
    lost = faulty.add(api="EndTxn", transactional_id="f-*", fields={"committed": True}, drop_answer=True)
    actor = faulty.world.actors["A"]
    request = EndTxnRequest(transactional_id="f-x", producer_id=actor.pid, producer_epoch=actor.epoch, committed=True)
    with faulty.broker.connect() as client:
        sent = client.send(request, version)
        with pytest.raises(Closed, match="no answer"):
            client.receive(sent)
    assert (lost.hits, faulty.do("read t")) == (1, "a1")
    with faulty.broker.connect() as client:
        again = client.call(request, version)
    assert again.error_code == 0
    if version == 5:
        actor.adopt(again.producer_id, again.producer_epoch)
    assert faulty.do("log t").count("commit") == 1
    assert faulty.do("add A t v=3" if version == 4 else "read t", f"produce A t v={11 if version == 4 else 12}").startswith("NONE")
    assert faulty.do(f"commit A v={version}").startswith("NONE")
    assert faulty.do("read t") == "a1 a2"


def answered_after_ms(faulty: Faulty, client: Any, sent: Any) -> int:
    began_ms = faulty.broker.now_ms()
    client.receive(sent)
    return faulty.broker.now_ms() - began_ms


def test_request_delay_of_a_fault_precedes_execution(faulty: Faulty) -> None:
    faulty.do("topic t")
    faulty.add(api="Produce", delay_ms=500)
    with faulty.broker.connect() as client:
        sent = client.send(produced("f-t"), 9)
        faulty.broker.sleep(400)
        assert faulty.do("log t") == "empty"
        assert 90 <= answered_after_ms(faulty, client, sent) <= 110
    assert faulty.do("log t").count("data") == 1


def test_response_delay_of_a_fault_follows_execution_and_delays_later_responses(faulty: Faulty) -> None:
    faulty.do("topic t")
    faulty.add(api="Produce", delay_answer_ms=500)
    with faulty.broker.connect() as client:
        first = client.send(produced("f-t"), 9)
        second = client.send(produced("f-t"), 9)
        assert faulty.do("log t").count("data") == 2
        assert 490 <= answered_after_ms(faulty, client, first) <= 510
        assert answered_after_ms(faulty, client, second) == 0
    assert faulty.broker.broker.response_budget.used_bytes == 0


@pytest.mark.parametrize(("moment", "stored"), [("delay_ms", "empty"), ("delay_answer_ms", "0 data")])
def test_fault_delay_ends_when_the_fault_is_removed(faulty: Faulty, moment: str, stored: str) -> None:
    faulty.do("topic t")
    longest = faulty.add(api="Produce", **{moment: 600_000})
    faulty.add(api="Produce", **{moment: 500})
    with faulty.broker.connect() as client:
        sent = client.send(produced("f-t"), 9)
        faulty.broker.sleep(1_000)
        assert faulty.do("log t") == stored
        faulty.release(longest)
        assert 490 <= answered_after_ms(faulty, client, sent) <= 510
    assert faulty.do("log t").count("data") == 1
    assert faulty.broker.broker.response_budget.used_bytes == 0


def test_fault_delays_add_up_and_combine_with_an_error(faulty: Faulty) -> None:
    faulty.do("topic t")
    faulty.add(api="Produce", delay_ms=200)
    faulty.add(api="Produce", delay_ms=300, error=ERROR)
    with faulty.broker.connect() as client:
        sent = client.send(produced("f-t"), 9)
        faulty.broker.sleep(480)
        assert codes_of_produce(client.receive(sent)) == {"f-t/0": CODE}
    assert faulty.do("log t") == "empty"


def test_request_delayed_by_a_fault_is_executed_after_the_client_disconnects(faulty: Faulty) -> None:
    """As in Kafka, a received request is executed even if its client disconnects, perhaps after the client's next request."""
    faulty.do("topic t")
    faulty.add(api="Produce", delay_ms=500)
    faulty.add(api="Produce", delay_answer_ms=500)
    for _ in range(2):
        with faulty.broker.connect() as client:
            client.send(produced("f-t"), 9)
    faulty.broker.sleep(1_000)
    assert faulty.do("log t").count("data") == 2
    assert faulty.broker.broker.response_budget.used_bytes == 0


@pytest.mark.parametrize(("moment", "stored"), [("before", "empty"), ("after", "0 data")])
def test_request_is_held_until_its_fault_is_removed(faulty: Faulty, moment: str, stored: str) -> None:
    faulty.do("topic t")
    held = faulty.add(api="Produce", hold=moment)
    with faulty.broker.connect() as client:
        sent = client.send(produced("f-t"), 9)
        faulty.broker.sleep(10_000)
        assert faulty.do("log t") == stored
        faulty.release(held)
        assert answered_after_ms(faulty, client, sent) == 0
    assert faulty.do("log t").count("data") == 1


def test_response_held_by_a_fault_is_dropped_when_the_client_disconnects(faulty: Faulty) -> None:
    faulty.do("topic t")
    held = faulty.add(api="Produce", hold="after")
    with faulty.broker.connect() as client:
        client.send(produced("f-t"), 9)
        assert faulty.broker.broker.response_budget.used_bytes > 0
    faulty.broker.sleep(10)
    assert faulty.broker.broker.response_budget.used_bytes == 0
    assert not held.latch._waiting


def test_broker_reads_no_requests_of_a_client_frozen_by_a_fault(faulty: Faulty) -> None:
    faulty.do("topic t")
    frozen = faulty.add(client_id="slow-*", freeze=True)
    counted = faulty.add(api="Produce", observe=True)
    with faulty.broker.connect("slow-1") as slow, faulty.broker.connect("quick") as quick:
        sent = slow.send(produced("f-t"), 9)
        assert codes_of_produce(quick.call(produced("f-t"), 9)) == {"f-t/0": 0}
        faulty.broker.sleep(20_000)
        assert (frozen.hits, faulty.do("log t").count("data")) == (1, 1)
        assert counted.hits == 1
        faulty.release(frozen)
        assert codes_of_produce(slow.receive(sent)) == {"f-t/0": 0}
    assert faulty.do("log t").count("data") == 2


def test_disconnect_of_a_client_frozen_by_a_fault_discards_its_requests(faulty: Faulty) -> None:
    faulty.do("topic t")
    frozen = faulty.add(client_id="slow", freeze=True)
    with faulty.broker.connect("slow") as slow:
        slow.send(produced("f-t"), 9)
    faulty.broker.sleep(10)
    assert len(faulty.broker.broker.stepping) == 0
    faulty.release(frozen)
    assert faulty.do("log t") == "empty"
    assert faulty.broker.broker.connections.request_budget.used_bytes == 0


def test_throttle_time_of_a_fault_is_returned_and_enforced(faulty: Faulty) -> None:
    """KIP-219: the response is sent immediately, and the connection is muted for the throttle time."""
    faulty.do("topic t")
    faulty.add(api="Produce", throttle_ms=700)
    with faulty.broker.connect() as client:
        assert client.call(produced("f-t"), 9).throttle_time_ms == 700
        began_ms = faulty.broker.now_ms()
        client.call(ApiVersionsRequest(), 0)
        assert 690 <= faulty.broker.now_ms() - began_ms <= 710


def test_byte_rate_of_a_fault_limits_the_connection(faulty: Faulty) -> None:
    faulty.do("topic t")
    faulty.add(client_id="modem", bytes_per_second=1_000)
    with faulty.broker.connect("modem") as client:
        took_ms = answered_after_ms(faulty, client, client.send(produced("f-t", size=2_000), 9))
    assert 2_000 <= took_ms <= 2_400
    assert faulty.do("log t").count("data") == 1


@pytest.mark.parametrize(("moment", "stored"), [("before", 0), ("after", 1)])
def test_kill_fault_ends_the_process_before_or_after_a_request(faulty: Faulty, moment: str, stored: int) -> None:
    faulty.do("topic t")
    faulty.add(api="Produce", kill=moment)
    with faulty.killed():
        faulty.broker.connect().call(produced("f-t"), 9)
    assert faulty.do("log t").count("data") == stored


def test_large_request_triggers_faults_like_a_small_request(faulty: Faulty) -> None:
    faulty.do("topic t partitions=2")
    faulty.add(api="AddPartitionsToTxn", error=ERROR, delay_ms=100)
    topics = [AddPartitionsToTxnTopic(name="f-t", partitions=list(range(5_000)))]
    request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="f-x", v3_and_below_topics=topics)
    with faulty.broker.connect() as client:
        sent = client.send(request, 3)
        assert 90 <= answered_after_ms(faulty, client, sent) <= 150
    faulty.add(api="AddPartitionsToTxn", cut="before")
    with faulty.broker.connect() as client, pytest.raises(Closed):
        client.call(request, 3)


def test_faults_that_match_no_request_change_no_response(faulty: Faulty) -> None:
    """The same commands give the same responses with faults that never match and without faults."""
    faulty.do("topic z")
    faulty.faults.add(Fault(client_id="another", error=ERROR, times=None))
    faulty.faults.add(Fault(topic="another", cut="before", times=None))
    faulty.faults.add(Fault(hold="between-markers", transactional_id="another"))
    commands = ("topic t", "A = init x", "produce A t", "add_offsets A g", "offsets A g t=1", "commit A", "read t", "log t")
    other = Faulty()
    other.broker.interception = None
    other.broker.restart()
    other.world = World(other.broker, "simulated", "f-")
    perform(other.world, "topic z")
    assert [faulty.do(c) for c in commands] == [other.do(c) for c in commands]
    other.close()
