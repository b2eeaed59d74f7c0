"""Coordination between the sinks of one process, without Spark and a broker."""

from __future__ import annotations

import threading

import pytest

from ottla.spark.errors import PipelineError
from ottla.spark.progress.active_sinks import ProcessNotes

SINK = ("h:1", "shop")


def test_concurrent_sink_writes_with_one_transactional_id_are_refused() -> None:
    notes = ProcessNotes()
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with notes.writing(SINK, "batch 0 of stream a"):
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=first, name="first")
    thread.start()
    try:
        assert inside.wait(60)
        with (
            pytest.raises(PipelineError, match=r"use 'shop' at the same time: batch 4 .* batch 0 of stream a in thread 'first'"),
            notes.writing(SINK, "batch 4 of stream b"),
        ):
            pytest.fail("the body of the with statement ran")
        with notes.writing(("h:1", "another"), "batch 0"), notes.writing(("h:2", "shop"), "batch 0"):
            pass
    finally:
        leave.set()
        thread.join(60)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), notes.writing(SINK, "batch 4 of stream b"):
            raise ZeroDivisionError


def test_sink_refuses_later_batches_after_a_swallowed_failure() -> None:
    notes = ProcessNotes()
    notes.note_failed(SINK, "q", 1, ValueError("no such topic"))
    for batch in (2, 3):
        with pytest.raises(PipelineError, match=r"batch 1 was not written \(no such topic\), and the function .* did not raise"):
            notes.check_failed(SINK, "q", range(batch))
    # Another stream or another sink is accepted. So is the same batch, because Spark repeats a batch whose error was raised.
    notes.check_failed(SINK, "another", range(2))
    notes.check_failed(("h:1", "another"), "q", range(2))
    notes.check_failed(SINK, "q", range(1))
    notes.note_written(SINK, "q", "run", 1)
    notes.check_failed(SINK, "q", range(2))


def test_sink_forgets_a_failed_batch_that_another_process_committed() -> None:
    notes = ProcessNotes()
    notes.note_failed(SINK, "q", 1, ValueError("another process runs this stream"))
    notes.check_failed(SINK, "q", range(5, 5))
    notes.check_failed(SINK, "q", range(6))


def test_sink_reports_a_refused_second_dataframe_of_a_committed_batch() -> None:
    notes = ProcessNotes()
    notes.note_written(SINK, "q", "run", 1)
    notes.note_failed(SINK, "q", 1, ValueError("a second frame"))
    with pytest.raises(PipelineError, match=r"batch 1 was not written \(a second frame\)"):
        notes.check_failed(SINK, "q", range(2, 2))


def test_sink_reports_the_first_failed_batch_after_later_failures() -> None:
    notes = ProcessNotes()
    notes.note_failed(SINK, "q", 1, ValueError("first"))
    notes.note_failed(SINK, "q", 2, ValueError("second"))
    with pytest.raises(PipelineError, match=r"batch 1 was not written \(first\)"):
        notes.check_failed(SINK, "q", range(3))


def test_sink_names_an_error_without_a_message_by_its_type() -> None:
    notes = ProcessNotes()
    notes.note_failed(SINK, "q", 0, KeyboardInterrupt())
    with pytest.raises(PipelineError, match=r"batch 0 was not written \(KeyboardInterrupt\)"):
        notes.check_failed(SINK, "q", range(1))


def test_second_sink_write_in_a_batch_is_refused() -> None:
    notes = ProcessNotes()
    notes.note_written(SINK, "q", "run", 3)
    with pytest.raises(PipelineError, match="batch 3 is committed under 'shop', and was given to the sink again"):
        notes.check_first_use(SINK, "run", 3)
    notes.check_first_use(SINK, "run", 4)
    notes.check_first_use(SINK, "another run", 3)


def test_spark_batch_number_counts_as_new_only_at_its_first_use() -> None:
    notes = ProcessNotes()
    assert [notes.note_given("q", batch) for batch in (0, 0, 1, 3, 3)] == [True, False, True, True, False]
    assert notes.note_given("another", 0)
