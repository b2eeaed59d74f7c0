"""The requests of clients and their responses, for `simulation.checker`. Times serve only to order events."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.protocol.topic_partition import TopicPartition

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@dataclass(slots=True)
class TriedRecord:
    """A record that a client tried to write.

    ``source`` is topic, partition and offset of the input record that a client processed into this record. ``offset`` is the
    offset in the Produce response, or -1.
    """

    where: TopicPartition
    value: str
    source: tuple[str, int, int] | None = None
    offset: int = -1


@dataclass(slots=True)
class Attempt:
    """A transaction as its producer saw it, or with ``is_transaction`` False, records that an idempotent producer sent together.

    ``session`` numbers the producers of a client. ``offsets`` are input offsets that the transaction commits for ``group``. The
    outcome is unknown if a commit was requested without a successful response. Without a transaction, sending records counts as the
    commit request.
    """

    transactional_id: str
    actor: str
    session: int
    number: int
    records: list[TriedRecord]
    group: str | None = None
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    commit_asked_s: float | None = None
    ended_s: float | None = None
    was_answered_committed: bool = False
    is_transaction: bool = True

    @property
    def outcome(self) -> str:
        if self.was_answered_committed:
            return COMMITTED
        return ABORTED if self.commit_asked_s is None else UNKNOWN

    @property
    def name(self) -> str:
        return f"{self.actor}/{self.session}/{self.number}"


@dataclass(slots=True)
class ProducerSession:
    """A producer that received its ``identity`` (producer id and epoch) at ``initialised_s``.

    Producers of a transactional id are ordered by identity, if known, because their responses may arrive in another order.
    """

    transactional_id: str
    actor: str
    session: int
    initialised_s: float
    identity: tuple[int, int] | None = None


@dataclass(slots=True)
class OffsetsRead:
    """Committed offsets in the response to an OffsetFetch request that was sent at ``asked_s``."""

    group: str
    asked_s: float
    offsets: dict[TopicPartition, int]


@dataclass(slots=True)
class Watched:
    """The records that a consumer has read from a partition during the simulation, in the order of reading."""

    actor: str
    where: TopicPartition
    records: list[tuple[int, str]] = field(default_factory=list)
    is_committed: bool = True


@dataclass(slots=True)
class RecordDeletion:
    """A DeleteRecords request for offsets below ``before``. ``was_confirmed``: the response was successful."""

    where: TopicPartition
    before: int
    was_confirmed: bool = False


@dataclass(slots=True)
class History:
    attempts: list[Attempt] = field(default_factory=list)
    watched: list[Watched] = field(default_factory=list)
    sessions: list[ProducerSession] = field(default_factory=list)
    offsets_read: list[OffsetsRead] = field(default_factory=list)
    deletions: list[RecordDeletion] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    fenced: int = 0
