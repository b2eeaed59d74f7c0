"""Exactly once from Spark into any Kafka: the sink, the sources and what they need of a session."""

from ottla.spark.errors import BrokerRefused, Fenced, PipelineError
from ottla.spark.foreach_batch import ExactlyOnceSink, arranged, sink
from ottla.spark.frames import write_once
from ottla.spark.listening import StreamProgress, listener
from ottla.spark.metrics import BatchReport, SinkMetrics
from ottla.spark.registering import register
from ottla.spark.taking_up import committed_offsets

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
