"""Questions about consumer groups (KIP-848), for two brokers to be asked the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from tests.scenarios.group_questions import committed, stable, sync_request
from tests.scenarios.setting import NO_SUCH_ID, Questions, Setting


def beat_request(setting: Setting, group: str, member: str = "m", epoch: int = 0, **given: Any) -> ConsumerGroupHeartbeatRequest:
    if epoch == 0:
        joining: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topic_partitions": []}
        if "subscribed_topic_regex" not in given:
            joining["subscribed_topic_names"] = [setting.name("one")]
        given = {**joining, **given}
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **given)


def consuming(setting: Setting, group: str, member: str = "m", **given: Any) -> str:
    """A member that has joined alone, at epoch 2."""
    answer = setting.call(beat_request(setting, group, member, **given), 1)
    assert (answer.error_code, answer.member_epoch) == (0, 2), answer
    return member


def beating(setting: Setting, version: int) -> Questions:
    def ask(group: str, member: str = "m", epoch: int = 0, **given: Any) -> ConsumerGroupHeartbeatRequest:
        return beat_request(setting, group, member, epoch, **given)

    group, none = setting.name(f"consume-{version}"), setting.name("nobody")
    consuming(setting, group)
    yield "no group", ask("")
    yield "a group of blanks", ask("  ")
    yield "no member", ask(none, "", 1)
    yield "a member of blanks", ask(none, " ", 1)
    for epoch in (-1, -2, -3, 1):
        yield f"no such group, epoch {epoch}", ask(none, epoch=epoch)
        yield f"no such member, epoch {epoch}", ask(group, "nobody", epoch)
    for epoch in (-2, -3, 1, 3, 99):
        yield f"epoch {epoch}", ask(group, epoch=epoch)
    yield "epoch 1, without what it was given", ask(group, epoch=1, topic_partitions=[])
    owned = [TopicPartitions(topic_id=setting.id("one"), partitions=[0])]
    yield "epoch 1, with it", ask(group, epoch=1, topic_partitions=owned)
    yield "going on", ask(group, epoch=2)
    yield (
        "of a topic that there is not",
        ask(group, epoch=2, topic_partitions=[TopicPartitions(topic_id=NO_SUCH_ID, partitions=[0])]),
    )
    yield (
        "of a partition that there is not",
        ask(group, epoch=2, topic_partitions=[TopicPartitions(topic_id=setting.id("one"), partitions=[9, -1])]),
    )
    yield "no time for a rebalance", ask(none, rebalance_timeout_ms=-1)
    yield "owning something at first", ask(none, topic_partitions=owned)
    yield "not saying what it owns", ask(none, topic_partitions=None)
    yield "no subscription", ask(none, subscribed_topic_names=None)
    yield "no such assignor", ask(none, server_assignor="nobody")
    yield "no such assignor later on", ask(group, epoch=2, server_assignor="nobody")
    yield "an assignor without a name", ask(group, epoch=2, server_assignor="")
    yield "an instance without a name", ask(none, instance_id="")
    yield "a rack without a name", ask(none, rack_id="")
    yield "an instance, away before it was there", ask(none, epoch=-2, instance_id="i")
    yield "no such instance", ask(group, epoch=2, instance_id="i")
    static = setting.name(f"consume-static-{version}")
    consuming(setting, static, instance_id="i")
    yield "an instance that another has", ask(static, "n", instance_id="i")
    yield "an instance's other member", ask(static, "n", 2, instance_id="i")
    yield "a static member without its instance", ask(static, epoch=2)
    yield "a static member, away for a while", ask(static, epoch=-2, instance_id="i")
    yield "a static member in its predecessor's place", ask(static, "n", instance_id="i")
    yield "the predecessor", ask(static, epoch=2, instance_id="i")
    if version >= 1:
        for regex in ("(", "[", "*", "a**", "a{1001}", "(?=a)", "a\\"):
            yield f"the expression {regex}", ask(none, subscribed_topic_regex=regex)
        yield "an expression later on that is none", ask(group, epoch=2, subscribed_topic_regex="(")
    classic, simple = setting.name(f"consume-classic-{version}"), setting.name(f"consume-simple-{version}")
    stable(setting, classic)
    committed(setting, simple)
    yield "going on in a classic group", ask(classic, epoch=1)
    yield "leaving a classic group", ask(classic, epoch=-1)
    yield "going on in a simple group", ask(simple, epoch=1)
    yield "a classic heartbeat", HeartbeatRequest(group_id=group, generation_id=2, member_id="m")
    yield "a classic sync", sync_request(group, 2, "m")
    yield "leaving", ask(group, epoch=-1)
    yield "leaving again", ask(group, epoch=-1)


def describing(setting: Setting, version: int) -> Questions:
    group, gone, classic = (setting.name(f"describe-{stem}-{version}") for stem in ("full", "gone", "classic"))
    consuming(setting, group, instance_id="i", rack_id="r")
    setting.call(beat_request(setting, gone, consuming(setting, gone), -1), 1)
    stable(setting, classic)
    yield "with a member", ConsumerGroupDescribeRequest([group])
    yield "with operations", ConsumerGroupDescribeRequest([group], include_authorized_operations=True)
    yield "emptied", ConsumerGroupDescribeRequest([gone])
    yield "classic", ConsumerGroupDescribeRequest([classic])
    yield "no such group", ConsumerGroupDescribeRequest([setting.name("nobody")])
    yield "no name", ConsumerGroupDescribeRequest([""])
    yield "none", ConsumerGroupDescribeRequest([])
    yield "many", ConsumerGroupDescribeRequest([group, gone, classic])
    yield "as a classic group", DescribeGroupsRequest([group])


CONSUMER_QUESTIONS: dict[str, Callable[[Setting, int], Questions]] = {
    "ConsumerGroupHeartbeat": beating,
    "ConsumerGroupDescribe": describing,
}
