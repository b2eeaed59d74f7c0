"""The project examples/spark-shop as a team would use it: its tests, its short chaos run, and its compose file's settings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ottla.broker.config.sources import from_environment, load
from ottla.container.image import prepared
from tools import kafka

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "spark-shop"
FILES = sorted(path.name for path in (SHOP / "tests").glob("test_*.py"))
TIMEOUT_S = 1_200
"""Limit for a hanging run. The tests take a minute on an idle machine."""


def run_tests(directory: Path, *arguments: str) -> str:
    """Run the project's tests in a copy of the project. Returns the output."""
    pytest.importorskip("pyspark")
    from tests.support import quick_java

    project = directory / "spark-shop"
    shutil.copytree(SHOP, project, ignore=shutil.ignore_patterns("__pycache__", ".shop", "wheels"))
    own = ("PYTEST", "OTTLA", "SHOP", "PYSPARK", "KAFKA")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    environment |= {**quick_java.environment(), "OTTLA_CACHE": str(kafka.cache_dir()), "PYTHONPATH": str(ROOT)}
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist")
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    return done.stdout


@pytest.mark.wire
@pytest.mark.java
@pytest.mark.heavy
@pytest.mark.parametrize("name", FILES)
def test_tests_of_the_spark_shop_example_pass(name: str, tmp_path: Path) -> None:
    output = run_tests(tmp_path, "-m", "not chaos", f"tests/{name}")
    assert re.search(r"\d+ passed", output)
    assert "skipped" not in output


@pytest.mark.wire
@pytest.mark.java
@pytest.mark.nightly
def test_short_chaos_run_of_spark_shop_has_no_findings(tmp_path: Path) -> None:
    """The jobs may end before the last kill on a fast machine, so this test is not in test-all."""
    assert "1 passed" in run_tests(tmp_path, "-m", "chaos", "tests/test_chaos.py")


def test_spark_shop_compose_file_has_only_settings_known_to_ottla() -> None:
    service = yaml.safe_load((SHOP / "compose.yaml").read_text())["services"]["kafka"]
    _, ignored = from_environment(service["environment"])
    assert ignored == []
    config, *_ = load(None, prepared(service["environment"], {}), [], {})
    assert config.settings.advertised_listeners == ("PLAINTEXT://localhost:9092", "DOCKER://kafka:29092")


def test_wheel_of_spark_shop_has_all_modules() -> None:
    declared = re.search(r"packages = \[(.*)\]", (SHOP / "pyproject.toml").read_text())
    assert declared is not None
    packages = {str(path.parent.relative_to(SHOP)).replace("/", ".") for path in (SHOP / "shop").rglob("__init__.py")}
    assert set(re.findall(r'"([\w.]+)"', declared[1])) == packages
