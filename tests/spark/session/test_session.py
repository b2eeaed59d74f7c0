"""The packages that the session makes Spark download."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.spark.session.session import SPARKS_OWN


@pytest.mark.parametrize("package", SPARKS_OWN)
def test_excluded_jar_packages_are_bundled_with_spark(package: str) -> None:
    pyspark = pytest.importorskip("pyspark")
    jars = [jar.name for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")]
    artifact = re.escape(package.partition(":")[2])
    assert any(re.fullmatch(rf"{artifact}-\d[\d.]*\.jar", jar) for jar in jars), f"Spark no longer bundles {package}"
