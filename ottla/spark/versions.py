"""Which versions go together: the one table of them."""

from __future__ import annotations

from typing import Final

from ottla.spark.errors import PipelineError

PACKAGES: Final = {"4.0": "4.0.0", "4.1": "4.1.1", "4.2": "4.2.0"}
"""Of Spark's minor versions that ottla is tested with, the release whose packages for Kafka and Avro are fetched."""
SCALA: Final = "2.13"


def packages_for(pyspark_version: str) -> tuple[str, ...]:
    """Maven's names of what reads Kafka and Avro. Raises `PipelineError` for a Spark that nobody has tried."""
    minor = ".".join(pyspark_version.split(".")[:2])
    release = PACKAGES.get(minor)
    if release is None:
        raise PipelineError(
            f"Spark {pyspark_version} is none that ottla knows the packages of ({', '.join(PACKAGES)}): start the session yourself,"
            " with spark.jars.packages, and call ottla.spark.register"
        )
    return tuple(f"org.apache.spark:{name}_{SCALA}:{release}" for name in ("spark-sql-kafka-0-10", "spark-avro"))
