"""The attempts of clients and their responses, for `simulation.checker`. Times only order events."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.protocol.topic_partition import TopicPartition

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@dataclass(slots=True)
class TriedRecord:
    """A record that a client tried to write. ``source`` is the input record from which a pipe made the record.

    ``offset`` is the offset in the response to its producer, if known.
    """

    where: TopicPartition
    value: str
    source: tuple[str, int, int] | None = None
    offset: int = -1


@dataclass(slots=True)
class Attempt:
    """A transaction as its producer saw it, or with ``is_transaction`` False, records that an idempotent producer sent together.

    ``session`` counts the initializations of an actor's producer. ``offsets`` were sent to the transaction. The outcome is unknown
    if a commit was requested without a successful response. For records without a transaction, sending counts as the request.
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
    """A producer that got its identity at ``initialised_s``.

    ``identity`` is producer id and epoch, if known. Two sessions of a transactional id are ordered by their identities, because the
    responses may arrive in another order.
    """

    transactional_id: str
    actor: str
    session: int
    initialised_s: float
    identity: tuple[int, int] | None = None


@dataclass(slots=True)
class OffsetsRead:
    """Committed offsets that a consumer has fetched by a request at ``asked_s``."""

    group: str
    asked_s: float
    offsets: dict[TopicPartition, int]


@dataclass(slots=True)
class Watched:
    """The records that a consumer has read from a partition during the run, in the order of reading."""

    actor: str
    where: TopicPartition
    records: list[tuple[int, str]] = field(default_factory=list)
    is_committed: bool = True


@dataclass(slots=True)
class RecordDeletion:
    """A request to delete records below ``before``. ``was_confirmed``: the response was successful."""

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
