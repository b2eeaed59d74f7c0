"""Judges what is left: which batches were lost, and by which election.

Pure. A batch that was seen below a high watermark may be missing only where an unclean election of a later epoch elected a replica
without it. Then the log that is left either goes on there in that epoch or a later one, or ends there, or it has a batch of an
earlier epoch: one that an isolated leader wrote, whose broker was passed over by one unclean election and elected by the next.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace

from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation import checker
from ottla.simulation.checker import Observation, Shown
from ottla.simulation.history import COMMITTED, Attempt, History
from tests.chaos.unclean.elections import UNCLEAN, Election
from tests.chaos.unclean.witness import Identity, Sightings

Log = dict[int, Identity]
"""The batches of a log by their first offsets."""


class Losses:
    """What unclean elections may have removed from the logs that are left."""

    def __init__(self, logs: dict[TopicPartition, Log], elections: Iterable[Election]) -> None:
        self._logs = logs
        self._epochs: dict[TopicPartition, list[int]] = defaultdict(list)
        for election in elections:
            if election.kind == UNCLEAN:
                self._epochs[election.where].append(election.leader_epoch)

    @property
    def affected(self) -> frozenset[TopicPartition]:
        """The partitions with an unclean election."""
        return frozenset(self._epochs)

    def permits(self, where: TopicPartition, base_offset: int, leader_epoch: int) -> bool:
        """Whether a batch may be missing."""
        later = [epoch for epoch in self._epochs.get(where, ()) if epoch > leader_epoch]
        log = self._logs.get(where, {})
        left = next((i.leader_epoch for base, i in log.items() if base <= base_offset < i.next_offset), None)
        if left is None:
            # A gap is none that an election leaves.
            return bool(later) and all(identity.next_offset <= base_offset for identity in log.values())
        return any(left >= epoch or left < leader_epoch for epoch in later)


def batches_stay(sightings: Sightings, logs: dict[TopicPartition, Log], losses: Losses) -> Iterator[str]:
    """No batch that was seen below a high watermark changes or vanishes, but by an unclean election."""
    yield from sightings.findings
    for where, by_offset in sorted(sightings.batches.items()):
        log = logs.get(where, {})
        for base_offset, identities in sorted(by_offset.items()):
            for identity in sorted(identities):
                left = log.get(base_offset)
                if left != identity and not losses.permits(where, base_offset, identity.leader_epoch):
                    became = "is missing" if left is None else f"is {left}"
                    yield f"committed batch gone: {where} at {base_offset}, seen as {identity}, {became}"


def epochs_never_return(logs: dict[TopicPartition, Log]) -> Iterator[str]:
    """Along a log the leader epochs of its batches never decrease."""
    for where, log in sorted(logs.items()):
        highest = -1
        for base_offset, identity in sorted(log.items()):
            if identity.leader_epoch < highest:
                yield f"epoch gone back: {where} at {base_offset} has epoch {identity.leader_epoch} after {highest}"
            highest = max(highest, identity.leader_epoch)


def acknowledged_or_lost(history: History, seen: Observation, sightings: Sightings, losses: Losses) -> Iterator[str]:
    """An acknowledged record is visible, or its batch was lost by an unclean election.

    A record that was never seen may be missing where there was any unclean election of its partition. One that is left, but not
    visible, belongs to a transaction whose marker was lost.
    """
    visible = {value for records in seen.committed.values() for _, value in records}
    left = {value for records in seen.uncommitted.values() for _, value in records}
    for attempt in history.attempts:
        for record in attempt.records if attempt.outcome == COMMITTED else ():
            if record.value in visible or (record.value in left and record.where in losses.affected):
                continue
            where, base_offset, identity = sightings.values.get(record.value, (record.where, -1, None))
            if not (losses.permits(where, base_offset, identity.leader_epoch) if identity else where in losses.affected):
                yield f"lost: {record.value} for {record.where} of {attempt.name}, without an election that explains it"


def restricted(
    history: History,
    seen: Observation,
    affected: Set[TopicPartition],
    offsets_partition: Callable[[str], TopicPartition],
) -> tuple[History, Observation]:
    """What concerns the partitions without an unclean election, of which everything must hold.

    ``offsets_partition`` gives the partition with a group's offsets. A group is left out where its offsets, its input or its output
    are affected.
    """
    dropped = {str(a.group) for a in history.attempts if a.group and _is_affected(a, affected, offsets_partition)}

    def kept(attempt: Attempt) -> Attempt:
        is_dropped = attempt.group in dropped
        return replace(
            attempt,
            records=[record for record in attempt.records if record.where not in affected],
            group=None if is_dropped else attempt.group,
            offsets={} if is_dropped else attempt.offsets,
        )

    def unaffected(shown: Shown) -> Shown:
        return {where: records for where, records in shown.items() if where not in affected}

    kept_history = replace(
        history,
        attempts=[kept(attempt) for attempt in history.attempts],
        watched=[watched for watched in history.watched if watched.where not in affected],
        offsets_read=[answer for answer in history.offsets_read if answer.group not in dropped],
    )
    kept_seen = replace(
        seen,
        committed=unaffected(seen.committed),
        uncommitted=unaffected(seen.uncommitted),
        stored={where: batches for where, batches in seen.stored.items() if where not in affected},
        offsets={group: offsets for group, offsets in seen.offsets.items() if group not in dropped},
        others={name: unaffected(shown) for name, shown in seen.others.items()},
    )
    return kept_history, kept_seen


def _is_affected(attempt: Attempt, affected: Set[TopicPartition], offsets_partition: Callable[[str], TopicPartition]) -> bool:
    wheres = {record.where for record in attempt.records} | attempt.offsets.keys()
    return bool(wheres & affected) or offsets_partition(str(attempt.group)) in affected


def check(
    history: History,
    seen: Observation,
    sightings: Sightings,
    logs: dict[TopicPartition, Log],
    elections: Iterable[Election],
    offsets_partition: Callable[[str], TopicPartition],
) -> list[str]:
    """Everything must hold where there was no unclean election, and what is left must be readable and explained elsewhere."""
    losses = Losses(logs, elections)
    findings = [*batches_stay(sightings, logs, losses), *epochs_never_return(logs)]
    findings += checker.check(*restricted(history, seen, losses.affected, offsets_partition))
    if losses.affected:
        findings += acknowledged_or_lost(history, seen, sightings, losses)
        findings += [*checker.nothing_else(history, seen), *checker.views_agree(history, seen)]
    return list(dict.fromkeys(findings))[: checker.MAX_FINDINGS]


def fates(sightings: Sightings, logs: dict[TopicPartition, Log]) -> Counter[str]:
    """How many of the batches that were seen are still there."""
    return Counter(
        "kept" if logs.get(where, {}).get(base_offset) == identity else "lost"
        for where, by_offset in sightings.batches.items()
        for base_offset, identities in by_offset.items()
        for identity in identities
    )
