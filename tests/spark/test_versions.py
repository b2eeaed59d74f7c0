"""The table of compatible versions agrees with the installed packages and with the CI workflow."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest
import yaml
from packaging.requirements import Requirement

from ottla.spark.errors import PipelineError
from ottla.spark.versions import PINNED, VERSIONS, packages_for

ROOT = Path(__file__).parent.parent.parent


def test_ci_workflow_runs_every_row_of_the_version_table() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    rows = workflow["jobs"]["spark"]["strategy"]["matrix"]["include"]
    table = {minor: msgspec.structs.asdict(together) for minor, together in VERSIONS.items()}
    assert {row.pop("spark"): row for row in rows} == {
        minor: {name: value for name, value in row.items() if name not in ("packages", "scala")} for minor, row in table.items()
    }


def test_pinned_spark_version_of_the_version_table_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = VERSIONS[PINNED]
    assert {pinned.pyspark, pinned.pandas} <= set(project["project"]["optional-dependencies"]["pipeline"])


def test_jar_packages_match_the_running_spark_version() -> None:
    assert packages_for("3.5.9")[0] == "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7"
    assert packages_for("4.2.0")[0] == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
    assert packages_for("4.0.2")[1] == "org.apache.spark:spark-avro_2.13:4.0.0"
    with pytest.raises(PipelineError, match=r"Spark 5\.0\.0 is not supported \(3\.5, 4\.0, 4\.1, 4\.2, 4\.3 are\)"):
        packages_for("5.0.0")


def test_every_tested_spark_minor_version_may_be_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (bounds,) = [line for line in project["optional-dependencies"]["spark"] if line.startswith("pyspark")]
    requirement = Requirement(bounds)
    assert all(f"{minor}.0" in requirement.specifier for minor in VERSIONS)
    assert not any(requirement.specifier.contains(other) for other in ("3.4.4", "4.4.0", "5.0.0"))
