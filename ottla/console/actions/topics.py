"""Creates and deletes topics, adds partitions, and elects leaders."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Final

import msgspec

from ottla.client.admin import topics
from ottla.client.admin.config_effects import effect_warnings, without_effect
from ottla.client.admin.leadership import elect_leader
from ottla.client.admin.offsets import ranges
from ottla.client.admin.topic_groups import TopicGroups, topic_groups
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError, KafkaAnswered
from ottla.client.wording import counted, up_to_records
from ottla.console.actions.action import ActionClients, Effects, Name, Partition, named, option, shortened
from ottla.protocol.internal_topics import INTERNAL_STATE
from ottla.protocol.topic_partition import MAX_PARTITION

MAX_REPLICAS: Final = (1 << 15) - 1
"""The largest number of replicas in CreateTopics, an int16."""
AUTO_CREATE: Final = "auto.create.topics.enable"


class CreateTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Create a topic. The brokers' defaults apply to unset numbers of partitions and replicas."""

    topic: Name
    partitions: Annotated[int, msgspec.Meta(ge=1, le=MAX_PARTITION)] | None = None
    replicas: Annotated[int, msgspec.Meta(ge=1, le=MAX_REPLICAS)] | None = None
    configs: dict[Name, Name] = {}

    def preview(self, to: ActionClients) -> Effects:
        if not self.topic:
            raise ClientError("the topic has no name; give one")
        configs = [part for key, value in self.configs.items() for part in option("--config", f"{key}={value}")]
        numbers = [*option("--partitions", self.partitions), *option("--replication-factor", self.replicas)]
        return Effects(
            command=["topic", "create", *numbers, *configs, *named(self.topic)], warning=self._preview_warning(to.brokers)
        )

    def _preview_warning(self, brokers: BrokerConnections) -> str:
        of_configs = self._config_warnings(brokers)
        if self.topic not in INTERNAL_STATE:
            return of_configs
        of_topic = (
            f"{self.topic} is an internal topic, which the brokers create themselves, compacted and with the partitions of their"
            f" settings. With other partitions or configs they may lose {INTERNAL_STATE[self.topic]}"
        )
        return f"{of_topic}. {of_configs}" if of_configs else of_topic

    def _config_warnings(self, brokers: BrokerConnections) -> str:
        return ". ".join(effect_warnings(without_effect(brokers, topics.ConfigKind.TOPIC, self.topic, self.configs)))

    def run(self, to: ActionClients) -> Effects:
        default = topics.BROKER_DEFAULT
        partitions, replicas = (default if number is None else number for number in (self.partitions, self.replicas))
        topics.create(to.brokers, self.topic, partitions, self.configs, replicas)
        said, warning = f"topic {self.topic} was created", self._config_warnings(to.brokers)
        return Effects(said=said, warning=warning, page="topic", parameters={"name": self.topic})


class AddPartitions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Increase the number of a topic's partitions."""

    topic: Name
    partitions: Annotated[int, msgspec.Meta(ge=1, le=MAX_PARTITION)]

    def preview(self, to: ActionClients) -> Effects:
        before = len(to.brokers.partitions(self.topic))
        if self.partitions <= before:
            raise ClientError(f"topic {self.topic!r} has {counted(before, 'partition')}; give a larger number")
        return Effects(
            command=["topic", "alter", *option("--partitions", self.partitions), *named(self.topic)],
            warning="records with the same key may go to other partitions from now on, and partitions cannot be removed",
        )

    def run(self, to: ActionClients) -> Effects:
        topics.add_partitions(to.brokers, self.topic, self.partitions)
        return Effects(said=f"topic {self.topic} has {counted(self.partitions, 'partition')}")


