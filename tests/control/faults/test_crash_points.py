"""A transaction is interrupted at each fault point of its completion: the broker is killed, waits, or refuses the step.

In every case the transaction ends as a whole: all its records and the offsets of its group are committed, or none of them.
"""

from __future__ import annotations

import pytest

from ottla.broker.hooks.interception import Point
from ottla.control.faults.registry import Fault
from tests.control.faulty import Faulty, Killed

BEGUN = (
    "topic t",
    "topic u",
    "A = init x",
    "produce A t",
    "produce A u",
    "add_offsets A g",
    "offsets A g t=5",
)
"""A transaction on two partitions and with offsets. It gets three markers, the first of them in `__consumer_offsets`."""
COMMITTED = "a1 / a2 / 5"
NOTHING = "nothing / nothing / nothing"


def outcome(faulty: Faulty) -> str:
    """Return the records that readers get, and the offset at which the group continues."""
    committed = faulty.do("committed g t")
    return " / ".join((faulty.do("read t"), faulty.do("read u"), "5" if "5" in committed else "nothing"))


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("point", [p for p in Point if p is not Point.BEFORE_PREPARE])
def test_decided_transaction_is_completed_after_a_crash(faulty: Faulty, point: Point, end: str) -> None:
    faulty.do(*BEGUN)
    faulty.add(kill=point.value, transactional_id="f-x")
    with faulty.killed():
        faulty.do(f"{end} A")
    assert outcome(faulty) == (COMMITTED if end == "commit" else NOTHING)
    # The client got no response, so it retries.
    assert faulty.do(f"{end} A stay once").startswith("NONE")
    assert faulty.do("describe x").startswith("CompleteCommit" if end == "commit" else "CompleteAbort")


def test_unlogged_decision_leaves_the_transaction_open_after_a_crash(faulty: Faulty) -> None:
    faulty.do(*BEGUN)
    faulty.add(kill="before-prepare")
    with faulty.killed():
        faulty.do("commit A")
    assert outcome(faulty) == NOTHING
    assert faulty.do("describe x").startswith("Ongoing")
    assert faulty.do("commit A").startswith("NONE")
    assert outcome(faulty) == COMMITTED


@pytest.mark.parametrize("written", [1, 2])
def test_remaining_markers_are_written_after_a_crash_between_markers(faulty: Faulty, written: int) -> None:
    """After the restart the coordinator writes the missing markers, and the transaction is visible completely."""
    faulty.do(*BEGUN)
    hit = faulty.add(kill="between-markers", after_markers=written)
    with faulty.killed():
        faulty.do("commit A")
    assert hit.newest_hits[0].markers_written == written
    assert outcome(faulty) == COMMITTED
    markers = sum(faulty.do(f"log {topic}").count("commit") for topic in "tu")
    # The coordinator writes all markers again. Repeated markers are harmless.
    assert markers >= 2


@pytest.mark.parametrize("point", [p for p in Point if p is not Point.BEFORE_PREPARE])
def test_fault_holds_the_completion_of_a_decided_transaction_until_it_is_removed(faulty: Faulty, point: Point) -> None:
    faulty.do(*BEGUN)
    held = faulty.add(hold=point.value)
    assert faulty.do("commit A nosettle once").startswith("NONE")
    assert held.hits == 1
    assert faulty.do("describe x").startswith("PrepareCommit")
    assert (faulty.do("committed g t") == "5") == (point is Point.BEFORE_COMPLETE or point is Point.BETWEEN_MARKERS)
    assert (faulty.do("read u") == "a2") == (point is Point.BEFORE_COMPLETE)
    assert faulty.do("B = init x once nosettle") == "CONCURRENT_TRANSACTIONS"
    faulty.broker.sleep(5_000)
    assert held.hits == 1
    held.remove()
    assert faulty.do("describe x").startswith("CompleteCommit")
    assert outcome(faulty) == COMMITTED


