"""Where the session reads a user's Spark settings."""

from __future__ import annotations

from pathlib import Path

from ottla.spark.session.given_settings import given_settings, parse_defaults, submitted

DEFAULTS = """# a comment
spark.ui.enabled true
spark.sql.shuffle.partitions=7
  spark.executor.extraJavaOptions   -Da=b -Dc="d e"
spark.eventLog.dir: hdfs://host:1/a=b
!spark.not.this 1

"""


def test_spark_defaults_file_is_parsed_like_in_spark() -> None:
    assert parse_defaults(DEFAULTS) == {
        "spark.ui.enabled": "true",
        "spark.sql.shuffle.partitions": "7",
        "spark.executor.extraJavaOptions": '-Da=b -Dc="d e"',
        "spark.eventLog.dir": "hdfs://host:1/a=b",
    }


def test_spark_submit_arguments_are_parsed() -> None:
    told = '--conf spark.a=1 -c "spark.b=x y" --conf=spark.c=z=2 --packages p:q:1 --master local[3] pyspark-shell'
    assert submitted(told) == {
        "spark.a": "1",
        "spark.b": "x y",
        "spark.c": "z=2",
        "spark.jars.packages": "p:q:1",
        "spark.master": "local[3]",
    }
    assert submitted("") == submitted("pyspark-shell") == {}


def test_spark_submit_arguments_override_the_defaults_file(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    environment = {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=false"}
    settings = given_settings(environment)
    assert (settings["spark.ui.enabled"], settings["spark.sql.shuffle.partitions"]) == ("false", "7")
    assert given_settings({"SPARK_HOME": str(tmp_path / "nowhere")}) == {}
