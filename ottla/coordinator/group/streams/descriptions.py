"""Descriptions of topologies, as applications send them for people to look at (KIP-1331, StreamsGroupTopologyDescriptionManager).

A broker keeps them in a store that is not the coordinator's log, which only says of which topology the store has one. So an update
goes in two steps with the store in between: the log first says that it is not certain, and then what has come of it. A description
whose fate is not certain is asked for again.

A broker without such a store, which is Kafka's default, never asks, answers an update with UNSUPPORTED_VERSION, and describes every
group as NOT_STORED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, IntEnum

import msgspec

from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.group.streams.records import NO_EPOCH, GroupMetadata, metadata_record
from ottla.coordinator.group.streams.requests import StreamsHeartbeatOutcome
from ottla.coordinator.group.streams.status import StatusCode
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.streams_group_describe import DescribedGroup
from ottla.protocol.messages.streams_group_describe import TopologyDescription as ToldDescription
from ottla.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
)

UNCERTAIN = -2
"""Instead of the epoch of a stored description: the store may have one, or not."""
FIRST_DELAY_MS = 30_000
MAX_DELAY_MS = 3_600_000
JITTER = 0.2
FIRST_VERSION_OF_DESCRIPTIONS = 1
"""Of StreamsGroupHeartbeat and of StreamsGroupDescribe."""


class NodeType(IntEnum):
    SOURCE = 1
    PROCESSOR = 2
    SINK = 3


class DescriptionStatus(IntEnum):
    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3


class StoreOutcome(Enum):
    """What a store says: it has it, it will never take it, or it may take it later."""

    STORED = "stored"
    REFUSED = "refused"
    FAILED = "failed"


# updates


def check_update(request: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
    """Raises INVALID_REQUEST for what no group would take."""
    for text, name in ((request.member_id, "MemberId"), (request.group_id, "GroupId")):
        if not text.strip():
            raise _invalid(f"{name} can't be empty.")


def begin_update(group: StreamsGroup, request: StreamsGroupTopologyDescriptionUpdateRequest) -> Result[None]:
    """From here until `finish_update` it is not certain what the store has. Raises `KafkaError`."""
    group.member(request.member_id)
    epoch = NO_EPOCH if group.topology is None else group.topology.epoch
    if request.topology_epoch != epoch:
        raise _invalid(f"Topology epoch {request.topology_epoch} is not that of the group's topology, which is {epoch}.")
    _check_description(request.topology_description)
    if group.metadata.described_epoch == UNCERTAIN:
        return Result(None)
    return Result(None, records=_changed(group, described_epoch=UNCERTAIN))


def finish_update(group: StreamsGroup, topology_epoch: int, outcome: StoreOutcome) -> Result[None]:
    """A store that has failed changes nothing: its group is asked again after a while (`Backoff.extend`)."""
    known = group.metadata
    if outcome is StoreOutcome.FAILED:
        return Result(None)
    if outcome is StoreOutcome.REFUSED:
        return Result(None, records=_changed(group, undescribed_epoch=max(known.undescribed_epoch, topology_epoch)))
    # Somebody has removed it since the update began: what the store has now cannot be told.
    epoch = UNCERTAIN if known.described_epoch == NO_EPOCH else max(known.described_epoch, topology_epoch)
    return Result(None, records=_changed(group, described_epoch=epoch))


def _check_description(description: TopologyDescription) -> None:
    nodes = [node for one in description.subtopologies for node in one.nodes]
    nodes += [node for store in description.global_stores for node in (store.source, store.processor)]
    for node in nodes:
        if node.node_type not in list(NodeType):
            raise _invalid(f"Node {node.name} is of type {node.node_type}, which is none.")
    for store in description.global_stores:
        if (store.source.node_type, store.processor.node_type) != (NodeType.SOURCE, NodeType.PROCESSOR):
            raise _invalid("A global store is made of a source and a processor.")


# removal, with the group


def begin_removal(group: StreamsGroup) -> Result[bool]:
    """Before the description of a group that nobody is in is taken out of the store; says whether there may be one."""
    if group.members or group.metadata.described_epoch == NO_EPOCH:
        return Result(False)
    if group.metadata.described_epoch == UNCERTAIN:
        return Result(True)
    return Result(True, records=_changed(group, described_epoch=UNCERTAIN))


def finish_removal(group: StreamsGroup) -> Result[None]:
    """The store has it no longer, unless another update came in between."""
    known = group.metadata.described_epoch
    if known == NO_EPOCH:
        return Result(None)
    return Result(None, records=_changed(group, described_epoch=NO_EPOCH if known == UNCERTAIN else UNCERTAIN))


def _changed(group: StreamsGroup, **changes: int) -> list[LogRecord]:
    metadata: GroupMetadata = msgspec.structs.replace(group.metadata, **changes)
    return [metadata_record(group.group_id, metadata)]


# asking for one


class Backoff:
    """When a group may be asked for its description again: after 30 s at first, then twice as long each time, up to an hour.

    ``random`` gives numbers from 0 to 1. Nothing of this is logged: after a start a group may be asked at once.
    """

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._entries: dict[str, tuple[int, int, int]] = {}

    def begin(self, group_id: str, topology_epoch: int, now_ms: int) -> bool:
        """Whether the group may be asked now; it is not to be asked again for a while then."""
        epoch, _, next_ms = self._entries.get(group_id, (topology_epoch, 0, now_ms))
        if epoch == topology_epoch and now_ms < next_ms:
            return False
        self._delay(group_id, topology_epoch, now_ms)
        return True

    def extend(self, group_id: str, topology_epoch: int, now_ms: int) -> None:
        """The store has failed."""
        epoch, *_ = self._entries.get(group_id, (topology_epoch,))
        if epoch <= topology_epoch:
            self._delay(group_id, topology_epoch, now_ms)

    def _delay(self, group_id: str, topology_epoch: int, now_ms: int) -> None:
        epoch, attempt, _ = self._entries.get(group_id, (NO_EPOCH, 0, 0))
        attempt = attempt + 1 if epoch == topology_epoch else 0
        factor = 1 - JITTER + 2 * JITTER * self._random()
        delay_ms = min(int(factor * min(FIRST_DELAY_MS << min(attempt, 16), MAX_DELAY_MS)), MAX_DELAY_MS)
        self._entries[group_id] = (topology_epoch, attempt, now_ms + delay_ms)

    def clear(self, group_id: str, topology_epoch: int | None = None) -> None:
        """The store has answered for good; without an epoch the group is gone."""
        entry = self._entries.get(group_id)
        if entry is not None and topology_epoch in (None, entry[0]):
            del self._entries[group_id]


def ask_for_description(
    outcome: StreamsHeartbeatOutcome, group_id: str, version: int, member_epoch: int, backoff: Backoff, now_ms: int
) -> None:
    """Ask in the answer to a heartbeat, of a broker that has a store: not whoever leaves, nor who has an older topology."""
    epoch = outcome.topology_epoch
    if version < FIRST_VERSION_OF_DESCRIPTIONS or member_epoch < 0 or epoch < 0:
        return
    if epoch in (outcome.described_epoch, outcome.undescribed_epoch):
        return
    if any(one.status_code == StatusCode.STALE_TOPOLOGY for one in outcome.answer.status or ()):
        return
    outcome.answer.topology_description_required = backoff.begin(group_id, epoch, now_ms)


# describing


def stored_epoch(group: StreamsGroup) -> int | None:
    """Of the description that a store is to be asked for; None where it certainly has none of the group's topology."""
    epoch = group.metadata.described_epoch
    return epoch if epoch >= 0 and group.topology is not None and group.topology.epoch == epoch else None