def test_fault_before_prepare_holds_the_decision_until_it_is_removed(faulty: Faulty) -> None:
    faulty.do(*BEGUN)
    held = faulty.add(hold="before-prepare")
    first = faulty.send("commit A nosettle")
    faulty.broker.sleep(1_000)
    assert held.hits == 1
    assert faulty.do("describe x").startswith("Ongoing")
    # A retry of EndTxn waits too. A new producer gets a retriable error.
    again = faulty.send("commit A nosettle")
    assert held.hits == 1
    assert faulty.do("B = init x once nosettle") == "CONCURRENT_TRANSACTIONS"
    assert held.hits == 2
    held.remove()
    assert first().startswith("NONE")
    assert again().startswith("NONE")
    assert outcome(faulty) == COMMITTED


def test_timed_out_transaction_is_held_by_a_fault_and_then_aborted(faulty: Faulty) -> None:
    faulty.do("topic t", "A = init x timeout=1000", "produce A t")
    held = faulty.add(hold="before-prepare")
    faulty.broker.sleep(5_000)
    assert held.hits == 1
    assert faulty.do("describe x").startswith("Ongoing")
    held.remove()
    faulty.broker.sleep(2_000)
    assert faulty.do("describe x").startswith("CompleteAbort")


@pytest.mark.parametrize("written", [1, 2])
def test_fault_between_markers_holds_the_remaining_markers(faulty: Faulty, written: int) -> None:
    faulty.do(*BEGUN)
    held = faulty.add(hold="between-markers", after_markers=written)
    faulty.do("commit A nosettle once")
    assert [faulty.do("committed g t"), faulty.do("read t"), faulty.do("read u")] == [
        "5",
        "a1" if written == 2 else "nothing",
        "nothing",
    ]
    held.remove()
    assert outcome(faulty) == COMMITTED


def test_fault_on_one_partition_leaves_it_without_its_transaction_marker(faulty: Faulty) -> None:
    """Only in the partition without the marker, read-committed consumers wait at the transaction."""
    faulty.do(*BEGUN)
    held = faulty.add(hold="between-markers", topic="f-u", after_markers=2)
    faulty.do("commit A nosettle once")
    assert [faulty.do("read t"), faulty.do("read u"), faulty.do("read u uncommitted")] == ["a1", "nothing", "a2"]
    held.remove()
    assert outcome(faulty) == COMMITTED


def test_decision_refused_by_a_fault_leaves_the_transaction_open(faulty: Faulty) -> None:
    faulty.do(*BEGUN)
    refused = faulty.add(refuse="before-prepare", error="NOT_COORDINATOR")
    assert faulty.do("commit A once") == "NOT_COORDINATOR"
    assert faulty.do("describe x").startswith("Ongoing")
    assert faulty.do("commit A").startswith("NONE")
    assert refused.hits == 1
    assert outcome(faulty) == COMMITTED


@pytest.mark.parametrize("point", ["between-markers", "before-offsets", "before-complete"])
def test_completion_step_refused_by_a_fault_is_retried(faulty: Faulty, point: str) -> None:
    faulty.do(*BEGUN)
    refused = faulty.add(refuse=point, times=3 if point != "between-markers" else 1)
    assert faulty.do("commit A").startswith("NONE")
    faulty.broker.sleep(5_000)
    assert refused.is_spent
    assert faulty.do("describe x").startswith("CompleteCommit")
    assert outcome(faulty) == COMMITTED


def test_fault_for_one_transactional_id_does_not_affect_other_transactions(faulty: Faulty) -> None:
    faulty.do(*BEGUN, "B = init y", "produce B t")
    held = faulty.add(hold="after-prepare", transactional_id="f-x")
    assert faulty.do("commit B").startswith("NONE")
    assert (held.hits, faulty.do("describe y").split()[0]) == (0, "CompleteCommit")
    faulty.do("commit A nosettle")
    assert (held.hits, faulty.do("describe x").split()[0]) == (1, "PrepareCommit")


def test_transaction_is_held_by_a_second_fault_after_the_first_is_removed(faulty: Faulty) -> None:
    faulty.do(*BEGUN)
    first, second = (faulty.faults.add(Fault(hold="before-complete")) for _ in range(2))
    faulty.do("commit A nosettle")
    assert (first.hits, second.hits) == (1, 0)
    first.remove()
    assert (second.hits, faulty.do("describe x").split()[0]) == (1, "PrepareCommit")
    second.remove()
    assert faulty.do("describe x").startswith("CompleteCommit")


