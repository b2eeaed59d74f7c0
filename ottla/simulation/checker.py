"""Checks exactly-once semantics: compares what clients sent and received with the final state of the brokers.

`check` is a pure function of a `History` and an `Observation`, and returns one line for each error.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.history import ABORTED, COMMITTED, Attempt, History

MAX_FINDINGS = 50
"""Maximum number of errors reported per rule, because one error may affect many records."""

Shown = dict[TopicPartition, list[tuple[int, str]]]
"""Records that a consumer has read: offsets and values by partition, in the order of reading."""


@dataclass(slots=True)
class Stored:
    """A batch in a partition's files. ``commit`` is the outcome in a transaction marker, None in other batches."""

    base_offset: int
    next_offset: int
    producer_id: int
    is_transactional: bool
    commit: bool | None
    values: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Observation:
    """The state of the brokers at the end of a simulation or test.

    ``committed`` and ``uncommitted`` are the records that one client library reads with either isolation level. ``others`` are the
    records that other client libraries read with read_committed. ``ends`` are each partition's last stable offset and high
    watermark. ``offsets`` are committed offsets by group. ``starts`` are log start offsets other than 0. ``unfinished`` are
    transactional ids with an open or prepared transaction. ``audit`` are unexpected lines of ``ottla audit``, ``errors`` of the
    broker's log.
    """

    committed: Shown
    uncommitted: Shown
    stored: dict[TopicPartition, list[Stored]]
    ends: dict[TopicPartition, tuple[int, int]]
    offsets: dict[str, dict[TopicPartition, int]]
    others: dict[str, Shown] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)
    audit: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def check(history: History, seen: Observation) -> list[str]:
    findings: list[str] = []
    for rule in RULES:
        findings += [finding for _, finding in zip(range(MAX_FINDINGS), rule(history, seen), strict=False)]
    return findings


def outcomes(history: History, seen: Observation) -> Counter[str]:
    """Count transactions by outcome: committed, aborted, or unknown to the client but in fact committed or aborted."""
    visible = {value for records in seen.committed.values() for _, value in records}
    counted: Counter[str] = Counter()
    for attempt in history.attempts:
        if not attempt.is_transaction:
            continue
        outcome = attempt.outcome
        if outcome not in (COMMITTED, ABORTED):
            shown = any(record.value in visible for record in attempt.records)
            outcome = "unknown, committed" if shown else "unknown, aborted"
        counted[outcome] += 1
    return counted


def _committed_places(seen: Observation) -> dict[str, list[TopicPartition]]:
    places: dict[str, list[TopicPartition]] = defaultdict(list)
    for where, records in seen.committed.items():
        for _, value in records:
            places[value].append(where)
    return places


def acknowledged_once(history: History, seen: Observation) -> Iterator[str]:
    """Check that each record of a committed transaction is visible once, in its partition, and that no record is visible twice."""
    places = _committed_places(seen)
    for attempt in history.attempts:
        for record in attempt.records:
            shown = places.get(record.value, [])
            if len(shown) > 1:
                yield f"twice: {record.value} is visible in {shown}"
            elif attempt.outcome == COMMITTED and not shown and record.offset >= seen.starts.get(record.where, -1):
                yield f"lost: {record.value} for {record.where} of {attempt.name}, whose commit was acknowledged"
            elif shown and shown[0] != record.where:
                yield f"wrong partition: {record.value} for {record.where} is in {shown[0]}"


def nothing_else(history: History, seen: Observation) -> Iterator[str]:
    """Check that consumers see only records that a client sent."""
    known = {record.value for attempt in history.attempts for record in attempt.records}
    for view in (seen.committed, seen.uncommitted):
        for where, records in view.items():
            for offset, value in records:
                if value not in known:
                    yield f"unknown record: {value!r} at {where} offset {offset}"


def no_duplicates_stored(history: History, seen: Observation) -> Iterator[str]:
    """Check that no record is stored twice, even in an aborted transaction, because producers are idempotent."""
    del history
    for where, records in seen.uncommitted.items():
        for value, count in Counter(value for _, value in records).items():
            if count > 1:
                yield f"stored {count} times: {value} in {where}"


def no_aborted_visible(history: History, seen: Observation) -> Iterator[str]:
    """Check that records of a transaction are not visible if its producer requested no commit."""
    places = _committed_places(seen)
    for attempt in history.attempts:
        if attempt.outcome == ABORTED:
            for record in attempt.records:
                if record.value in places:
                    yield f"aborted, but visible: {record.value} of {attempt.name}"


