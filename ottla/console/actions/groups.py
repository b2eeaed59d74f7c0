"""Resets the offsets of a group, and deletes groups."""

from __future__ import annotations

import msgspec

from ottla.client.admin import groups
from ottla.client.admin.places import Place
from ottla.client.admin.resets import NewOffset, plan_reset
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError
from ottla.client.wording import counted
from ottla.console.actions.action import Effects, Name, Offset, Partition, named, option, shortened


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

    def preview(self, brokers: BrokerConnections) -> Effects:
        planned = self._planned(brokers)
        chosen = [part for one in self.topics for part in option("--topic", _text(one))]
        return Effects(
            command=["group", "reset", *option("--to", self.to.text()), *chosen, *named(self.group)],
            columns=["partition", "before", "after", "from the end", ""],
            confirmed={"offsets": [{"topic": new.topic, "partition": new.partition, "offset": new.after} for new in planned]},
            **shortened([_row(new) for new in planned]),
        )

    def run(self, brokers: BrokerConnections) -> Effects:
        if self.offsets is None:
            offsets = {(new.topic, new.partition): new.after for new in self._planned(brokers)}
        else:
            offsets = {(one.topic, one.partition): one.offset for one in self.offsets}
        groups.commit(brokers, self.group, offsets)
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


class DeleteGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: Name

    def preview(self, brokers: BrokerConnections) -> Effects:
        listing = groups.find(brokers, self.group)
        if listing.state not in groups.RESTING:
            raise ClientError(f"group {self.group!r} has members (it is {listing.state}); stop its members first")
        known = groups.positions(brokers, listing)
        return Effects(
            command=["group", "delete", *named(self.group)],
            warning=f"the group and its {counted(len(known), 'committed offset')} will be deleted; this cannot be undone",
            columns=["partition", "committed", "lag"],
            **shortened([[f"{p.topic}:{p.partition}", _or_none(p.committed), _or_none(p.lag)] for p in known]),
        )

    def run(self, brokers: BrokerConnections) -> Effects:
        groups.delete(brokers, self.group)
        return Effects(said=f"group {self.group} was deleted", page="groups")


def _or_none(number: int | None) -> object:
    return "none" if number is None else number
