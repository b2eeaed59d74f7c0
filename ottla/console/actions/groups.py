"""Resets the offsets of a group, deletes them, and deletes groups."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from ottla.client.admin import groups
from ottla.client.admin.offset_deletion import delete_offsets, plan_offset_deletion
from ottla.client.admin.places import Place
from ottla.client.admin.positions import GroupPosition
from ottla.client.admin.resets import NewOffset, plan_reset
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError
from ottla.client.wording import counted
from ottla.console.actions.action import ActionClients, Effects, Name, Offset, Partition, named, option, shortened

MAX_TOPICS: Final = 1_000
"""Maximum number of topics and partitions that a request names to delete their offsets."""


class TopicOrPartition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: Name
    partition: Partition | None = None


class ConfirmedOffset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: Name
    partition: Partition
    offset: Offset


class ResetGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Set the offsets of a group without members, in ``topics``, or wherever it has committed offsets.

    ``offsets`` are the new offsets that the preview has shown. `run` sets these offsets, because the position ``to``, such as a
    time, may have another offset meanwhile. Without ``offsets``, `run` looks up the position.
    """

    group: Name
    to: Place
    topics: list[TopicOrPartition] = []
    offsets: list[ConfirmedOffset] | None = None

    def preview(self, to: ActionClients) -> Effects:
        planned = self._planned(to.brokers)
        chosen = [part for one in self.topics for part in option("--topic", _text(one))]
        return Effects(
            command=["group", "reset", *option("--to", self.to.text()), *chosen, *named(self.group)],
            columns=["partition", "before", "after", "from the end", ""],
            confirmed={"offsets": [{"topic": new.topic, "partition": new.partition, "offset": new.after} for new in planned]},
            **shortened([_row(new) for new in planned]),
        )

    def run(self, to: ActionClients) -> Effects:
        if self.offsets is None:
            offsets = {(new.topic, new.partition): new.after for new in self._planned(to.brokers)}
        else:
            offsets = {(one.topic, one.partition): one.offset for one in self.offsets}
        groups.commit(to.brokers, self.group, offsets)
        said = f"{counted(len(offsets), 'offset')} of group {self.group} {'was' if len(offsets) == 1 else 'were'} set"
        return Effects(said=said, page="group", parameters={"name": self.group})

    def _planned(self, brokers: BrokerConnections) -> list[NewOffset]:
        if not self.group:
            raise ClientError("the group has no name; give one")
        planned = plan_reset(brokers, self.group, self.to.offsets, [(one.topic, one.partition) for one in self.topics])
        if not planned:
            raise ClientError(f"group {self.group!r} has no committed offsets; name a topic")
        return planned


def _text(one: TopicOrPartition) -> str:
    return one.topic if one.partition is None else f"{one.topic}:{one.partition}"


def _row(new: NewOffset) -> list[object]:
    kept = "" if new.after == new.wanted else f"{new.wanted:,} is outside of the log, which has {new.start:,} to {new.end:,}"
    return [f"{new.topic}:{new.partition}", "none" if new.before is None else new.before, new.after, new.end - new.after, kept]


class CommittedPartition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: Name
    partition: Partition


class DeleteOffsets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Delete a group's committed offsets in ``topics``.

    ``partitions`` are the partitions that the preview has shown. `run` deletes the offsets of these partitions only, because the
    group may commit offsets of others meanwhile.
    """

    group: Name
    topics: Annotated[list[TopicOrPartition], msgspec.Meta(max_length=MAX_TOPICS)]
    partitions: list[CommittedPartition] | None = None

    def preview(self, to: ActionClients) -> Effects:
        planned = self._planned(to.brokers)
        chosen = [part for one in self.topics for part in option("--topic", _text(one))]
        return Effects(
            command=["group", "delete-offsets", *chosen, *named(self.group)],
            warning=f"{counted(len(planned), 'committed offset')} will be deleted: the group's next members begin there by"
            " auto.offset.reset; this cannot be undone",
            columns=["partition", "committed", "lag"],
            confirmed={"partitions": [{"topic": one.topic, "partition": one.partition} for one in planned]},
            **shortened([_position_row(one) for one in planned]),
        )

    def run(self, to: ActionClients) -> Effects:
        of = self._planned(to.brokers) if self.partitions is None else self.partitions
        delete_offsets(to.brokers, self.group, [(one.topic, one.partition) for one in of])
        said = f"{counted(len(of), 'committed offset')} of group {self.group} {'was' if len(of) == 1 else 'were'} deleted"
        return Effects(said=said, page="group", parameters={"name": self.group})

    def _planned(self, brokers: BrokerConnections) -> list[GroupPosition]:
        if not self.topics:
            raise ClientError("no topic is named; give one")
        return plan_offset_deletion(brokers, self.group, [(one.topic, one.partition) for one in self.topics])


class DeleteGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: Name

    def preview(self, to: ActionClients) -> Effects:
        listing = groups.find(to.brokers, self.group)
        if listing.state not in groups.RESTING:
            raise ClientError(f"group {self.group!r} has members (it is {listing.state}); stop its members first")
        known = groups.positions(to.brokers, listing)
        return Effects(
            command=["group", "delete", *named(self.group)],
            warning=f"the group and its {counted(len(known), 'committed offset')} will be deleted; this cannot be undone",
            columns=["partition", "committed", "lag"],
            **shortened([_position_row(one) for one in known]),
        )

    def run(self, to: ActionClients) -> Effects:
        groups.delete(to.brokers, self.group)
        return Effects(said=f"group {self.group} was deleted", page="groups")


def _position_row(position: GroupPosition) -> list[object]:
    return [f"{position.topic}:{position.partition}", _or_none(position.committed), _or_none(position.lag)]


def _or_none(number: int | None) -> object:
    return "none" if number is None else number
