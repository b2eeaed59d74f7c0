"""Which partition a row goes to. Needs Spark and pandas, which looks at the annotations here."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import pandas_udf

from ottla.spark.errors import PipelineError
from ottla.spark.partitioning import partitions_for
from ottla.spark.worker import prepare

Columns = tuple[pd.Series, pd.Series, pd.Series]
"""Topics, keys, and the partitions that rows ask for."""


def placed(frame: DataFrame, partitions: Mapping[str, int]) -> DataFrame:
    """Rows of `rows.outgoing`, each with the partition that it asks for, or that Kafka's own producers would choose.

    ``partitions`` is how many a topic has. Only topics and keys go to Python and back; rows stay where they are.
    """
    chosen = pandas_udf(_chooser(dict(partitions)), "int")(f.col("topic"), f.col("key"), f.col("partition"))
    return frame.withColumn("partition", chosen)


def brought_together(rows: DataFrame, partitions: Mapping[str, int]) -> DataFrame:
    """`placed`, and the rows of a partition in one task."""
    tasks = min(sum(partitions.values()), rows.sparkSession.sparkContext.defaultParallelism)
    return placed(rows, partitions).repartition(max(1, tasks), "topic", "partition")


def _chooser(partitions: dict[str, int]) -> Callable[[Iterator[Columns]], Iterator[pd.Series]]:
    def choose(batches: Iterator[tuple[pd.Series, pd.Series, pd.Series]]) -> Iterator[pd.Series]:
        prepare()
        for topics, keys, asked in batches:
            yield pd.Series(_chosen(topics, keys, asked, partitions))

    return choose


def _chosen(topics: pd.Series, keys: pd.Series, asked: pd.Series, partitions: dict[str, int]) -> npt.NDArray[np.int32]:
    """Raises `PipelineError` for a topic or a partition that is not there."""
    codes, names = pd.factorize(topics, use_na_sentinel=False)
    chosen = np.empty(len(topics), np.int32)
    for code, name in enumerate(names):
        if name not in partitions:
            what = (
                "a row has no topic"
                if pd.isna(name)
                else f"a row goes to topic {name!r}, which does not exist or is not among the option 'topics'"
            )
            raise PipelineError(what)
        where = np.flatnonzero(codes == code)
        of_topic = keys if len(names) == 1 else keys.iloc[where]
        chosen[where] = partitions_for(of_topic.tolist(), partitions[name])
    if asked.notna().any():
        chosen = np.where(asked.notna(), asked.fillna(0), chosen).astype(np.int32)
        limits = np.array([partitions[name] for name in names])[codes]
        beyond = np.flatnonzero((chosen < 0) | (chosen >= limits))
        if len(beyond):
            at = int(beyond[0])
            raise PipelineError(f"topic {topics.iloc[at]!r} has no partition {chosen[at]}: it has {limits[at]}")
    return chosen
