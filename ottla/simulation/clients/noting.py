"""Records the requests and responses of all clients as one sequence of events."""

from __future__ import annotations

from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.history import Attempt, History, OffsetsRead, ProducerSession, RecordDeletion, TriedRecord, Watched


class Notes:
    """The history of a simulation. Each event is added at once, so that the events of a killed client are complete."""

    def __init__(self) -> None:
        self.history = History()
        self.lines: list[str] = []
        self.findings: list[str] = []
        """Errors that a client has detected at once, such as decreasing offsets."""
        self.identities: dict[str, tuple[int, int]] = {}
        """The newest producer id and epoch of each transactional id in a response to a client."""
        self.acknowledged: list[tuple[tuple[int, int], bool]] = []
        """Transactions that ended since the last check: producer id and epoch, and whether EndTxn committed."""
        self._moment = 0

    def moment(self) -> float:
        """Return the number of the next event, which serves as its time in the history, because clock times may be equal."""
        self._moment += 1
        return float(self._moment)

    def say(self, now_ms: int, line: str) -> None:
        self.lines.append(f"{now_ms} {line}")

    def finding(self, line: str) -> None:
        self.findings.append(line)

    def initialised(self, transactional_id: str, actor: str, session: int, identity: tuple[int, int]) -> None:
        self.history.sessions.append(ProducerSession(transactional_id, actor, session, self.moment(), identity))

    def identified(self, transactional_id: str, identity: tuple[int, int]) -> None:
        self.identities[transactional_id] = max(identity, self.identities.get(transactional_id, (-1, -1)))

    def attempt_begun(self, attempt: Attempt) -> None:
        if not attempt.is_transaction:
            attempt.commit_asked_s = self.moment()
        self.history.attempts.append(attempt)

    def commit_asked(self, attempt: Attempt) -> None:
        attempt.commit_asked_s = self.moment()

    def ended(self, attempt: Attempt, *, committed: bool) -> None:
        attempt.ended_s = self.moment()
        attempt.was_answered_committed = committed

    def offsets_read(self, group: str, asked: float, offsets: dict[TopicPartition, int]) -> None:
        self.history.offsets_read.append(OffsetsRead(group, asked, offsets))

    def watches(self, actor: str, where: TopicPartition, *, committed: bool) -> Watched:
        watched = Watched(actor, where, is_committed=committed)
        self.history.watched.append(watched)
        return watched

    def deletion(self, where: TopicPartition, before: int) -> RecordDeletion:
        deletion = RecordDeletion(where, before)
        self.history.deletions.append(deletion)
        return deletion


def placed(records: list[TriedRecord]) -> dict[TopicPartition, list[TriedRecord]]:
    """Group the records by partition, in order."""
    by_partition: dict[TopicPartition, list[TriedRecord]] = {}
    for record in records:
        by_partition.setdefault(record.where, []).append(record)
    return by_partition
