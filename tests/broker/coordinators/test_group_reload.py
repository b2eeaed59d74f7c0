"""Groups after a restart on a log that also has records of a type unknown to this broker."""

from __future__ import annotations

from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.env import START_MS
from tests.broker.handlers.test_group_answers import describe, join, sync

KEY_OF_A_CONSUMER_GROUP = b"\0\3\0\1h"
"""Key version 3 is ConsumerGroupMetadataKey (KIP-848). A log directory of Apache Kafka may contain such records."""


def test_group_coordinator_loads_a_log_with_an_unknown_record_type() -> None:
    broker = SimulatedBroker({"group.initial.rebalance.delay.ms": "0"}).start().with_coordinators()
    partition = broker.broker.partitions.get("__consumer_offsets", broker.broker.groups.partition_of("g"))
    partition.append_own(build_batch([(KEY_OF_A_CONSUMER_GROUP, b"\0\0\0\0\0\0")], START_MS))
    broker.restart()
    with broker.connect() as client:
        member = join(client, "g", 3)
        sync(client, "g", member.member_id)
        assert describe(client, "g").group_state == "Stable"
        leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member.member_id, group_instance_id=None)])
        assert client.call(leaving, 4).error_code == 0
        assert describe(client, "g").group_state == "Empty"
    broker.close()
    assert broker.bugs == 0