def in_order(history: History, seen: Observation) -> Iterator[str]:
    """Check that the records of a transactional id are in the order of sending within a partition, also across its producers."""
    order: dict[str, tuple[str, tuple[int, int, int]]] = {}
    sessions = sorted(history.sessions, key=lambda s: (s.identity or (0, 0), s.initialised_s))
    rank = {(s.actor, s.session): at for at, s in enumerate(sessions)}
    for attempt in history.attempts:
        # Without a transactional id, a producer does not fence its predecessor. Only the order within each producer is checked.
        name = attempt.transactional_id if attempt.is_transaction else f"{attempt.actor}/{attempt.session}"
        for at, record in enumerate(attempt.records):
            place = (rank[attempt.actor, attempt.session], attempt.number, at)
            order[record.value] = (name, place)
    for view in (seen.committed, seen.uncommitted):
        for where, records in view.items():
            last: dict[str, tuple[tuple[int, int, int], str]] = {}
            for offset, value in records:
                if value not in order:
                    continue
                name, place = order[value]
                before = last.get(name)
                if before is not None and place <= before[0]:
                    yield f"out of order: {value} at {where} offset {offset} comes after {before[1]}"
                last[name] = (place, value)


def atomic(history: History, seen: Observation) -> Iterator[str]:
    """Check that either all records of a transaction are visible or none."""
    places = _committed_places(seen)
    for attempt in history.attempts:
        missing = [record for record in attempt.records if record.value not in places and attempt.is_transaction]
        if missing and len(missing) < len(attempt.records):
            lacks = f"lacks {len(missing)} of {len(attempt.records)}: {missing[0].value} in {missing[0].where}"
            yield f"incomplete: {attempt.name} ({attempt.outcome}) {lacks}"


def zombies_fenced(history: History, seen: Observation) -> Iterator[str]:
    """Check that no producer commits a transaction after a newer producer has initialized the same transactional id."""
    places = _committed_places(seen)
    sessions = defaultdict(list)
    for session in history.sessions:
        sessions[session.transactional_id].append(session)
    for attempt in history.attempts:
        if not attempt.is_transaction:
            continue
        asked_s = attempt.commit_asked_s
        own = next(s for s in sessions[attempt.transactional_id] if (s.actor, s.session) == (attempt.actor, attempt.session))
        for session in sessions[attempt.transactional_id]:
            if own.identity is not None and session.identity is not None:
                takes_over = own.identity < session.identity
            else:
                takes_over = own.initialised_s < session.initialised_s
            if asked_s is not None and takes_over and session.initialised_s < asked_s:
                shown = [record.value for record in attempt.records if record.value in places]
                if shown or attempt.outcome == COMMITTED:
                    yield f"a zombie has committed: {attempt.name}, after {session.actor}/{session.session} took over: {shown[:1]}"


def output_matches_offsets(history: History, seen: Observation) -> Iterator[str]:
    """Check that an input record has one visible output record if it is below its group's committed offset, otherwise none."""
    places = _committed_places(seen)
    made: dict[str, Counter[tuple[str, int, int]]] = defaultdict(Counter)
    for attempt in history.attempts:
        for record in attempt.records:
            if record.source is not None and record.value in places:
                made[str(attempt.group)][record.source] += 1
    groups: dict[str, set[TopicPartition]] = defaultdict(set)
    for attempt in history.attempts:
        if attempt.group is not None:
            groups[attempt.group] |= attempt.offsets.keys()
    for group, inputs in groups.items():
        for where in inputs:
            upto = seen.offsets.get(group, {}).get(where, 0)
            wanted = Counter((*where, offset) for offset, _ in seen.committed.get(where, []) if offset < upto)
            processed = Counter({source: count for source, count in made[group].items() if source[:2] == where})
            for source in wanted - processed:
                yield f"offsets without output: {group} has committed {upto} for {where}, but wrote no output for {source}"
            for source, count in (processed - wanted).items():
                reason = f"{count + wanted[source]} times" if wanted[source] else f"beyond its committed offset {upto}"
                yield f"output without offsets: {group} processed {source} {reason}"


def offsets_never_return(history: History, seen: Observation) -> Iterator[str]:
    """Check that a group's offset never falls below an acknowledged commit, and that each offset in a response was committed by a
    client.
    """
    sent = defaultdict(set)
    commits_by_partition: dict[tuple[str, TopicPartition], list[tuple[float, int, Attempt]]] = defaultdict(list)
    for attempt in history.attempts:
        for where, offset in attempt.offsets.items():
            sent[str(attempt.group), where].add(offset)
            if attempt.outcome == COMMITTED and attempt.ended_s is not None:
                commits_by_partition[str(attempt.group), where].append((attempt.ended_s, offset, attempt))
    for answer in history.offsets_read:
        for (group, where), commits in commits_by_partition.items():
            floor = max((offset for ended_s, offset, _ in commits if ended_s < answer.asked_s), default=0)
            if group == answer.group and where in answer.offsets and answer.offsets[where] < floor:
                yield f"committed offset decreased: {group} {where} received {answer.offsets[where]} after {floor} was committed"
        for where, offset in answer.offsets.items():
            if offset not in sent[answer.group, where]:
                yield f"unknown committed offset: {answer.group} {where} received {offset}, which no client committed"
    for (group, where), commits in commits_by_partition.items():
        highest = max(offset for _, offset, _ in commits)
        if seen.offsets.get(group, {}).get(where, 0) < highest:
            yield f"offset lost: {group} {where} ends at {seen.offsets.get(group, {}).get(where)}, but {highest} was committed"


