"""What a job is told by whoever runs it (``ottla pipeline JOB``). Imports nothing of Spark, so that help is there at once."""

from __future__ import annotations

from typing import Final

import msgspec

from ottla.pipeline.schemas import Terms, Topics

FORMATS: Final = ("avro", "json")
"""The names of `spark.formats.FORMATS`."""
STATE_STORES: Final = {"memory": "HDFSBackedStateStoreProvider", "rocksdb": "RocksDBStateStoreProvider"}
"""Where Spark keeps what it knows between batches: in the executors' memory, or what does not fit there on their disks."""
SINKS: Final = ("tasks", "driver")
"""Who writes what a batch gives."""
TRANSACTION_TIMEOUT_MS: Final = 900_000
"""That of `spark.transaction`."""


class JobPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, and where Spark runs: ``master`` None leaves it to spark-submit, or to ``cores`` of this machine."""

    bootstrap: str
    master: str | None
    cores: int


class GenerateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """With a ``transactional_id`` Spark's tasks write, in transactions."""

    place: JobPlace
    format: str
    rows: int
    seed: int
    partitions: int
    transactional_id: str | None
    topics: Topics


class StreamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``sink`` is one of `SINKS`, ``state_store`` of `STATE_STORES`. ``run_id`` None is a new one."""

    place: JobPlace
    format: str
    transactional_id: str
    checkpoint: str
    batch_records: int
    transaction_timeout_ms: int
    terms: Terms
    run_id: str | None
    sink: str
    mark_log_topic: str | None
    state_store: str
    forever: bool
    accept_data_loss: bool


class ExportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """From a broker's segment files where there is a ``data_dir``."""

    place: JobPlace
    topic: str
    to: str
    data_dir: str | None
    part_offsets: int
    group: str | None


class AuditSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``totals`` and ``export`` are held against the purchases as well where they are wanted."""

    place: JobPlace
    format: str
    terms: Terms
    totals: bool
    export: str | None
    exported_topic: str
