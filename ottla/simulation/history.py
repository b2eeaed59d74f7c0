"""What clients tried and what they were told of it, as `simulation.checker` judges it. Times only order what happened."""

from __future__ import annotations

from dataclasses import dataclass, field

TopicPartition = tuple[str, int]

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@dataclass(slots=True)
class Record:
    """A record that was given to a client. ``source`` is the input record that it was made of.

    ``offset`` is what its producer was told, where that is known.
    """

    where: TopicPartition
    value: str
    source: tuple[str, int, int] | None = None
    offset: int = -1


@dataclass(slots=True)
class Attempt:
    """One transaction as its producer saw it; or, where not ``is_transaction``, records that an idempotent one sent together.

    ``session`` counts the initialisations of an actor's producer; ``offsets`` are what was sent to the transaction. The
    outcome is unknown where a commit was asked for and no success told; records without a transaction ask for it as they are.
    """

    transactional_id: str
    actor: str
    session: int
    number: int
    records: list[Record]
    group: str | None = None
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    commit_asked_s: float | None = None
    ended_s: float | None = None
    told_committed: bool = False
    is_transaction: bool = True

    @property
    def outcome(self) -> str:
        if self.told_committed:
            return COMMITTED
        return ABORTED if self.commit_asked_s is None else UNKNOWN

    @property
    def name(self) -> str:
        return f"{self.actor}/{self.session}/{self.number}"


@dataclass(slots=True)
class Session:
    """A producer that was given its identity at ``initialised_s``.

    ``identity`` are producer id and epoch where they are known. The coordinator's order of two sessions of one transactional id is
    that of their identities; their answers may come in another order.
    """

    transactional_id: str
    actor: str
    session: int
    initialised_s: float
    identity: tuple[int, int] | None = None


@dataclass(slots=True)
class OffsetsRead:
    """The committed offsets that a consumer was told; the question was asked at ``asked_s``."""

    group: str
    asked_s: float
    offsets: dict[TopicPartition, int]


@dataclass(slots=True)
class Watched:
    """What one consumer has read of one partition while all went on, in the order of reading."""

    actor: str
    where: TopicPartition
    records: list[tuple[int, str]] = field(default_factory=list)
    is_committed: bool = True


@dataclass(slots=True)
class Deletion:
    """Records below ``before`` were asked to be deleted, and perhaps told to be."""

    where: TopicPartition
    before: int
    was_told: bool = False


@dataclass(slots=True)
class History:
    attempts: list[Attempt] = field(default_factory=list)
    watched: list[Watched] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    offsets_read: list[OffsetsRead] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    fenced: int = 0
