"""The documentation's Python blocks are run, as programs or as tests with the plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import catalogue
from tests.pages.blocks import ROOT, block
from tests.pages.catalogue import Program

pytestmark = pytest.mark.wire

TIMEOUT_S = 120
PROGRAMS = [
    pytest.param(name, program, id=f"{name[0]}: {name[1][:40]}", marks=pytest.mark.full if program.is_slow else pytest.mark.smoke)
    for name, program in catalogue.PROGRAMS.items()
]


def run(arguments: list[str], directory: Path) -> str:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("OTTLA_B", "KAFKA_", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env={**inherited, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "program"), PROGRAMS)
def test_documented_program_runs_without_errors(name: tuple[str, str], program: Program, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"{program.first}\n{block(name).text}\n{program.last}")
    output = run(["program.py"], tmp_path)
    shown = [block(printed).text for printed, begin in catalogue.PRINTED.items() if name == (printed[0], begin)]
    assert not shown or shown == [output]


@pytest.mark.smoke
def test_pytest_tests_in_the_docs_pass(tmp_path: Path) -> None:
    texts = [block(name).text for name in sorted(catalogue.TESTS)]
    for number, text in enumerate(texts):
        (tmp_path / f"test_{number}.py").write_text(f"import pytest\n{text}")
    said = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"], tmp_path)
    assert f"{len(texts)} passed" in said
