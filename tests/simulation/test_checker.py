"""The checker of histories accepts a valid history, and reports each planted fault by the rule that the fault breaks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.simulation.checker import RULES, Observation, Stored, check, outcomes
from ottla.simulation.history import Attempt, History, OffsetsRead, ProducerSession, RecordDeletion, TriedRecord, Watched
from tests.chaos.history import Scribe, read

INPUT, LEFT, RIGHT = ("in", 0), ("out", 0), ("out", 1)
FEEDER, PIPER, GROUP = 1, 2, "g"


def attempt(name: str, number: int, records: list[TriedRecord], *, ended: str, at_s: float, session: int = 1) -> Attempt:
    return Attempt(
        transactional_id=name,
        actor=f"{name}#1",
        session=session,
        number=number,
        records=records,
        commit_asked_s=None if ended == "aborted" else at_s,
        ended_s=None if ended == "unknown" else at_s + 0.1,
        was_answered_committed=ended == "committed",
    )


def piped(number: int, sources: list[int], where: list[tuple[str, int]], *, ended: str, at_s: float) -> Attempt:
    """Return a transaction that copies each input offset in ``sources`` to the partition at the same index of ``where``."""
    records = [TriedRecord(w, f"p/{number}/{i}", (*INPUT, s)) for i, (s, w) in enumerate(zip(sources, where, strict=True))]
    made = attempt("pipe", number, records, ended=ended, at_s=at_s)
    made.group, made.offsets = GROUP, {INPUT: sources[-1] + 1}
    return made


@pytest.fixture
def history() -> History:
    """A history of two producers, "feed" and "pipe".

    "feed" commits, aborts and commits. "pipe" aborts, commits in two partitions, and never receives its last commit response.
    """
    return History(
        attempts=[
            attempt("feed", 1, [TriedRecord(INPUT, "f1"), TriedRecord(INPUT, "f2")], ended="committed", at_s=1),
            attempt("feed", 2, [TriedRecord(INPUT, "f3")], ended="aborted", at_s=2),
            attempt("feed", 3, [TriedRecord(INPUT, "f4")], ended="committed", at_s=3),
            piped(1, [0, 1], [LEFT, RIGHT], ended="aborted", at_s=4),
            piped(2, [0, 1], [LEFT, RIGHT], ended="committed", at_s=5),
            piped(3, [5], [LEFT], ended="unknown", at_s=6),
        ],
        sessions=[ProducerSession("feed", "feed#1", 1, 0.5), ProducerSession("pipe", "pipe#1", 1, 0.6)],
        watched=[Watched("w", INPUT, [(0, "f1"), (1, "f2"), (0, "f1"), (1, "f2"), (5, "f4")])],
        offsets_read=[OffsetsRead(GROUP, 4.5, {}), OffsetsRead(GROUP, 5.5, {INPUT: 2})],
    )


def data(base_offset: int, producer_id: int, *values: str) -> Stored:
    return Stored(base_offset, base_offset + len(values), producer_id, True, None, list(values))


def marker(offset: int, producer_id: int, *, commit: bool) -> Stored:
    return Stored(offset, offset + 1, producer_id, True, commit)


@pytest.fixture
def seen() -> Observation:
    """Return the final state that matches the history, in which the commit without a response succeeded."""
    return Observation(
        committed={INPUT: [(0, "f1"), (1, "f2"), (5, "f4")], LEFT: [(2, "p/2/0"), (4, "p/3/0")], RIGHT: [(2, "p/2/1")]},
        uncommitted={
            INPUT: [(0, "f1"), (1, "f2"), (3, "f3"), (5, "f4")],
            LEFT: [(0, "p/1/0"), (2, "p/2/0"), (4, "p/3/0")],
            RIGHT: [(0, "p/1/1"), (2, "p/2/1")],
        },
        stored={
            INPUT: [
                data(0, FEEDER, "f1", "f2"),
                marker(2, FEEDER, commit=True),
                data(3, FEEDER, "f3"),
                marker(4, FEEDER, commit=False),
                data(5, FEEDER, "f4"),
                marker(6, FEEDER, commit=True),
            ],
            LEFT: [
                data(0, PIPER, "p/1/0"),
                marker(1, PIPER, commit=False),
                data(2, PIPER, "p/2/0"),
                marker(3, PIPER, commit=True),
                data(4, PIPER, "p/3/0"),
                marker(5, PIPER, commit=True),
            ],
            RIGHT: [
                data(0, PIPER, "p/1/1"),
                marker(1, PIPER, commit=False),
                data(2, PIPER, "p/2/1"),
                marker(3, PIPER, commit=True),
            ],
        },
        ends={INPUT: (7, 7), LEFT: (6, 6), RIGHT: (4, 4)},
        offsets={GROUP: {INPUT: 6}},
    )


def test_history_checker_reports_nothing_for_a_valid_transaction_history(history: History, seen: Observation) -> None:
    assert check(history, seen) == []
    assert outcomes(history, seen) == {"committed": 3, "aborted": 2, "unknown, committed": 1}


def test_history_checker_permits_that_a_commit_with_an_unknown_outcome_was_aborted(history: History, seen: Observation) -> None:
    seen.committed[LEFT].pop()
    seen.stored[LEFT][-1].commit = False
    seen.offsets[GROUP][INPUT] = 2
    assert check(history, seen) == []


def test_history_checker_permits_that_non_transactional_records_are_partly_present(history: History, seen: Observation) -> None:
    """Unacknowledged records of an idempotent producer may be missing; acknowledged records must all be present."""
    alone = attempt("solo", 1, [TriedRecord(RIGHT, "s1"), TriedRecord(RIGHT, "s2")], ended="unknown", at_s=7)
    alone.is_transaction = False
    history.attempts.append(alone)
    history.sessions.append(ProducerSession("solo", "solo#1", 1, 0.7))
    for view in (seen.committed, seen.uncommitted):
        view[RIGHT].append((4, "s1"))
    seen.stored[RIGHT].append(Stored(4, 5, 3, False, None, ["s1"]))
    assert check(history, seen) == []
    assert "unknown, committed" in outcomes(history, seen)
    alone.was_answered_committed = True
    assert check(history, seen) == ["lost: s2 for ('out', 1) of solo#1/1/1, whose commit was acknowledged"]


def test_history_checker_does_not_report_deleted_records_as_lost(history: History, seen: Observation) -> None:
    """A record below the log start offset may be missing although it was acknowledged."""
    alone = attempt(
        "solo",
        1,
        [TriedRecord(("gone", 0), "s1", offset=0), TriedRecord(("gone", 0), "s2", offset=1)],
        ended="committed",
        at_s=7,
    )
    alone.is_transaction = False
    history.attempts.append(alone)
    history.sessions.append(ProducerSession("solo", "solo#1", 1, 0.7))
    history.deletions.append(RecordDeletion(("gone", 0), 1, was_confirmed=True))
    seen.starts["gone", 0] = 1
    for view in (seen.committed, seen.uncommitted):
        view["gone", 0] = [(1, "s2")]
    seen.stored["gone", 0] = [Stored(0, 2, 3, False, None, ["s1", "s2"])]
    assert check(history, seen) == []
    seen.starts["gone", 0] = 0
    assert "lost: s1 for ('gone', 0) of solo#1/1/1, whose commit was acknowledged" in check(history, seen)


def test_history_checker_decides_by_producer_epochs_which_producer_was_fenced(history: History, seen: Observation) -> None:
    """Two InitProducerId responses may arrive in a different order than the coordinator assigned the epochs."""
    for session in history.sessions:
        session.identity = (session.initialised_s > 5, int(session.initialised_s * 10))
    history.sessions.append(ProducerSession("feed", "feed#2", 1, 2.5, (-1, 0)))
    assert check(history, seen) == []
    history.sessions[-1].identity = (9, 0)
    assert [finding for finding in check(history, seen) if finding.startswith("a zombie has committed: feed#1/1/3")]


Plant = Callable[[History, Observation], None]


def lose_a_record(history: History, seen: Observation) -> None:
    seen.committed[INPUT].pop()


def duplicate_a_record(history: History, seen: Observation) -> None:
    seen.committed[INPUT].append((7, "f4"))


def move_a_record_to_another_partition(history: History, seen: Observation) -> None:
    seen.committed[RIGHT].append(seen.committed[LEFT].pop(0))


def store_a_record_twice(history: History, seen: Observation) -> None:
    seen.uncommitted[INPUT].insert(0, (0, "f3"))


def swap_two_records(history: History, seen: Observation) -> None:
    seen.committed[INPUT][:2] = [(0, "f2"), (1, "f1")]


def swap_two_transactions(history: History, seen: Observation) -> None:
    seen.uncommitted[LEFT].reverse()


def show_an_aborted_record(history: History, seen: Observation) -> None:
    seen.committed[INPUT].insert(2, (3, "f3"))


def show_an_unwritten_record(history: History, seen: Observation) -> None:
    seen.uncommitted[INPUT].append((7, "garbage"))


def commit_in_one_of_two_partitions(history: History, seen: Observation) -> None:
    history.attempts[4].was_answered_committed = False
    seen.committed[RIGHT].clear()


def commit_one_of_two_records(history: History, seen: Observation) -> None:
    history.attempts[0].was_answered_committed = False
    seen.committed[INPUT].pop(0)


def commit_offsets_without_output(history: History, seen: Observation) -> None:
    seen.committed[LEFT].pop()


def output_without_offsets(history: History, seen: Observation) -> None:
    seen.offsets[GROUP][INPUT] = 2


def process_an_input_twice(history: History, seen: Observation) -> None:
    history.attempts[5].records[0].source = (*INPUT, 1)


def rewind_a_committed_offset(history: History, seen: Observation) -> None:
    history.offsets_read[1].offsets[INPUT] = 1
    history.attempts[3].offsets[INPUT] = 1


def invent_a_committed_offset(history: History, seen: Observation) -> None:
    history.offsets_read[1].offsets[INPUT] = 4


def lose_committed_offsets(history: History, seen: Observation) -> None:
    seen.offsets[GROUP].clear()


def let_a_zombie_commit(history: History, seen: Observation) -> None:
    history.sessions.append(ProducerSession("feed", "feed#2", 1, 2.5))


def leave_an_offset_gap(history: History, seen: Observation) -> None:
    del seen.stored[RIGHT][0]
    del seen.stored[RIGHT][1]
    seen.uncommitted[RIGHT].pop(0)


def show_a_commit_that_is_stored_as_abort(history: History, seen: Observation) -> None:
    seen.stored[LEFT][-1].commit = False


def show_fewer_records_to_another_client(history: History, seen: Observation) -> None:
    seen.others["another"] = {LEFT: seen.committed[LEFT][:1]}


def show_an_open_transaction_temporarily(history: History, seen: Observation) -> None:
    history.watched[0].records.append((3, "f3"))


def skip_a_record_temporarily(history: History, seen: Observation) -> None:
    del history.watched[0].records[-2]


def undo_a_deletion(history: History, seen: Observation) -> None:
    history.deletions = [RecordDeletion(LEFT, 2, was_confirmed=True), RecordDeletion(LEFT, 1)]
    seen.starts[LEFT] = 1


def delete_records_without_a_request(history: History, seen: Observation) -> None:
    history.deletions = [RecordDeletion(LEFT, 2)]
    seen.starts[LEFT] = 3


def leave_a_transaction_open(history: History, seen: Observation) -> None:
    seen.ends[LEFT] = (4, 6)


def leave_a_transaction_prepared(history: History, seen: Observation) -> None:
    seen.unfinished.append("pipe is PrepareCommit")


def report_a_torn_transaction(history: History, seen: Observation) -> None:
    seen.audit.append("pipe was committed, and out-1 has no marker of it")


def log_an_error(history: History, seen: Observation) -> None:
    seen.errors.append("a trace")


FAULTS: list[tuple[Plant, str, str]] = [
    (lose_a_record, "acknowledged_once", "lost: f4"),
    (duplicate_a_record, "acknowledged_once", "twice: f4"),
    (move_a_record_to_another_partition, "acknowledged_once", "wrong partition: p/2/0"),
    (store_a_record_twice, "no_duplicates_stored", "stored 2 times: f3"),
    (swap_two_records, "in_order", "out of order: f1"),
    (swap_two_transactions, "in_order", "out of order: p/2/0"),
    (show_an_aborted_record, "no_aborted_visible", "aborted, but visible: f3"),
    (show_an_unwritten_record, "nothing_else", "unknown record: 'garbage'"),
    (commit_in_one_of_two_partitions, "atomic", "incomplete: pipe#1/1/2 (unknown) lacks 1 of 2"),
    (commit_one_of_two_records, "atomic", "incomplete: feed#1/1/1"),
    (commit_offsets_without_output, "output_matches_offsets", "offsets without output: g has committed 6"),
    (output_without_offsets, "output_matches_offsets", "output without offsets: g processed ('in', 0, 5) beyond"),
    (process_an_input_twice, "output_matches_offsets", "output without offsets: g processed ('in', 0, 1) 2 times"),
    (rewind_a_committed_offset, "offsets_never_return", "committed offset decreased: g ('in', 0) received 1 after 2"),
    (invent_a_committed_offset, "offsets_never_return", "unknown committed offset: g ('in', 0) received 4"),
    (lose_committed_offsets, "offsets_never_return", "offset lost: g ('in', 0) ends at None"),
    (let_a_zombie_commit, "zombies_fenced", "a zombie has committed: feed#1/1/3"),
    (leave_an_offset_gap, "views_agree", "gap: ('out', 1) has no offsets"),
    (show_a_commit_that_is_stored_as_abort, "views_agree", "read_committed of ('out', 0)"),
    (show_fewer_records_to_another_client, "views_agree", "another reads other records in ('out', 0) than read_committed"),
    (show_an_open_transaction_temporarily, "committed_from_the_first", "disappeared: (3, 'f3')"),
    (skip_a_record_temporarily, "committed_from_the_first", "skipped: w read (5, 'f4') in ('in', 0), but not (1, 'f2')"),
    (undo_a_deletion, "deletions_hold", "deletion undone: ('out', 0) starts at 1; DeleteRecords had returned 2"),
    (delete_records_without_a_request, "deletions_hold", "unexpected deletion: ('out', 0) starts at 3"),
    (leave_a_transaction_open, "all_settled", "stuck: the last stable offset of ('out', 0) is 4"),
    (leave_a_transaction_prepared, "all_settled", "unfinished transactional id: pipe"),
    (report_a_torn_transaction, "nobody_complains", "audit: pipe was committed"),
    (log_an_error, "nobody_complains", "broker's log: a trace"),
]


@pytest.mark.parametrize(("plant", "rule", "finding"), FAULTS, ids=[plant.__name__ for plant, _, _ in FAULTS])
def test_history_checker_reports_each_fault_planted_in_a_transaction_history(
    history: History, seen: Observation, plant: Plant, rule: str, finding: str
) -> None:
    plant(history, seen)
    (judge,) = [one for one in RULES if one.__name__ == rule]
    assert [reported for reported in judge(history, seen) if reported.startswith(finding)]
    assert [reported for reported in check(history, seen) if reported.startswith(finding)]


def test_every_rule_of_the_history_checker_has_a_planted_fault() -> None:
    assert {rule for _, rule, _ in FAULTS} == {rule.__name__ for rule in RULES}


def test_history_file_of_a_killed_client_is_read_with_its_outcomes(tmp_path: Path) -> None:
    """A transaction without a commit request is aborted, and one without a response is unknown. An incomplete line is ignored."""
    scribe = Scribe(tmp_path / "history-x", "pipe#1", "pipe", GROUP)
    scribe.note("initialised", session=1)
    for number, events in enumerate([["commit asked", "committed"], ["ended"], ["commit asked"], []], 1):
        records = [("out", 0, f"v{number}", ("in", 0, number))]
        scribe.note("begin", session=1, number=number, records=records, offsets=[("in", 0, number + 1)], is_transaction=True)
        for event in events:
            scribe.note(event, session=1, number=number)
    scribe.close()
    with (tmp_path / "history-x").open("a") as file:
        file.write(json.dumps({"event": "commit asked", "s": 1.0, "actor": "pipe#1", "session": 1, "number": 4})[:-9])
    history = read([tmp_path / "history-x"])
    assert [a.outcome for a in history.attempts] == ["committed", "aborted", "unknown", "aborted"]
    assert history.attempts[0].records == [TriedRecord(("out", 0), "v1", ("in", 0, 1))]
    assert history.attempts[0].offsets == {("in", 0): 2}
