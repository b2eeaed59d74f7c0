"""Skips the test files that need packages which ``make check`` does not install."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

USERS_OF_SPARK = frozenset(
    {"pipeline", "spark", "test_java_admin.py", "test_numbers.py", "test_packaging.py", "test_walk_memory.py"}
)
"""Folders and files of tests that import ottla.spark, which needs the packages of the extra "spark"."""


class NotInstalled(pytest.Module):
    """A test file that is skipped as a whole and is not imported."""

    def collect(self) -> list[pytest.Item]:
        pytest.skip("needs pyspark")


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> NotInstalled | None:
    names = module_path.relative_to(parent.config.rootpath).parts
    if USERS_OF_SPARK.isdisjoint(names) or find_spec("pyspark"):
        return None
    skipped: NotInstalled = NotInstalled.from_parent(parent, path=module_path)
    return skipped
