"""`KafkaClient`, the interface of the client: all operations on one cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ottla.client.admin.groups import GroupDescription, GroupListing, list_groups
from ottla.client.admin.groups import describe as describe_group
from ottla.client.admin.groups import lag as lag_of
from ottla.client.admin.topics import BROKER_DEFAULT, TopicDescription, TopicListing, list_topics
from ottla.client.admin.topics import create as create_topic
from ottla.client.admin.topics import delete as delete_topic
from ottla.client.admin.topics import describe as describe_topic
from ottla.client.admin.transactions import TransactionDescription, TransactionListing, list_transactions
from ottla.client.admin.transactions import describe as describe_transaction
from ottla.client.cluster import TIMEOUT_S, BrokerConnections
from ottla.client.errors import ClientError
from ottla.client.records.producing import produce
from ottla.client.records.reading import MAX_RECORDS, Isolation, Positions, read, stream
from ottla.client.records.record import ConsumedRecord, NewRecord
from ottla.client.wire.connection import CLIENT_ID
from ottla.client.wire.transport import Connect
from ottla.protocol.inflating import Allowance
from ottla.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from ottla.client.security.client_config import Connecting


class KafkaClient:
    """A Kafka cluster, ottla or Apache Kafka. Connections are opened when needed, with the TLS and SASL settings in ``connecting``.

    Each method may raise `ClientError`, and its subclass `KafkaAnswered` for an error code of the broker.
    """

    def __init__(
        self,
        bootstrap: str,
        timeout_s: float = TIMEOUT_S,
        *,
        client_id: str = CLIENT_ID,
        connect: Connect | None = None,
        connecting: Connecting | None = None,
    ) -> None:
        self.brokers = BrokerConnections(
            bootstrap, timeout_s=timeout_s, client_id=client_id, connect=connect, connecting=connecting
        )

    def close(self) -> None:
        self.brokers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"KafkaClient({self.brokers.bootstrap!r})"

    # operations on topics

    def create_topic(
        self,
        name: str,
        partitions: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = BROKER_DEFAULT,
    ) -> None:
        """Create a topic, and wait until all partitions have leaders. By default it has num.partitions partitions."""
        create_topic(self.brokers, name, partitions, configs, replication_factor)

    def delete_topic(self, name: str) -> None:
        delete_topic(self.brokers, name)

    def topics(self, *, internal: bool = False) -> list[TopicListing]:
        return list_topics(self.brokers, internal=internal)

    def topic(self, name: str) -> TopicDescription:
        return describe_topic(self.brokers, name)

    # operations on records

    def produce(self, topic: str, records: Iterable[NewRecord]) -> dict[int, int]:
        """Write records and wait until they are acknowledged. Returns the number of records by partition."""
        return produce(self.brokers, topic, records)

    def records(
        self,
        topic: str,
        isolation: Isolation = "committed",
        *,
        partitions: Iterable[int] | None = None,
        start: Positions | None = None,
        end: Positions | None = None,
        show_control: bool = False,
        max_records: int = MAX_RECORDS,
    ) -> list[ConsumedRecord]:
        """Read all current records of a topic, ordered by partition and offset.

        ``committed``: up to the last stable offset, without aborted records. ``aborted``: only aborted records. ``all``: up to the
        high watermark. ``start`` and ``end`` (exclusive) are offsets by partition. ``show_control`` includes transaction markers.
        """
        return read(
            self.brokers,
            topic,
            isolation,
            partitions=partitions,
            start=start,
            end=end,
            show_control=show_control,
            max_records=max_records,
        )

    def stream(
        self,
        topic: str,
        isolation: Isolation = "committed",
        *,
        partitions: Iterable[int] | None = None,
        start: Positions | None = None,
        end: Positions | None = None,
        show_control: bool = False,
        follow: bool = False,
        allowance: Allowance | None = None,
    ) -> Iterator[ConsumedRecord]:
        """Yield records as they are fetched; with ``follow`` also future records, without end. For other arguments see `records`.

        ``allowance`` limits the decompressed bytes of all batches together.
        """
        return stream(
            self.brokers,
            topic,
            isolation,
            partitions=partitions,
            start=start,
            end=end,
            show_control=show_control,
            follow=follow,
            allowance=allowance,
        )

    # operations on groups

    def groups(self, silent: list[ClientError] | None = None) -> list[GroupListing]:
        return list_groups(self.brokers, silent)

    def group(self, group: str) -> GroupDescription:
        return describe_group(self.brokers, group)

    def lag(self, group: str) -> dict[TopicPartition, int]:
        """Return the lag of a group by partition; see `ottla.client.admin.groups.lag`."""
        return lag_of(self.brokers, group)

    # operations on transactions

    def transactions(self, *, states: Iterable[str] = (), silent: list[ClientError] | None = None) -> list[TransactionListing]:
        return list_transactions(self.brokers, states=states, silent=silent)

    def transaction(self, transactional_id: str) -> TransactionDescription:
        return describe_transaction(self.brokers, transactional_id)
