"""Exactly once from Spark into any Kafka: the sink, the sources and what they need of a session."""

from ottla.spark.errors import BrokerRefused, Fenced, PipelineError
from ottla.spark.progress.resume import committed_offsets
from ottla.spark.sink.foreach_batch import ExactlyOnceSink, arranged, sink
from ottla.spark.sink.frames import write_once
from ottla.spark.sink.metrics import BatchReport, SinkMetrics
from ottla.spark.sink.progress_listener import StreamProgress, listener
from ottla.spark.sink.session_setup import register

__all__ = [
    "BatchReport",
    "BrokerRefused",
    "ExactlyOnceSink",
    "Fenced",
    "PipelineError",
    "SinkMetrics",
    "StreamProgress",
    "arranged",
    "committed_offsets",
    "listener",
    "register",
    "sink",
    "write_once",
]
