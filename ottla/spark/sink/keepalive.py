"""Renews the progress records of idle streams before they expire (offsets.retention.minutes).

A running stream without input runs no batch, so its progress record and transactional id would expire. Both are renewed after every
hour without a batch. The module does not depend on Spark.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from ottla.client.cluster import BrokerConnections
from ottla.spark.errors import Fenced, MustAbort, PipelineError
from ottla.spark.progress.marks import group_of, read_committed
from ottla.spark.sink.exactly_once import ExactlyOnce, Tasks
from ottla.spark.sink.transaction import ONGOING, state_of

logger = logging.getLogger("ottla.spark")

RENEW_AFTER_S: Final = 3_600.0
"""Time, in seconds, after the last batch or renewal until the next renewal. Brokers keep offsets for seven days by default."""


class Renewing:
    """A thread that calls ``renew`` every ``every_s`` seconds until ``renew`` returns False."""

    def __init__(self, renew: Callable[[], bool], every_s: float = RENEW_AFTER_S) -> None:
        self._renew = renew
        self._every_s = every_s
        self._is_over = threading.Event()
        # The thread is a daemon, so that the process can exit if the sink is not closed.
        self.thread = threading.Thread(target=self._run, name="ottla-renewing", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Stop calling ``renew``. A call may still be running."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(self._every_s):
            if not self._renew():
                return


def renewed(cluster: BrokerConnections, transactional_id: str, stream: ExactlyOnce[Any], tasks: Tasks[Any]) -> bool:
    """Renew a stream's progress record if the record in the group is unchanged. Returns False if the record must not be renewed
    again.

    Deleted offsets are not restored, because missing offsets show that an input topic was deleted and created again.
    """
    if stream.done is None:
        return True
    mark, ends = stream.done
    try:
        in_group = read_committed(cluster, group_of(transactional_id))
        has_all = in_group is not None and all(str(index) in in_group.ends.get(topic, {}) for topic, index in ends.offsets)
        if in_group is None or not has_all or (in_group.mark.query, in_group.mark.batch) != (mark.query, mark.batch):
            logger.warning(
                "%s: the group's offsets are no longer those of batch %d, so the progress record is not renewed",
                transactional_id,
                mark.batch,
            )
            return False
        if not stream.is_settled:
            # It is unknown whether the last transaction has ended. The group shows that no other stream has committed since then,
            # but an open transaction may belong to another stream, which must not be fenced.
            if state_of(cluster, transactional_id) in ONGOING:
                logger.warning("%s: the progress record was not renewed this time: a transaction is open", transactional_id)
                return True
            stream.start()
        stream.renew(tasks)
    except Fenced as fenced:
        logger.warning("%s: the progress record is not renewed: %s", transactional_id, fenced)
        return False
    except (PipelineError, MustAbort) as error:
        logger.warning("%s: the progress record was not renewed this time: %s", transactional_id, error)
        return True
    logger.info(
        "%s: the progress record of batch %d was renewed, because there were no new batches for a while",
        transactional_id,
        mark.batch,
    )
    return True
