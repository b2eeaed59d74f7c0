"""Runs jobs: one after the other, each until its topics are read, or all together until a signal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

from ottla.pipeline.signals import Stopped, noted_signals, stopping_signals
from ottla.spark import PipelineError
from ottla.spark.errors import cause_of
from ottla.spark.session.session import session
from shop.jobs import distinct, invoices, revenue, settlements
from shop.jobs.job import Job
from shop.settings import Settings
from shop.topics import client, missing
from shop.writing import sinks_of, writer

JOBS: Final = {job.name: job for job in (distinct.JOB, invoices.JOB, revenue.JOB, settlements.JOB)}
"""All jobs, each after the jobs whose topics it reads."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
POLL_S: Final = 0.2


def run(names: Sequence[str], settings: Settings, *, forever: bool = False, say: Callable[[str], None] = print) -> None:
    """Run jobs by name. Raises `PipelineError`, and after a signal `Stopped` once no transaction is open."""
    with stopping_signals(*SIGNALS):
        with client(settings) as cluster:
            if absent := missing(cluster):
                raise PipelineError(f"missing topics {', '.join(absent)}; create them with: python -m shop topics")
        spark = started_session(settings)
        # Only note signals from now on, because an exception would interrupt Python code that Spark calls in a batch.
        with noted_signals(*SIGNALS) as signals:
            _run([JOBS[name] for name in names], spark, settings, forever, say, signals)
            if signals:
                raise Stopped(signals[0])


def started_session(settings: Settings) -> Any:
    """Start Spark. A signal takes effect only after the JVM has started: if Python exited earlier, the JVM would not end."""
    with noted_signals(*SIGNALS) as signals:
        spark = session(settings.name, master=settings.master or None, cores=settings.cores)
    if signals:
        raise Stopped(signals[0])
    return spark


def _run(jobs: list[Job], spark: Any, settings: Settings, forever: bool, say: Callable[[str], None], signals: list[Any]) -> None:
    with ExitStack() as stack:
        if forever:
            queries = [_started(stack, job, spark, settings, say, is_bounded=False) for job in jobs]
            stack.callback(_stop, queries)
            while not signals:
                for query in queries:
                    if _has_ended(query):
                        return
            return
        for job in jobs:
            query = _started(stack, job, spark, settings, say, is_bounded=True)
            stack.callback(_stop, [query])
            while not signals and not _has_ended(query):
                pass
            if signals:
                return


def _started(stack: ExitStack, job: Job, spark: Any, settings: Settings, say: Callable[[str], None], *, is_bounded: bool) -> Any:
    """Start the query of a job. When ``stack`` ends, the sinks wait for the current batch and close their connections."""
    sinks = stack.enter_context(sinks_of(job, settings))
    stream = job.rows(spark, settings).writeStream.foreachBatch(writer(job, settings, sinks, say)).queryName(job.name)
    stream = stream.outputMode(job.output_mode).option("checkpointLocation", settings.checkpoint(job.name))
    trigger = {"availableNow": True} if is_bounded else {"processingTime": f"{settings.interval_ms} milliseconds"}
    return stream.trigger(**trigger).start()


def _has_ended(query: Any) -> bool:
    """Wait at most `POLL_S`. Returns whether the query has ended. Raises `PipelineError` if it has failed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import StreamingQueryException

    try:
        return bool(query.awaitTermination(POLL_S))
    except StreamingQueryException as error:
        raise PipelineError(f"{query.name}: {cause_of(str(error))}") from error
    except (Py4JError, OSError) as error:
        raise PipelineError("Spark's JVM has ended; its output says why") from error


def _stop(queries: list[Any]) -> None:
    """Stop queries. Their current batches fail, which aborts their transactions at once."""
    from py4j.protocol import Py4JError

    for query in queries:
        with suppress(Py4JError, OSError):
            query.stop()
