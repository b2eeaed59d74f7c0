"""How brokers fetch the cluster's metadata log from a controller."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_quorum import DescribeQuorumRequest, TopicData
from ottla.protocol.messages.describe_quorum import PartitionData as QuorumPartition
from ottla.protocol.messages.fetch import FetchTopic
from ottla.simulation.controller import NODE_ID, SimulatedController
from tests.broker.controller.world import Broker


def test_metadata_fetch_with_an_unknown_epoch_is_refused_with_the_current_epoch(controller: SimulatedController) -> None:
    broker = Broker(controller, 1)
    partition = broker.fetch()
    assert partition.error_code == Code.FENCED_LEADER_EPOCH
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (NODE_ID, 1)
    assert broker.fetch(current_leader_epoch=2).error_code == Code.UNKNOWN_LEADER_EPOCH
    assert broker.fetch(current_leader_epoch=-1).error_code == Code.INVALID_REQUEST
    assert broker.fetch(current_leader_epoch=1).error_code == Code.NONE


def test_metadata_fetch_response_has_the_controller_address(controller: SimulatedController) -> None:
    answer = Broker(controller, 1).client.call(Broker(controller, 1).fetch_request())
    assert [(n.node_id, n.host, n.port) for n in answer.node_endpoints] == [(NODE_ID, "127.0.0.1", 9093)]


@pytest.mark.parametrize("wrong", ["cluster", "topic", "none"])
def test_controller_refuses_fetches_of_other_topics_or_with_another_cluster_id(controller: SimulatedController, wrong: str) -> None:
    broker = Broker(controller, 1)
    request = broker.fetch_request()
    if wrong == "cluster":
        request.cluster_id = "another"
    else:
        request.topics = [] if wrong == "none" else [FetchTopic(topic_id=bytes(16), partitions=request.topics[0].partitions)]
    expected = Code.INCONSISTENT_CLUSTER_ID if wrong == "cluster" else Code.INVALID_REQUEST
    assert broker.client.call(request).error_code == expected


def test_metadata_fetch_is_parked_until_the_next_record(controller: SimulatedController) -> None:
    broker = Broker(controller, 1)
    broker.catch_up()
    waiting = controller.connect()
    known = controller.server.controller.end_offset
    sent = waiting.send(broker.fetch_request(max_wait_ms=500, high_watermark=known), 18)
    controller.sleep(400)
    assert waiting._transport.next_frame() is None
    broker.register()
    partition = waiting.receive(sent).responses[0].partitions[0]
    assert partition.records
    assert partition.high_watermark == known + 1


def test_parked_metadata_fetch_times_out_with_an_empty_response(controller: SimulatedController) -> None:
    broker = Broker(controller, 1)
    broker.catch_up()
    began_ms = controller.env.steady_ms()
    partition = broker.fetch(max_wait_ms=500)
    assert (partition.error_code, bytes(partition.records)) == (Code.NONE, b"")
    assert controller.env.steady_ms() - began_ms >= 500


def test_metadata_fetch_with_an_older_high_watermark_is_answered_at_once(controller: SimulatedController) -> None:
    broker = Broker(controller, 1)
    broker.catch_up()
    began_ms = controller.env.steady_ms()
    assert broker.fetch(max_wait_ms=500, high_watermark=0).high_watermark == broker.end_offset
    assert controller.env.steady_ms() - began_ms < 100


def test_restarted_controller_has_a_newer_leader_epoch(controller: SimulatedController) -> None:
    broker = Broker(controller, 1).join()
    controller.restart(kill=True)
    broker.client = controller.connect()
    assert broker.fetch().error_code == Code.FENCED_LEADER_EPOCH
    broker.catch_up()
    assert broker.leader_epoch == broker.last_epoch == 2
    assert broker.state.registrations.brokers[1].broker_epoch == broker.epoch


def test_broker_that_fetched_lost_metadata_gets_the_diverging_epoch(controller: SimulatedController) -> None:
    broker = Broker(controller, 1)
    broker.catch_up()
    end_offset = broker.end_offset
    controller.restart()
    broker.client = controller.connect()
    broker.leader_epoch = 2
    beyond = broker.fetch(fetch_offset=end_offset + 5, last_fetched_epoch=1)
    assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (1, end_offset)
    unknown = broker.fetch(fetch_offset=end_offset, last_fetched_epoch=9)
    assert unknown.diverging_epoch.epoch == 2
    assert broker.fetch(fetch_offset=end_offset, last_fetched_epoch=1).diverging_epoch is None


def test_describe_quorum_lists_brokers_as_observers(controller: SimulatedController) -> None:
    broker = Broker(controller, 7)
    broker.catch_up()
    asked = TopicData(topic_name="__cluster_metadata", partitions=[QuorumPartition(partition_index=0)])

    def observers() -> list[tuple[int, int]]:
        answer = controller.connect().call(DescribeQuorumRequest(topics=[asked]))
        partition = answer.topics[0].partitions[0]
        assert (partition.leader_id, [v.replica_id for v in partition.current_voters]) == (NODE_ID, [NODE_ID])
        return [(o.replica_id, o.log_end_offset) for o in partition.observers]

    assert observers() == [(7, broker.end_offset)]
    controller.sleep(600_000)
    assert observers() == [], "a broker that no longer fetches is not listed as observer"


def test_controller_state_equals_a_replay_of_the_metadata_log(controller: SimulatedController) -> None:
    for number in (1, 2, 3):
        Broker(controller, number, rack=f"r{number}").join()
    live = controller.server.controller.state
    controller.restart(kill=True)
    loaded = controller.server.controller.state
    assert loaded.registrations.brokers == live.registrations.brokers
    assert loaded.registrations.record_offsets == live.registrations.record_offsets
    assert (loaded.features, loaded.next_producer_id) == (live.features, live.next_producer_id)
