"""Run the shop with either sink in its own process, and kill the process and its JVM at a given point with SIGKILL.

``python -m tests.pipeline.kills.driver BOOTSTRAP CHECKPOINT SINK POINT`` with SINK ``exactly-once`` or ``spark``.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from typing import Any

from ottla.client.admin.offsets import ranges
from ottla.client.security.client_config import Connecting
from ottla.pipeline.jobs import shop
from ottla.pipeline.schemas import INVOICES
from ottla.pipeline.stream import Running, StreamOptions, read
from ottla.spark.cluster.client import cluster_client
from ottla.spark.session.session import session
from ottla.spark.sink import small_batches as gathering
from ottla.spark.sink.row_writing import RowWriter
from ottla.spark.sink.transaction import SharedTransaction
from tools import kafka

GATHERS = "KILLED_DRIVER_GATHERS"
"""Environment variable: with the value 1 the driver itself writes small batches, even if a kill point is given."""
POINTS = ("before the tasks", "in the middle of a task", "before the mark", "before EndTxn", "after EndTxn")
BATCH_RECORDS = 1_000
STARTED = "started"


def die() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)
    time.sleep(60)


def die_once_written(bootstrap: str) -> None:
    """Die as soon as a record is appended to the invoices."""

    def watch() -> None:
        cluster = cluster_client(Connecting(bootstrap))

        def ends() -> int:
            return sum(end for _, end in ranges(cluster, INVOICES).values())

        before = ends()
        ready.set()
        while ends() == before:
            pass
        die()

    ready = threading.Event()
    threading.Thread(target=watch, daemon=True).start()
    ready.wait()


def arm(point: str, bootstrap: str) -> None:
    """Kill this process at ``point`` of its second batch, so that each run makes progress."""
    batches = 0
    if os.environ.get(GATHERS) != "1" and (point or "SPARK_MASTER" in os.environ):
        # Let tasks write every batch. Only drivers that are killed at random times write small batches themselves.
        gathering.MAX_OFFSETS = 0
    whole, small = RowWriter.whole, RowWriter.small
    mark, end = SharedTransaction.mark, SharedTransaction.end

    def dying(at: str) -> bool:
        return at == point and batches > 1

    def written(self: Any, frame: Any, batch: int, query: Any, producer: Any, write: Any) -> Any:
        nonlocal batches
        batches += 1
        if dying(POINTS[0]):
            die()
        if dying(POINTS[1]):
            die_once_written(bootstrap)
        return write(self, frame, batch, query, producer)

    def marked(self: Any, batch_mark: Any, offsets: Any) -> None:
        if dying(POINTS[2]):
            die()
        mark(self, batch_mark, offsets)

    def ended(self: Any, *, commit: bool) -> None:
        if dying(POINTS[3]):
            die()
        end(self, commit=commit)
        if dying(POINTS[4]):
            die()

    patches: list[tuple[Any, str, Any]] = [
        (RowWriter, "whole", functools.partialmethod(written, write=whole)),
        (RowWriter, "small", functools.partialmethod(written, write=small)),
        (SharedTransaction, "mark", marked),
        (SharedTransaction, "end", ended),
    ]
    for owner, name, replacement in patches:
        setattr(owner, name, replacement)


def main(bootstrap: str, checkpoint: str, sink: str, point: str) -> int:
    master = os.environ.get("SPARK_MASTER", "local[2]")
    spark = session("ottla-kills", master=master, ivy_home=kafka.cache_dir() / "ivy")
    # Small Arrow batches make a task long enough to be killed inside it.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    options = StreamOptions(bootstrap, "shop", checkpoint, "run", BATCH_RECORDS)
    if sink == "spark":
        if point == POINTS[1]:
            die_once_written(bootstrap)
        frame = shop.transform(read(spark, shop.JOB, options), "run")
        writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("includeHeaders", "true")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        print(STARTED, flush=True)
        query.awaitTermination()
        return 0
    arm(point, bootstrap)
    retries: list[str] = []
    running = Running(spark, shop.JOB, options, lambda batch, error: retries.append(str(error)))
    print(STARTED, flush=True)
    running.finish()
    print(len(retries), "retries", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
