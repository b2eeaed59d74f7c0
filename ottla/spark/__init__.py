"""Writes Spark streams and frames into any Kafka cluster exactly once: the sink, the sources and the session setup.

- `errors`: the errors of a pipeline.
- `versions`: the versions of Spark and its packages that are tested together.
- `worker`: prepares Spark's Python workers, so that tasks start within milliseconds.
- `worker_python`: checks and chooses the Python of Spark's workers.
"""

from ottla.client.security.client_config import Secret
from ottla.spark.errors import BrokerRefused, Fenced, PipelineError
from ottla.spark.progress.resume import committed_offsets
from ottla.spark.schemas.decoded_records import DecodedRecords, read
from ottla.spark.sink.arranging import arranged
from ottla.spark.sink.foreach_batch import ExactlyOnceSink, sink
from ottla.spark.sink.frames import write_once
from ottla.spark.sink.metrics import BatchReport, SinkMetrics
from ottla.spark.sink.progress_listener import StreamProgress, listener
from ottla.spark.sink.session_setup import register
from ottla.spark.sink.several_sinks import SeveralSinks, sinks

__all__ = [
    "BatchReport",
    "BrokerRefused",
    "DecodedRecords",
    "ExactlyOnceSink",
    "Fenced",
    "PipelineError",
    "Secret",
    "SeveralSinks",
    "SinkMetrics",
    "StreamProgress",
    "arranged",
    "committed_offsets",
    "listener",
    "read",
    "register",
    "sink",
    "sinks",
    "write_once",
]
