"""Neither responses nor files depend on the order of a set, so another process can repeat a simulated world."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.heavy
def test_responses_and_files_do_not_depend_on_the_hash_seed() -> None:
    days = []
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.broker.hash_order"]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        days.append(subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout)
    assert days[0] == days[1]
    assert days[0].endswith(" 0 bugs\n")
