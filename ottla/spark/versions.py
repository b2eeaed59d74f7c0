"""The versions of Spark and its packages that are tested together."""

from __future__ import annotations

from typing import Final

import msgspec

from ottla.spark.errors import PipelineError


class Together(msgspec.Struct, frozen=True):
    """The versions that are tested with a minor version of Spark. ``packages`` is the version of Spark's packages for Kafka and
    Avro, ``scala`` the version of Scala that they are built for; the other fields are requirements for pip."""

    packages: str
    pyspark: str
    pandas: str
    python: str
    scala: str = "2.13"


VERSIONS: Final = {
    "3.5": Together("3.5.7", "pyspark==3.5.9", "pandas>=2.2,<3", "3.11", "2.12"),
    "4.0": Together("4.0.0", "pyspark==4.0.2", "pandas>=2.2,<3", "3.11"),
    "4.1": Together("4.1.1", "pyspark==4.1.4", "pandas>=2.2,<3", "3.12"),
    "4.2": Together("4.2.0", "pyspark==4.2.1", "pandas>=3,<4", "3.13"),
    "4.3": Together("4.2.0", "pyspark==4.3.0", "pandas>=3,<4", "3.13"),
}
"""Tested versions by Spark's minor version. ``ottla[pipeline]`` installs the version `PINNED`."""
PINNED: Final = "4.0"


def packages_for(pyspark_version: str) -> tuple[str, ...]:
    """Return the Maven coordinates of Spark's packages for Kafka and Avro. Raises `PipelineError` for an untested version of
    Spark."""
    minor = ".".join(pyspark_version.split(".")[:2])
    together = VERSIONS.get(minor)
    if together is None:
        raise PipelineError(
            f"Spark {pyspark_version} is not supported ({', '.join(VERSIONS)} are): start the session yourself,"
            " with spark.jars.packages, and call ottla.spark.register"
        )
    return tuple(f"org.apache.spark:{name}_{together.scala}:{together.packages}" for name in ("spark-sql-kafka-0-10", "spark-avro"))