def attach(described: DescribedGroup, stored: TopologyDescription | None, *, has_failed: bool = False) -> None:
    """What a store has of a group goes into its description, where that was asked for; None: it has nothing."""
    if has_failed:
        described.topology_description_status = DescriptionStatus.ERROR
    elif stored is None:
        described.topology_description_status = DescriptionStatus.NOT_STORED
    else:
        described.topology_description = msgspec.convert(_without_the_rest(stored), ToldDescription, from_attributes=True)
        described.topology_description_status = DescriptionStatus.AVAILABLE


def _without_the_rest(description: TopologyDescription) -> TopologyDescription:
    """Of a node only what belongs to its type: sources have topics, processors stores, and sinks a topic."""

    def node(one: TopologyDescriptionNode) -> TopologyDescriptionNode:
        return msgspec.structs.replace(
            one,
            source_topics=_once(one.source_topics) if one.node_type == NodeType.SOURCE else [],
            stores=_once(one.stores) if one.node_type == NodeType.PROCESSOR else [],
            sink_topic=one.sink_topic if one.node_type == NodeType.SINK else None,
            successors=_once(one.successors),
        )

    return TopologyDescription(
        subtopologies=[
            msgspec.structs.replace(one, nodes=[node(found) for found in one.nodes]) for one in description.subtopologies
        ],
        global_stores=[
            msgspec.structs.replace(store, source=node(store.source), processor=node(store.processor))
            for store in description.global_stores
        ],
    )


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _invalid(message: str) -> KafkaError:
    return KafkaError(Code.INVALID_REQUEST, message)
