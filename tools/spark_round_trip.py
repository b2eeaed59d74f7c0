"""One stream of `tools.spark_matrix`: copies numbered records from a topic to another, exactly once, the way its arguments say.

It runs with the interpreter of a virtual environment that has some version of Spark, and is killed and started again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

BATCH_RECORDS: Final = 150
CLUSTER_CORES: Final = 2
SETTINGS: Final = {
    "speculation": {
        "spark.speculation": "true",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.1",
    },
    "dynamic": {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
    },
}
"""Settings of the Spark session, by the way to start the stream."""


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--checkpoint", "--way", "--packages", "--ivy"):
        parser.add_argument(name, required=True)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--forever", action="store_true")
    given = parser.parse_args()
    import ottla.spark

    spark = _session(given)
    ottla.spark.register(spark)
    source = {"kafka.bootstrap.servers": given.bootstrap, "subscribe": "in", "startingOffsets": "earliest"}
    options = {
        "kafka.bootstrap.servers": given.bootstrap,
        "transactional.id": "matrix",
        "topic": "out",
        "kafka.acks": "all",
        "kafka.linger.ms": "5",
    }
    frame = spark.readStream.format("kafka").options(**source, maxOffsetsPerTrigger=str(BATCH_RECORDS)).load()
    frame = frame.selectExpr("key", "value")
    if given.way == "retries":
        frame = frame.select("key", _failing_once(given.checkpoint)("value").alias("value"))
    if given.way in ("format", "connect"):
        writer = ottla.spark.arranged(frame, options).writeStream.format("ottla").options(**options)
    else:
        writer = frame.writeStream.foreachBatch(ottla.spark.sink(options))
    trigger: dict[str, Any] = {"processingTime": "0 seconds"} if given.forever else {"availableNow": True}
    query = writer.option("checkpointLocation", given.checkpoint).trigger(**trigger).start()
    query.awaitTermination()
    print("python of the driver", sys.version.split()[0], flush=True)
    spark.stop()


def _session(given: argparse.Namespace) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars.packages": given.packages,
        "spark.jars.ivy": given.ivy,
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # The default timeout of 15 s is too short on a machine under load.
        "spark.python.authenticate.socketTimeout": "120s",
    }
    if given.master.startswith("spark:"):
        settings |= {"spark.cores.max": str(2 * CLUSTER_CORES), "spark.executor.memory": "512m"}
        if given.way in ("format", "connect"):
            settings["spark.stage.maxConsecutiveAttempts"] = "1"
        if given.way == "connect":
            # Spark Connect sends no packages to the workers of a stream.
            settings["spark.executorEnv.PYTHONPATH"] = str(Path(__file__).resolve().parent.parent)
    settings |= SETTINGS.get(given.way, {})
    builder = SparkSession.builder.appName("ottla-matrix")
    if given.way.startswith("connect") and given.master.startswith("spark:"):
        # PySpark starts a server of Spark Connect as the application of the cluster.
        builder = builder.config("spark.api.mode", "connect").master(given.master)
    elif given.way.startswith("connect"):
        builder = builder.remote(given.master)
    else:
        builder = builder.master(given.master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _failing_once(checkpoint: str) -> Any:
    """Return a function for rows. It fails in its first task, so that Spark runs the task again."""
    from pyspark.sql import functions as f

    mark = f"{checkpoint}.failed"

    def failing(value: bytes) -> bytes:
        if not Path(mark).exists():
            Path(mark).touch()
            raise ValueError("a task that fails once")
        return bytes(value)

    return f.udf(failing, "binary")


if __name__ == "__main__":
    main()
