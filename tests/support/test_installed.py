"""All tests can be collected without the packages of Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
HIDES_SPARK = """
import importlib.util, sys
HIDDEN = {"fastavro", "pandas", "py4j", "pyarrow", "pyspark"}
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in HIDDEN else find_spec(name, package)
"""


@pytest.mark.full
def test_all_tests_are_collected_without_spark(tmp_path: Path) -> None:
    (tmp_path / "hides_spark.py").write_text(HIDES_SPARK)
    run = [sys.executable, "-m", "pytest", "-p", "hides_spark", "--collect-only", "-q", "--level", "check,smoke", "tests"]
    done = subprocess.run(run, check=False, cwd=ROOT, env={"PATH": "", "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3_000:]
    assert "tests collected" in done.stdout
