"""Checks that no other stream uses a transactional id, before the sink initializes the id and fences the other stream's producer.

The last progress record shows which stream uses the id. Before the first committed batch, that record is a claim: a progress record
without a batch, committed to the group outside of transactions. Another stream's claim counts only while a transaction is open,
because a stream that has committed nothing loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.cluster import BrokerConnections
from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.errors import PipelineError
from ottla.spark.progress.marks import NO_BATCH, CommittedMark, Mark, commit_of, commit_plainly, group_of, newer
from ottla.spark.progress.progress_topic import ProgressTopic
from ottla.spark.sink.exactly_once import check_query
from ottla.spark.sink.mark_topic import check_recreated
from ottla.spark.sink.transaction import ONGOING, state_of


def claim(
    cluster: BrokerConnections,
    transactional_id: str,
    query: str,
    batch: int,
    run: str,
    ends: InputEnds,
    in_group: CommittedMark | None,
    log: ProgressTopic | None = None,
    is_new: Callable[[], bool] = lambda: False,
) -> None:
    """Check that no other stream uses the id, and claim the id for a stream that has not committed anything yet. Raises
    `PipelineError`.

    ``ends`` are the offsets to commit with the next batch (`MarkPlace.of`). ``in_group`` is the last progress record of the id's
    group (`marks.read_committed`). ``is_new`` returns whether the batch was certainly not written before, even if its number is
    above 0 (`skipped_batches`).
    """
    kept = None if log is None else log.read()
    last = newer((None if kept is None else kept.mark, None if in_group is None else in_group.mark))
    check_query(last, query, ends.begin)
    if in_group is not None and in_group.mark == last and last.query == query:
        check_recreated(in_group, ends)
    if log is not None and kept is not None and kept.mark == last:
        log.inputs.know(kept.ids)
        log.inputs.check(ends.topics())
    if last is not None and (last.batch > NO_BATCH or last.query == query):
        return
    if batch > 0 and not is_new():
        # The group's offsets may have been deleted, and a claim would wrongly state that nothing was committed.
        return
    if state_of(cluster, transactional_id) in ONGOING:
        whose = "of an unknown stream" if last is None else f"of another checkpoint (query {last.query})"
        raise PipelineError(
            f"a transaction is open under {transactional_id!r}, {whose}, and nothing has been committed yet: that stream is in"
            " its first"
            " batch, or was killed in it. Continue with its checkpoint, give another transactional.id, or wait until the"
            " transaction has timed out (transaction.timeout.ms)"
        )
    # Offset 0 states that nothing was read. The commit of the first batch replaces this offset.
    place = (ends.at, 0) if ends.at else min(ends.offsets)
    note = commit_of(Mark(query, NO_BATCH, run, at=ends.at, offsets=0), {place: 0})
    commit_plainly(cluster, group_of(transactional_id), note, "claiming the transactional id")
