"""The examples in other languages run unchanged if the language is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import fetching, java_programs, kafka
from tools.kafka import Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full]

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
JUNIT_VERSION = "1.11.4"
TIMEOUT_S = 300


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Environment variables with ``OTTLA`` set to a command that runs this checkout."""
    command = tmp_path / "ottla"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m ottla "$@"\n')
    command.chmod(0o755)
    return {**os.environ, "OTTLA": str(command)}


def run(command: list[str], environment: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed(name: str) -> str:
    launcher = shutil.which(name)
    if launcher is None:
        pytest.skip(f"no {name} on the PATH")
    return launcher


def junit() -> Path:
    """Return the path of JUnit's standalone launcher, which is downloaded once. Raises `Unavailable`."""
    target = kafka.cache_dir() / f"junit-{JUNIT_VERSION}"
    if not (target / "complete").exists():
        target.mkdir(parents=True, exist_ok=True)
        launcher = ("org.junit.platform", "junit-platform-console-standalone", JUNIT_VERSION)
        try:
            fetching.fetch([launcher], target, java=kafka.java(), home=kafka.cache_dir() / "ivy")
        except fetching.FetchingFailed as failed:
            raise Unavailable(str(failed)) from failed
        (target / "complete").touch()
    return next(target.glob("junit-platform-console-standalone*.jar"))


def test_junit_example_passes(environment: dict[str, str], tmp_path: Path) -> None:
    try:
        launcher = junit()
        class_path = os.pathsep.join([str(launcher), *map(str, java_programs.expanded(kafka.jars("clients")))])
        extension = java_programs.classes(EXAMPLES / "junit" / "OttlaExtension.java", class_path)
        class_path = os.pathsep.join([str(extension), class_path])
        tests = java_programs.classes(EXAMPLES / "junit" / "OrdersTest.java", class_path)
    except Unavailable as missing:
        pytest.skip(str(missing))
    # The clients' jars are on the class path, where a project's build tool would put them.
    arguments = ["execute", "--disable-banner", "--details=tree", "--select-class=OrdersTest", "--fail-if-no-tests"]
    starting = [kafka.java(), "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join([str(tests), class_path])]
    said = run([*starting, "org.junit.platform.console.ConsoleLauncher", *arguments], environment, tmp_path)
    assert "1 tests successful" in said


def test_go_example_passes(environment: dict[str, str]) -> None:
    said = run([installed("go"), "test", "-count=1", "-v", "./..."], environment, EXAMPLES / "go")
    assert "--- PASS: TestOnlyCommittedOrdersAreRead" in said


@pytest.mark.smoke
def test_node_example_passes(environment: dict[str, str], tmp_path: Path) -> None:
    node, npm = installed("node"), installed("npm")
    project = tmp_path / "node"
    shutil.copytree(EXAMPLES / "node", project, ignore=shutil.ignore_patterns("node_modules"))
    fetched = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if fetched.returncode:
        pytest.skip(f"npm install failed: {fetched.stderr[-500:]}")
    said = run([node, "--test", "--test-reporter=tap"], environment, project)
    assert "# pass 1" in said


def test_python_examples_pass_or_are_skipped(environment: dict[str, str], tmp_path: Path) -> None:
    """Tests of packages that are not installed are skipped. Without the package the files at least compile."""
    for path in sorted((EXAMPLES / "python").glob("*.py")):
        compile(path.read_text(), str(path), "exec")
        shutil.copy(path, tmp_path)
    without = {name: value for name, value in environment.items() if not name.startswith(("PYTEST", "OTTLA"))}
    path_list = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "ignore"]
    output = run(command, {**without, "PYTHONPATH": path_list}, tmp_path)
    assert "5 passed" in output or ("passed" in output and "skipped" in output)
