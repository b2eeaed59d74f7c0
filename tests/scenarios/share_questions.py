"""What a share coordinator is asked, and the order in which: each question finds what the ones before have left.

Left out is what Apache Kafka does otherwise from 4.4 on, and ottla with it: it refuses negative epochs, and no write moves a start
offset back, nor takes what was done with back.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.protocol.errors import Code
from ottla.protocol.messages import delete_share_group_state as delete_state
from ottla.protocol.messages import initialize_share_group_state as initialize_state
from ottla.protocol.messages import read_share_group_state as read_state
from ottla.protocol.messages import read_share_group_state_summary as read_summary
from ottla.protocol.messages import write_share_group_state as write_state
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.uuids import uuid_text
from tests.scenarios.setting import NO_SUCH_ID, Questions, Setting
from tests.support.raw_client import retry

SHARE = 2
LOADING = {Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR, Code.COORDINATOR_LOAD_IN_PROGRESS}


class Asking:
    """Requests about one group and the topic ``two``."""

    def __init__(self, topic_id: bytes, group: str) -> None:
        self.group = group
        self.topic_id = topic_id

    def initialize(
        self, partition: int = 0, epoch: int = 0, start: int = 0, topic_id: bytes | None = None
    ) -> initialize_state.InitializeShareGroupStateRequest:
        asked = initialize_state.PartitionData(partition=partition, state_epoch=epoch, start_offset=start)
        topic = initialize_state.InitializeStateData(topic_id=topic_id or self.topic_id, partitions=[asked])
        return initialize_state.InitializeShareGroupStateRequest(group_id=self.group, topics=[topic])

    def read(self, partition: int = 0, leader: int = 0, topic_id: bytes | None = None) -> read_state.ReadShareGroupStateRequest:
        asked = read_state.PartitionData(partition=partition, leader_epoch=leader)
        topic = read_state.ReadStateData(topic_id=topic_id or self.topic_id, partitions=[asked])
        return read_state.ReadShareGroupStateRequest(group_id=self.group, topics=[topic])

    def summary(self, *partitions: int, topic_id: bytes | None = None) -> read_summary.ReadShareGroupStateSummaryRequest:
        asked = [read_summary.PartitionData(partition=partition, leader_epoch=0) for partition in partitions]
        topic = read_summary.ReadStateSummaryData(topic_id=topic_id or self.topic_id, partitions=asked)
        return read_summary.ReadShareGroupStateSummaryRequest(group_id=self.group, topics=[topic])

    def delete(self, partition: int = 0, topic_id: bytes | None = None) -> delete_state.DeleteShareGroupStateRequest:
        asked = delete_state.PartitionData(partition=partition)
        topic = delete_state.DeleteStateData(topic_id=topic_id or self.topic_id, partitions=[asked])
        return delete_state.DeleteShareGroupStateRequest(group_id=self.group, topics=[topic])

    def write(
        self,
        *batches: tuple[int, int, int, int],
        partition: int = 0,
        epoch: int = 0,
        leader: int = 0,
        start: int = 0,
        complete: int = 0,
        topic_id: bytes | None = None,
    ) -> write_state.WriteShareGroupStateRequest:
        asked = write_state.PartitionData(
            partition=partition,
            state_epoch=epoch,
            leader_epoch=leader,
            start_offset=start,
            delivery_complete_count=complete,
            state_batches=[
                write_state.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in batches
            ],
        )
        topic = write_state.WriteStateData(topic_id=topic_id or self.topic_id, partitions=[asked])
        return write_state.WriteShareGroupStateRequest(group_id=self.group, topics=[topic])


def _find(setting: Setting, asking: Asking) -> None:
    """Until the coordinators of both partitions have loaded."""
    for partition in (0, 1):
        key = f"{asking.group}:{uuid_text(asking.topic_id)}:{partition}"
        retry(
            lambda key=key: setting.call(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key]), 6),  # type: ignore[misc]
            lambda answer: answer.coordinators[0].error_code == 0,
        )
        retry(
            lambda partition=partition: setting.call(asking.summary(partition), 0),  # type: ignore[misc]
            lambda answer: answer.results[0].partitions[0].error_code not in LOADING,
        )


def share_states(setting: Setting, version: int) -> Questions:
    ask = Asking(setting.id("two"), setting.name(f"share-{version}"))
    _find(setting, ask)
    for label, request in (
        ("read", ask.read()),
        ("write", ask.write()),
        ("summary", ask.summary(0, 1, 9)),
        ("delete", ask.delete()),
    ):
        yield f"{label}, not initialised", request
    yield "initialise", ask.initialize(epoch=2)
    yield "read", ask.read()
    yield "write", ask.write((0, 9, 2, 1), (10, 19, 0, 1), epoch=2, complete=10)
    yield "write what overlaps", ask.write((5, 14, 0, 2), epoch=2, complete=10)
    yield "read what overlaps", ask.read()
    yield "summary", ask.summary(0)
    yield "move the start", ask.write((20, 29, 4, 3), epoch=2, start=8, complete=2)
    yield "write at the start", ask.write((9, 10, 2, 5), epoch=2, start=8, complete=9)
    yield "read all", ask.read()
    yield "summary of all", ask.summary(0)
    yield from _epochs(ask)
    yield from _wrong(ask)
    yield "delete", ask.delete()
    yield "delete again", ask.delete()
    yield "read what is deleted", ask.read()
    yield "initialise what is deleted", ask.initialize()


def _epochs(ask: Asking) -> Questions:
    yield "a new leader", ask.read(leader=4)
    yield "an older leader reads", ask.read(leader=3)
    yield "an older leader writes", ask.write(epoch=2, leader=3)
    yield "a newer leader writes", ask.write(epoch=2, leader=7, start=8, complete=9)
    yield "the leader in the summary", ask.summary(0)
    yield "an older state epoch", ask.initialize(epoch=1)
    yield "an older state epoch writes", ask.write(epoch=1, leader=7)
    yield "a newer state epoch writes", ask.write((40, 40, 2, 1), epoch=3, leader=7, start=8, complete=9)
    yield "initialise anew", ask.initialize(epoch=5, start=-1)
    yield "a leader from before", ask.read(leader=3)
    yield "the summary anew", ask.summary(0)
    yield "the first start offset", ask.write((3, 4, 2, 1), epoch=5, leader=9, start=1)
    yield "read anew", ask.read(leader=9)


def _wrong(ask: Asking) -> Questions:
    makers: tuple[Callable[..., object], ...] = (ask.initialize, ask.read, ask.delete, ask.write)
    for make in makers:
        for label, partition, topic_id in (
            ("a negative partition", -1, None),
            ("a partition beyond", 2, None),
            ("an unknown topic", 0, NO_SUCH_ID),
            ("no topic id", 0, NO_UUID),
        ):
            yield f"{label}, {make.__name__}", make(partition=partition, topic_id=topic_id)
    yield "a summary of what is not there", ask.summary(-1, 2)
    yield "no partitions", ask.summary()
    yield "no topics", read_summary.ReadShareGroupStateSummaryRequest(group_id=ask.group)
    yield "no group", Asking(ask.topic_id, "").read()


def share_coordinators(setting: Setting, version: int) -> Questions:
    """Keys of share partitions; before version 6 nobody asks for them."""
    topic_id = uuid_text(NO_SUCH_ID)
    _find(setting, Asking(setting.id("two"), setting.name("share-keys")))
    for key in (
        f"g:{topic_id}:0",
        f"a:g:{topic_id}:0",
        f"g:{topic_id}:-1",
        f"g:{topic_id}:+1",
        f"g:{topic_id}:0:",
        f"g:{topic_id}:99",
        f"g:{topic_id}:a",
        f"g:{topic_id}:3000000000",
        f"g:{topic_id}: 0",
        f":{topic_id}:0",
        "g:AAAA:1",
        "g",
    ):
        if version >= 4:
            yield f"the key {key.replace(topic_id, 'ID')}", FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key])
        else:
            yield f"the key {key.replace(topic_id, 'ID')}", FindCoordinatorRequest(key_type=SHARE, key=key)


SHARE_QUESTIONS: dict[str, Callable[[Setting, int], Questions]] = {
    "WriteShareGroupState": share_states,
}
