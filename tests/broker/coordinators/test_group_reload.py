"""Groups after a start on a log that also holds records which only a newer broker knows."""

from __future__ import annotations

from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.env import START_MS
from tests.broker.handlers.test_group_answers import describe, join, sync

KEY_OF_A_CONSUMER_GROUP = b"\0\3\0\1h"
"""Version 3: ConsumerGroupMetadataKey of KIP-848, as a directory of Apache Kafka's may hold it."""


def test_unknown_record_type_does_not_break_group_effects() -> None:
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
