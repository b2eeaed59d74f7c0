"""The settings of jobs (``ottla pipeline JOB``). This module does not import Spark, so that ``--help`` is fast."""

from __future__ import annotations

from typing import Final

import msgspec

from ottla.pipeline.schemas import ShopTopics, Terms

FORMATS: Final = ("avro", "json")
"""The names of `spark.schemas.formats.FORMATS`."""
STATE_STORES: Final = {"memory": "HDFSBackedStateStoreProvider", "rocksdb": "RocksDBStateStoreProvider"}
"""Spark's state store providers: ``memory`` keeps state in the executors' memory, ``rocksdb`` also on their disks."""
SINKS: Final = ("tasks", "driver")
"""The writers of a batch: Spark's tasks, or the driver."""
TRANSACTION_TIMEOUT_MS: Final = 900_000
"""The transaction timeout of `spark.sink.transaction`, in ms."""


class JobPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster and Spark's master. Without ``master`` the master of spark-submit is used, or ``cores`` cores of this machine."""

    bootstrap: str
    master: str | None
    cores: int


class GenerateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the job ``generate``. With a ``transactional_id`` Spark's tasks write in transactions."""

    place: JobPlace
    format: str
    rows: int
    seed: int
    partitions: int
    transactional_id: str | None
    topics: ShopTopics


class StreamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a streaming job. ``sink`` is one of `SINKS`, ``state_store`` one of `STATE_STORES`. If ``run_id`` is None, an
    id is generated."""

    place: JobPlace
    format: str
    transactional_id: str
    checkpoint: str
    batch_records: int
    transaction_timeout_ms: int
    terms: Terms
    run_id: str | None
    sink: str
    progress_topic: str | None
    state_store: str
    forever: bool
    accept_data_loss: bool


class ExportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the job ``export``, which reads a broker's segment files if ``data_dir`` is set."""

    place: JobPlace
    topic: str
    to: str
    data_dir: str | None
    part_offsets: int
    group: str | None


class AuditSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the job ``audit``, which can also compare ``totals`` and ``export`` with the purchases."""

    place: JobPlace
    format: str
    terms: Terms
    totals: bool
    export: str | None
    exported_topic: str
