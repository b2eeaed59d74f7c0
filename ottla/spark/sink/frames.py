"""`write_once`, which writes a frame that is not a stream once."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import PipelineError
from ottla.spark.progress.active_sinks import NOTES
from ottla.spark.progress.progress_topic import ProgressTopic, last_mark
from ottla.spark.sink.exactly_once import ExactlyOnce
from ottla.spark.sink.frame_numbers import check_frame_number, check_no_stream, is_written
from ottla.spark.sink.metrics import BatchReport, shown
from ottla.spark.sink.options import parse_options
from ottla.spark.sink.row_writing import RowWriter
from ottla.spark.sink.session_setup import prepare_session
from ottla.spark.sink.spark_metrics import gauges_of
from ottla.spark.worker_python import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger("ottla.spark")


def write_once(frame: DataFrame, options: Mapping[str, Any], name: str, number: int = 0) -> BatchReport:
    """Write a frame that is not a stream in one transaction, unless a frame with this ``name`` and ``number`` was written before.

    ``options`` are the sink's options. The frames of a ``name`` are numbered from 0 without gaps. The progress topic stores the
    last number of each name. Raises `PipelineError`.
    """
    parsed = parse_options(options)
    if is_connect(frame.sparkSession):
        raise PipelineError(
            "write_once needs a session without Spark Connect: on Spark Connect write ottla.spark.arranged(frame, options) with"
            " write.format('ottla') and the options frame.name and frame.number"
        )
    if parsed.progress_topic is None:
        raise PipelineError("write_once needs a progress topic, but progress.topic=none disables it: the offsets of a group expire")
    transactional_id = parsed.transactional_id
    with contextlib.ExitStack() as cleanup:
        cluster = cleanup.enter_context(contextlib.closing(cluster_client(parsed.connecting)))
        cleanup.enter_context(NOTES.writing((cluster.bootstrap, transactional_id), f"frame {number} of {name!r}"))
        prepare_session(frame.sparkSession)
        progress = ProgressTopic(cluster, parsed.progress_topic, transactional_id, frames=name)
        progress.open()
        check_no_stream(cluster, transactional_id)
        report = BatchReport(number, is_replay=True)
        # Do not initialize the id for a frame that is already written, because initialization uses an epoch and fences other
        # producers.
        last = last_mark(cluster, transactional_id, progress, is_stable=False)
        if not is_written(last, number):
            rows = RowWriter(cluster, parsed)
            rows.prepare()
            transaction = cleanup.enter_context(contextlib.closing(rows.transaction(progress)))
            frames: ExactlyOnce[Any] = ExactlyOnce(transaction, parsed.run, parsed.timeout_ms)
            last = frames.start()
            if not is_written(last, number):
                check_frame_number(name, number, last)
                report = frames.write(name, number, functools.partial(rows.whole, frame, number, None), InputEnds())
            report = msgspec.structs.replace(report, epoch=frames.epoch)
        gauges_of(frame.sparkSession, transactional_id).add(report)
    logger.info("%s, frame %d of %s: %s", transactional_id, number, name, shown(report))
    return report
