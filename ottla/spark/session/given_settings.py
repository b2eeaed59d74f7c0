"""Finds the user's settings for Spark before Spark's JVM runs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Final

_LINE: Final = re.compile(r"\s*([^\s=:#!]+)(?:\s*[=:]\s*|\s+)(.*?)\s*")
"""A line of spark-defaults.conf, a properties file in which spaces, too, may separate name and value."""
_NAMED_OPTIONS: Final = {
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-memory": "spark.driver.memory",
    "--executor-memory": "spark.executor.memory",
    "--jars": "spark.jars",
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--packages": "spark.jars.packages",
    "--repositories": "spark.jars.repositories",
}
"""Flags of spark-submit, with the Spark setting that each of them sets."""


def given_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings from spark-defaults.conf. Settings of a JVM that spark-submit has started, or else of
    PYSPARK_SUBMIT_ARGS, take precedence."""
    settings = _defaults(environment)
    if "PYSPARK_GATEWAY_PORT" in environment:
        from pyspark import SparkConf

        return settings | dict(SparkConf().getAll())
    return settings | submitted(environment.get("PYSPARK_SUBMIT_ARGS", ""))


def submitted(arguments: str) -> dict[str, str]:
    """Parse the settings in the arguments of spark-submit."""
    settings: dict[str, str] = {}
    words = shlex.split(arguments)
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        flag, has_value, value = word.partition("=")
        value = value if has_value else following
        if flag in ("--conf", "-c"):
            name, _, text = value.partition("=")
            settings[name] = text
        elif flag in _NAMED_OPTIONS:
            settings[_NAMED_OPTIONS[flag]] = value
    return settings


def parse_defaults(text: str) -> dict[str, str]:
    lines = (_LINE.fullmatch(line) for line in text.splitlines() if not line.lstrip().startswith(("#", "!")))
    return {line[1]: line[2] for line in lines if line is not None}


def _defaults(environment: Mapping[str, str]) -> dict[str, str]:
    directory = environment.get("SPARK_CONF_DIR")
    if directory is None:
        home = environment.get("SPARK_HOME")
        if home is None:
            import pyspark

            home = str(Path(pyspark.__file__).parent)
        directory = str(Path(home) / "conf")
    try:
        return parse_defaults((Path(directory) / "spark-defaults.conf").read_text())
    except OSError:
        return {}
