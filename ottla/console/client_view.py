"""Reads the state of any Kafka cluster, ottla or Apache Kafka, with a Kafka client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from ottla.addresses import joined_address
from ottla.broker.view.brokers import ViewedBroker
from ottla.broker.view.coordinators import Listed
from ottla.broker.view.groups import GroupDetail, GroupLag, GroupListing
from ottla.broker.view.health import NO_STRAYS, Health
from ottla.broker.view.partitions import HeldPartition, LogDetail, LogState, PartitionDetail, Totals
from ottla.broker.view.topics import TopicListing, TopicSize
from ottla.broker.view.transactions import TransactionDescription, TransactionListing
from ottla.client.admin import groups, transactions
from ottla.client.admin.activity import committed_offsets
from ottla.client.admin.groups import GroupListing as ListedGroup
from ottla.client.admin.log_sizes import log_sizes
from ottla.client.admin.offsets import EARLIEST, LATEST, offsets_by_leader
from ottla.client.admin.positions import total_lag
from ottla.client.admin.strays import DirectoryReports, Stray, directory_reports
from ottla.client.cluster import BrokerConnections, nodes_of
from ottla.client.errors import ClientError, KafkaAnswered
from ottla.client.explain.diagnosis import holding_ids, waiting_group
from ottla.client.kafka_client import KafkaClient
from ottla.client.wording import counted
from ottla.console.client_values import group_detail, topic_listing, transaction_description
from ottla.console.cluster_view import ClusterView
from ottla.console.kept_reads import KeptReads, items_of_lags
from ottla.protocol.errors import Code
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.protocol.topic_partition import TopicPartition

PROBLEMS_SHOWN: Final = 20


class ClientView:
    """Reads the state of a cluster for one update of a page. The list of topics is requested at most once.

    ``client`` returns the page's client. ``kept`` caches lists for all pages of the console. The size of a partition is that of its
    largest replica, or 0 if no broker returned it.
    """

    def __init__(self, client: Callable[[], KafkaClient], kept: KeptReads) -> None:
        self._client = client
        self._kept = kept

    @property
    def _brokers(self) -> BrokerConnections:
        return self._client().brokers

    @cached_property
    def _metadata(self) -> MetadataResponse:
        return self._kept.get(
            "topics",
            lambda: self._brokers.until_final("asking for the topics", lambda: self._brokers.metadata(None)),
            lambda metadata: len(metadata.topics),
        )

    def _metadata_of(self, topics: Sequence[str]) -> MetadataResponse:
        if not topics:
            return MetadataResponse()
        return self._brokers.until_final("asking for topics", lambda: self._brokers.metadata(list(topics)))

    def health(self) -> Health:
        partitions = [partition for topic in self._metadata.topics for partition in topic.partitions]
        leaderless = sum(partition.leader_id < 0 for partition in partitions)
        lagging = sum(len(partition.isr_nodes) < len(partition.replica_nodes) for partition in partitions)
        problems = [f"{counted(leaderless, 'partition')} without a leader"] if leaderless else []
        if lagging:
            problems.append(f"{counted(lagging, 'partition')} with replicas that are not in sync")
        reported = self._directory_reports.problems
        problems += reported[:PROBLEMS_SHOWN]
        if len(reported) > PROBLEMS_SHOWN:
            problems.append(f"{len(reported) - PROBLEMS_SHOWN:,} more problems of log directories; see the brokers' logs")
        return Health(
            bootstrap=self._brokers.bootstrap,
            cluster_id=self._metadata.cluster_id or "",
            data_dir="",
            is_sound=not problems,
            problems=problems,
            strays=NO_STRAYS,
            unexpected_errors=0,
        )

    @cached_property
    def _directory_reports(self) -> DirectoryReports:
        nodes = [node for _, node in sorted(nodes_of(self._metadata).items())]
        return self._kept.get("directories", lambda: directory_reports(self._brokers, nodes), lambda _: len(nodes))

    def reported_strays(self) -> list[Stray]:
        return self._directory_reports.strays

    def brokers(self) -> list[ViewedBroker]:
        nodes = sorted(nodes_of(self._metadata).items())
        return [ViewedBroker(node_id=node_id, address=joined_address(node.address)) for node_id, node in nodes]

    def topics(self) -> list[TopicListing]:
        return [topic_listing(topic) for topic in self._metadata.topics if not topic.error_code]

    def topic(self, name: str) -> TopicListing:
        return topic_listing(self._brokers.topic_of(self._metadata_of([name]), name))

    def sizes(self, listings: Sequence[TopicListing]) -> list[TopicSize]:
        wanted = {listing.name: list(range(listing.partitions)) for listing in listings}
        metadata = self._metadata_of(list(wanted))
        starts, stable, ends = self._offsets(metadata)
        sizes = log_sizes(self._brokers, nodes_of(metadata).values(), wanted)
        found = []
        for listing in listings:
            places = [(listing.name, index) for index in range(listing.partitions)]
            known = [place for place in places if place in starts and place in stable and place in ends]
            found.append(
                TopicSize(
                    offsets=sum(max(0, ends[place] - starts[place]) for place in known),
                    waiting=sum(max(0, ends[place] - stable[place]) for place in known),
                    size_bytes=sum(sizes.get(place, 0) for place in places),
                )
            )
        return found

    def _offsets(self, metadata: MetadataResponse) -> tuple[dict[TopicPartition, int], ...]:
        """Return log start offsets, last stable offsets and high watermarks of all partitions in ``metadata``."""
        return (
            offsets_by_leader(self._brokers, metadata, EARLIEST),
            offsets_by_leader(self._brokers, metadata, LATEST, committed=True),
            offsets_by_leader(self._brokers, metadata, LATEST),
        )

    def totals(self, most: int) -> tuple[Totals, list[str | None]]:
        partitions = sum(len(topic.partitions) for topic in self._metadata.topics)
        return self._kept.get(f"totals {most}", lambda: self._totals(most), lambda _: partitions)

    def _totals(self, most: int) -> tuple[Totals, list[str | None]]:
        stable = offsets_by_leader(self._brokers, self._metadata, LATEST, committed=True)
        ends = offsets_by_leader(self._brokers, self._metadata, LATEST)
        held = [
            HeldPartition(topic=topic, partition=index, last_stable_offset=stable[topic, index], high_watermark=end)
            for (topic, index), end in ends.items()
            if stable.get((topic, index), end) < end
        ]
        held.sort(key=lambda one: (one.last_stable_offset - one.high_watermark, one.topic, one.partition))
        sizes = log_sizes(self._brokers, nodes_of(self._metadata).values())
        shown = [(one.topic, one.partition) for one in held[:most]]
        ids = holding_ids(self._brokers, self._metadata, shown)
        totals = Totals(size_bytes=sum(sizes.values()), held_count=len(held), held=held[:most])
        return totals, [ids.get(partition) for partition in shown]

    def partitions(self, topic: str, indexes: Sequence[int]) -> list[PartitionDetail]:
        metadata = self._metadata_of([topic])
        described = {part.partition_index: part for part in self._brokers.topic_of(metadata, topic).partitions}
        starts, stable, ends = self._offsets(metadata)
        details = []
        for index in (index for index in indexes if index in described):
            place, part = (topic, index), described[index]
            detail = None
            if place in starts and place in stable and place in ends:
                # No response to a client contains a leader's log end offset, so the page shows the high watermark. Markers and
                # aborted transactions are omitted: only Fetch responses contain them.
                detail = LogDetail(
                    log_start_offset=starts[place],
                    last_stable_offset=min(stable[place], ends[place]),
                    high_watermark=ends[place],
                    log_end_offset=ends[place],
                    aborted=[],
                    markers=[],
                    open=[stable[place]] if stable[place] < ends[place] else [],
                )
            details.append(
                PartitionDetail(
                    partition=index,
                    leader=part.leader_id,
                    leader_epoch=part.leader_epoch,
                    detail=detail,
                    problem="" if detail else "no leader" if part.leader_id < 0 else f"broker {part.leader_id} returned no offsets",
                )
            )
        return details

    def log_states(self, of: Sequence[TopicPartition]) -> list[LogState | None]:
        """Return the offsets of logs. Log end offsets are the high watermarks, beyond which a client cannot read, and sizes are
        0."""
        try:
            starts, stable, ends = self._offsets(self._metadata_of(sorted({topic for topic, _ in of})))
        except KafkaAnswered:
            return [None for _ in of]
        return [
            LogState(
                log_start_offset=starts[place],
                last_stable_offset=stable[place],
                high_watermark=ends[place],
                log_end_offset=ends[place],
                size_bytes=0,
            )
            if place in starts and place in stable and place in ends
            else None
            for place in of
        ]

    @cached_property
    def _groups(self) -> tuple[list[ListedGroup], list[ClientError]]:
        def read() -> tuple[list[ListedGroup], list[ClientError]]:
            silent: list[ClientError] = []
            return groups.list_groups(self._brokers, silent), silent

        return self._kept.get("groups", read, lambda found: len(found[0]))

    def groups(self) -> Listed[GroupListing]:
        listed, silent = self._groups
        rows = [GroupListing(group_id=one.group_id, type=one.group_type, state=one.state) for one in listed]
        return Listed(rows=rows, missing=[str(error) for error in silent])

    def lags(self, group_ids: Sequence[str]) -> list[GroupLag]:
        """Return the lag of each group: the sum over its partitions with a committed offset. Describing every group would take
        long, so only share groups, and active groups without committed offsets, are described."""
        wanted = set(group_ids)
        listings = {one.group_id: one for one in self._groups[0] if one.group_id in wanted}
        known = self._lags_of(listings.values())
        lags = []
        for group_id in (one for one in group_ids if one in known):
            lag, has_offsets = known[group_id]
            # The lag of a share group also depends on the records that its members have acknowledged.
            if _is_share(listings[group_id]) or (not has_offsets and listings[group_id].state not in groups.RESTING):
                total = total_lag(groups.positions(self._brokers, listings[group_id]))
                lag = GroupLag(group_id=group_id, lag=total.known, uncommitted=total.uncommitted, unknown=0)
            lags.append(lag)
        return lags

    def quick_lags(self, group_ids: Sequence[str]) -> list[GroupLag]:
        """Return the lag of the groups whose committed offsets one request to each coordinator returns: all but share groups. Only
        brokers without KIP-709 need a request for each group."""
        wanted = set(group_ids)

        def read() -> list[GroupLag]:
            listings = [one for one in self._groups[0] if one.group_id in wanted and not _is_share(one)]
            return [lag for lag, _ in self._lags_of(listings, silent=[]).values()]

        return self._kept.get("lags", read, items_of_lags)

    def _lags_of(
        self, listings: Iterable[ListedGroup], silent: list[ClientError] | None = None
    ) -> dict[str, tuple[GroupLag, bool]]:
        """Return, by group, the lag in partitions with a committed offset, and whether there are such partitions. For ``silent``
        see `committed_offsets` and `offsets_by_leader`."""
        committed = committed_offsets(self._brokers, listings, silent)
        topics = sorted({topic for offsets in committed.values() for topic, _ in offsets})
        metadata = self._metadata_of(topics)
        existing = {(topic.name, part.partition_index) for topic in metadata.topics for part in topic.partitions}
        ends = offsets_by_leader(self._brokers, metadata, LATEST, silent=silent)
        found = {}
        for group_id, all_offsets in committed.items():
            offsets = {where: offset for where, offset in all_offsets.items() if where in existing}
            lag = sum(max(0, ends[where] - offset) for where, offset in offsets.items() if where in ends)
            unknown = sum(where not in ends for where in offsets)
            known = GroupLag(group_id=group_id, lag=lag, uncommitted=0, unknown=unknown, partitions=len(all_offsets))
            found[group_id] = known, bool(offsets)
        return found

    def group(self, group_id: str) -> GroupDetail:
        return group_detail(waiting_group(self._brokers, group_id))

    def transactions(self) -> Listed[TransactionListing]:
        silent: list[ClientError] = []
        try:
            listed = transactions.list_transactions(self._brokers, silent=silent)
        except KafkaAnswered as error:
            listed, silent = [], [error]
        rows = [
            TransactionListing(
                transactional_id=one.transactional_id,
                state=one.state,
                is_open=one.state in transactions.OPEN_STATES,
                coordinator=one.coordinator,
            )
            for one in listed
        ]
        return Listed(rows=rows, missing=[str(error) for error in silent])

    def described(self, rows: Sequence[TransactionListing]) -> list[TransactionDescription]:
        coordinators = {row.transactional_id: row.coordinator for row in rows}
        return [transaction_description(one) for one in transactions.describe_listed(self._brokers, coordinators)]

    def transaction(self, transactional_id: str) -> TransactionDescription | None:
        try:
            return transaction_description(transactions.describe(self._brokers, transactional_id))
        except KafkaAnswered as refused:
            if refused.code != Code.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            return None


def _is_share(listing: ListedGroup) -> bool:
    return listing.group_type.lower() == groups.SHARE


if TYPE_CHECKING:
    # mypy checks here that `ClientView` implements `ClusterView`.
    _PORT: type[ClusterView] = ClientView
