"""Acknowledged records survive the loss of the leader's unsynced data.

This holds whether min.insync.replicas is set for the brokers or for the topic.
"""

from __future__ import annotations

import pytest

from ottla.coordinator.metadata.cluster import TOPIC_RESOURCE
from ottla.coordinator.metadata.partition_registration import RECOVERED
from ottla.protocol.errors import Code
from tests.replication.brokers import TOPIC, ReplicaBrokersWorld
from tests.replication.test_brokers import Producer, values

RECORDS = 50
MIN_INSYNC = {"min.insync.replicas": "2"}


@pytest.mark.parametrize("is_topics_own", [False, True])
def test_acknowledged_records_survive_a_power_cut_of_the_last_leader(is_topics_own: bool) -> None:
    """Both followers stop cleanly, the leader loses power, and all three brokers start again (KIP-966)."""
    world = ReplicaBrokersWorld(5, min_in_sync=2, settings={} if is_topics_own else MIN_INSYNC)
    world.log(*world.state.set_features({"eligible.leader.replicas.version": 1}).records)
    if is_topics_own:
        world.log(*world.state.set_configs(TOPIC_RESOURCE, TOPIC, MIN_INSYNC).records)
    world.settle()
    producer = Producer(world)
    sent = [b"record %d" % number for number in range(RECORDS)]
    for value in sent:
        producer.send(1, value)
    world.wait(2_000)
    assert set(producer.codes.values()) == {Code.NONE} and len(producer.codes) == RECORDS

    epochs = {follower: world.shut_down(follower) for follower in (2, 3)}
    world.kill(1, power_cut=True)
    world.fence(1)
    world.start(world.nodes[1])
    world.settle()
    lost = RECORDS - len(values(world, 1))
    assert lost > 0, "the power cut removed no records of the leader"
    for follower in (2, 3):
        world.start(world.nodes[follower], previous_epoch=epochs[follower])
        world.settle()
    assert world.registration().leader_recovery_state == RECOVERED
    for broker_id in (1, 2, 3):
        stored = b"".join(values(world, broker_id, committed=True))
        assert [value for value in sent if value not in stored] == []