def test_transaction_of_a_deleted_topic_that_a_fault_held_completes(faulty: Faulty) -> None:
    faulty.do(*BEGUN)
    held = faulty.add(hold="between-markers", after_markers=2)
    faulty.do("commit A nosettle", "delete u")
    held.remove()
    assert faulty.do("describe x").startswith("CompleteCommit")


@pytest.mark.parametrize("point", list(Point))
def test_transaction_fault_points_are_hit_with_durability_power(point: Point) -> None:
    """With ``ottla.durability=power`` decisions and markers are written after fsyncs, and the fault points are between them."""
    faulty = Faulty(ottla_durability="power")
    faulty.do(*BEGUN)
    held = faulty.add(hold=point.value)
    told = faulty.send("commit A nosettle")
    faulty.broker.sleep(1_000)
    assert held.hits == 1
    assert faulty.do("describe x").split()[0] == ("Ongoing" if point is Point.BEFORE_PREPARE else "PrepareCommit")
    faulty.release(held)
    assert told().startswith("NONE")
    assert outcome(faulty) == COMMITTED
    faulty.add(kill=point.value)
    faulty.do("produce A t", "produce A u", "add_offsets A g", "offsets A g t=5")
    with faulty.killed():
        faulty.do("commit A")
    read = faulty.do("read t")
    assert read == ("a1" if point is Point.BEFORE_PREPARE else "a1 a3")
    faulty.close()


def test_remaining_markers_are_written_once_after_the_fault_is_removed(faulty: Faulty) -> None:
    faulty.do("topic t partitions=120", "A = init x", f"add A {','.join(f't/{i}' for i in range(120))} v=3", "produce A t v=11")
    held = faulty.add(hold="between-markers", after_markers=70)
    assert faulty.do("commit A v=4 nosettle once") == "NONE"
    assert (held.hits, faulty.do("describe x").split()[0]) == (1, "PrepareCommit")
    assert sum(faulty.do(f"log t/{i}").count("commit") for i in range(120)) == 70
    faulty.release(held)
    assert faulty.do("describe x").split()[0] == "CompleteCommit"
    assert [faulty.do(f"log t/{i}").count("commit") for i in range(120)] == [1] * 120


def test_decision_that_a_fault_holds_is_dropped_when_the_broker_stops(faulty: Faulty) -> None:
    faulty.do(*BEGUN)
    held = faulty.add(hold="before-prepare")
    faulty.send("commit A nosettle")
    faulty.do("restart")
    held.remove()
    assert faulty.do("describe x").startswith("Ongoing")
    assert faulty.do("commit A").startswith("NONE")
    assert outcome(faulty) == COMMITTED


def test_decided_transaction_that_a_fault_held_completes_after_a_restart(faulty: Faulty) -> None:
    """After the restart there are no faults, and the coordinator completes the transaction."""
    faulty.do(*BEGUN)
    held = faulty.add(hold="before-complete")
    faulty.do("commit A nosettle", "restart")
    held.remove()
    assert faulty.do("describe x").startswith("CompleteCommit")
    assert outcome(faulty) == COMMITTED


def test_transaction_decided_before_a_broker_start_does_not_hit_faults_after_prepare(faulty: Faulty) -> None:
    """A fault of ``--faults`` is set at each start, and must not keep an earlier transaction from its completion."""
    faulty.do(*BEGUN)
    faulty.add(kill="after-prepare")
    with pytest.raises(Killed):
        faulty.do("commit A")
    faulty.world.forget_connection()
    faulty.faults.clear()
    held = faulty.add(hold="after-prepare")
    faulty.broker.restart(kill=True)
    faulty.broker.with_coordinators()
    assert outcome(faulty) == COMMITTED
    assert held.hits == 0


def test_decision_that_a_fault_held_is_made_although_its_client_has_disconnected(faulty: Faulty) -> None:
    faulty.do(*BEGUN)
    held = faulty.add(hold="before-prepare")
    faulty.do("commit A nosettle")
    assert (held.hits, faulty.do("describe x").split()[0]) == (1, "Ongoing")
    faulty.world.forget_connection()
    faulty.broker.env.settle()
    faulty.release(held)
    assert faulty.do("describe x").startswith("CompleteCommit")
    assert outcome(faulty) == COMMITTED