def views_agree(history: History, seen: Observation) -> Iterator[str]:
    """Check that consumers see exactly the records in the log files, and that the files have no gaps between offsets."""
    del history
    for where, batches in seen.stored.items():
        at = batches[0].base_offset if batches else 0
        committed: list[tuple[int, str]] = []
        uncommitted: list[tuple[int, str]] = []
        outcome_of = _outcomes_by_batch(batches)
        if where[0].startswith("__"):
            # Compaction removes records of internal topics, which leaves gaps.
            continue
        for number, batch in enumerate(batches):
            if batch.base_offset != at:
                yield f"gap: {where} has no offsets {at} to {batch.base_offset}"
            at = batch.next_offset
            if batch.commit is None:
                start = seen.starts.get(where, 0)
                numbered = enumerate(batch.values, batch.base_offset)
                records = [(offset, value) for offset, value in numbered if offset >= start]
                uncommitted += records
                if not batch.is_transactional or outcome_of.get(number):
                    committed += records
        for name, view, stored in (
            ("read_committed", seen.committed, committed),
            ("read_uncommitted", seen.uncommitted, uncommitted),
        ):
            if view.get(where, []) != stored:
                odd = sorted(set(view.get(where, [])) ^ set(stored))[:3]
                yield f"{name} of {where} shows {len(view.get(where, []))} records, the files have {len(stored)}: {odd}"

    for name, view in seen.others.items():
        for where, records in view.items():
            if records != seen.committed[where]:
                odd = sorted(set(records) ^ set(seen.committed[where]))[:3]
                yield f"{name} reads other records in {where} than read_committed: {len(records)} records, {odd}"


def _outcomes_by_batch(batches: list[Stored]) -> dict[int, bool]:
    """For each transactional batch, by index in ``batches``: whether it is committed. Omits batches of open transactions."""
    opened: dict[int, list[int]] = defaultdict(list)
    outcomes: dict[int, bool] = {}
    for number, batch in enumerate(batches):
        if batch.commit is not None:
            for member in opened.pop(batch.producer_id, []):
                outcomes[member] = batch.commit
        elif batch.is_transactional:
            opened[batch.producer_id].append(number)
    return outcomes


def committed_from_the_first(history: History, seen: Observation) -> Iterator[str]:
    """Check that the records that a consumer has read are consecutive records of the final log.

    A consumer may return to the first record.
    """
    for watched in history.watched:
        view = seen.committed if watched.is_committed else seen.uncommitted
        final = view.get(watched.where, [])
        place = {record: at for at, record in enumerate(final)}
        before = -1
        for record in watched.records:
            at = place.get(record)
            if at is None:
                yield f"disappeared: {record} in {watched.where}, which {watched.actor} has read"
                break
            if at not in (before + 1, 0):
                yield f"skipped: {watched.actor} read {record} in {watched.where}, but not {final[before + 1]} before it"
                break
            before = at


def deletions_hold(history: History, seen: Observation) -> Iterator[str]:
    """Check the log start offset: it is 0 or an offset that a DeleteRecords request named, and no acknowledged request named a
    higher offset."""
    asked: dict[TopicPartition, set[int]] = defaultdict(set)
    deleted: dict[TopicPartition, int] = {}
    for deletion in history.deletions:
        asked[deletion.where].add(deletion.before)
        if deletion.was_confirmed:
            deleted[deletion.where] = max(deleted.get(deletion.where, 0), deletion.before)
    for where in dict.fromkeys([*asked, *seen.starts]):
        start = seen.starts.get(where, 0)
        if start < deleted.get(where, 0):
            yield f"deletion undone: {where} starts at {start}; DeleteRecords had returned {deleted[where]}"
        if start and start not in asked[where]:
            yield f"unexpected deletion: {where} starts at {start}, which no client requested"


def all_settled(history: History, seen: Observation) -> Iterator[str]:
    """Check that no transaction is unfinished, and that each last stable offset equals the high watermark."""
    del history
    for where, (stable, end) in seen.ends.items():
        if stable != end:
            yield f"stuck: the last stable offset of {where} is {stable}, the high watermark is {end}"
    for name in seen.unfinished:
        yield f"unfinished transactional id: {name}"


def nobody_complains(history: History, seen: Observation) -> Iterator[str]:
    """Check that ``ottla audit`` finds no error, and that the broker has logged no unexpected error."""
    del history
    yield from (f"audit: {line}" for line in seen.audit)
    yield from (f"broker's log: {line}" for line in seen.errors)


RULES = (
    acknowledged_once,
    nothing_else,
    no_duplicates_stored,
    no_aborted_visible,
    in_order,
    atomic,
    zombies_fenced,
    output_matches_offsets,
    offsets_never_return,
    views_agree,
    committed_from_the_first,
    deletions_hold,
    all_settled,
    nobody_complains,
)
