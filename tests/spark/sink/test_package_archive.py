"""The archive with the ottla package for Spark executors on which it is not installed."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import crc32c
import pytest

from ottla.spark.sink.session_setup import package_archive

TASK_MODULES = (
    "ottla.spark.sink.row_writing",
    "ottla.spark.sink.task_writer",
    "ottla.spark.worker",
    "ottla.spark.rows.spark_partitioner",
    "ottla.spark.segments.source",
)


def test_package_archive_for_workers_contains_every_module_that_it_imports(tmp_path: Path) -> None:
    with zipfile.ZipFile(package_archive(tmp_path)) as archive:
        sources = {name: archive.read(name).decode() for name in archive.namelist()}
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in sources}
    # `ottla/__init__.py` imports other modules only on first use, and tasks do not use them.
    del sources["ottla/__init__.py"]
    missing = {
        (name, node.module)
        for name, source in sources.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ottla") and node.module not in modules
    }
    assert missing == set()


@pytest.mark.full
def test_package_archive_for_workers_contains_the_modules_that_tasks_import(tmp_path: Path) -> None:
    """Python runs with -S, which ignores an editable installation that could supply missing modules."""
    dependencies = Path(crc32c.__file__).parent.parent
    script = (
        f"import importlib, sys; sys.path[:0] = [{str(package_archive(tmp_path))!r}, {str(dependencies)!r}]\n"
        f"for name in {TASK_MODULES!r}: assert 'ottla_package.zip' in importlib.import_module(name).__file__"
    )
    script += "; assert 'confluent_kafka' not in sys.modules"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