class DeleteTopic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: Name

    def preview(self, to: ActionClients) -> Effects:
        indexes = to.brokers.partitions(self.topic)
        what = counted(len(indexes), "partition")
        # Offsets cannot be counted if a partition has no leader, but the topic can be deleted.
        with suppress(KafkaAnswered):
            what += f" with {up_to_records(sum(end - start for start, end in ranges(to.brokers, self.topic).values()))}"
        warning = f"{what} will be deleted; this cannot be undone"
        is_internal = self.topic in INTERNAL_STATE
        if is_internal:
            warning += f". {self.topic} is an internal topic: deleting it loses {INTERNAL_STATE[self.topic]}"
        elif _creates_topics(to.brokers):
            warning += f". A running client may create the topic again, because {AUTO_CREATE} is true"
        found = topic_groups(to.brokers, self.topic, indexes)
        groups = [[listing.group_id, listing.state, partitions] for listing, partitions in found.groups]
        return Effects(
            command=["topic", "delete", *(["--yes"] if is_internal else []), *named(self.topic)],
            warning=warning + _maybe_more(found),
            columns=["group with committed offsets", "state", "partitions"] if groups else [],
            **shortened(groups),
        )

    def run(self, to: ActionClients) -> Effects:
        topics.delete(to.brokers, self.topic)
        return Effects(said=f"topic {self.topic} was deleted", page="topics")


def _creates_topics(brokers: BrokerConnections) -> bool:
    """Whether a broker creates topics that a client asks for; False if this user may not see the config."""
    try:
        configs = topics.get_configs(brokers, topics.ConfigKind.BROKER, str(brokers.nodes()[0].node_id))
    except ClientError:
        return False
    return any(config.name == AUTO_CREATE and config.value == "true" for config in configs)


def _maybe_more(found: TopicGroups) -> str:
    """Say that groups may be missing in the preview, and why; empty if all groups could be read."""
    reasons = []
    if found.unlisted:
        reasons.append(f"some groups could not be listed ({found.unlisted[0]})")
    if found.unread:
        reasons.append(f"the offsets of {counted(found.unread, 'group')} could not be read")
    return f". More groups may have committed offsets for this topic: {', and '.join(reasons)}" if reasons else ""


class ElectLeaders(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Elect the preferred leaders of a topic's partitions, or with ``is_unclean`` any running replica where there is no leader."""

    topic: Name
    partition: Partition | None = None
    is_unclean: bool = False

    def preview(self, to: ActionClients) -> Effects:
        wanted = self._wanted(to.brokers)
        warning = "committed records that the elected replica lacks are lost" if self.is_unclean else ""
        unclean = ["--unclean"] if self.is_unclean else []
        places = [f"{self.topic}:{index}" for index, _, _ in wanted]
        return Effects(
            command=["topic", "elect", *unclean, *(["--", *places] if self.topic.startswith("-") else places)],
            warning=warning,
            columns=["partition", "leader", "replicas"],
            **shortened([[index, _broker(leader), " ".join(map(str, replicas))] for index, leader, replicas in wanted]),
        )

    def run(self, to: ActionClients) -> Effects:
        wanted = self._wanted(to.brokers)
        for index, _, _ in wanted:
            elect_leader(to.brokers, self.topic, index, is_unclean=self.is_unclean)
        return Effects(said=f"leaders of {counted(len(wanted), 'partition')} of {self.topic} were elected")

    def _wanted(self, brokers: BrokerConnections) -> list[tuple[int, int, list[int]]]:
        """Return partition, leader and replicas, the preferred leader first, of each partition that needs an election.

        Raises `ClientError` if no partition needs an election.
        """
        what = f"looking for topic {self.topic!r}"
        topic = brokers.until_final(what, lambda: brokers.topic_of(brokers.metadata([self.topic]), self.topic))
        partitions = sorted(topic.partitions, key=lambda p: p.partition_index)
        if self.partition is not None and self.partition not in {p.partition_index for p in partitions}:
            raise ClientError(
                f"unknown partition {self.partition} of topic {self.topic!r}: it has {len(partitions)}, counted from 0"
            )
        wanted = [
            (p.partition_index, p.leader_id, p.replica_nodes)
            for p in partitions
            if self.partition in (None, p.partition_index)
            and (p.leader_id < 0 if self.is_unclean else p.replica_nodes[:1] != [p.leader_id])
        ]
        if not wanted:
            reason = "every partition has a leader" if self.is_unclean else "every partition is led by its preferred replica"
            raise ClientError(f"there is nothing to elect: {reason}")
        return wanted


def _broker(leader: int) -> str:
    return f"broker {leader}" if leader >= 0 else "none"
