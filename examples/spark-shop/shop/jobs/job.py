"""Defines a job: the topics that it reads, the topics of each of its sinks, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from shop.inputs import outgoing
from shop.lateness import always
from shop.settings import Settings

SINK: Final = "sink"
"""Column with the name of the sink that writes the row."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job. Each sink has a transaction of its own in each batch. ``rows`` returns the columns of `inputs.outgoing`, `SINK` and
    `lateness.DEADLINE`."""

    name: str
    reads: tuple[str, ...]
    sinks: Mapping[str, tuple[str, ...]]
    rows: Callable[[SparkSession, Settings], DataFrame]
    output_mode: str = "append"


def letters_for(sink: str, *each: DataFrame) -> DataFrame:
    """Return the dead letters of the inputs as rows of a sink."""
    together = outgoing(each[0])
    for letters in each[1:]:
        together = together.unionByName(outgoing(letters))
    return always(together).withColumn(SINK, f.lit(sink))
