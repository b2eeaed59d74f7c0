"""The examples in other languages run unchanged if the language is installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ottla.testing.cluster_queries import wait_for
from tests.support.fetched import fetched
from tools import fetching, java_programs, kafka
from tools.kafka import Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full]

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
JUNIT_VERSION = "1.11.4"
TIMEOUT_S = 300
MAX_REPORT_LINES = 40
SHOW_FAILURE = "OTTLA_SHOW_FAILURE"
"""Environment variable that enables the tests that fail on purpose."""


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
    launcher = ("org.junit.platform", "junit-platform-console-standalone", JUNIT_VERSION)
    target = fetched(
        f"junit-{JUNIT_VERSION}",
        lambda target: fetching.fetch([launcher], target, java=kafka.java(), home=kafka.cache_dir() / "ivy"),
    )
    return next(target.glob("junit-platform-console-standalone*.jar"))


def failure(command: list[str], environment: dict[str, str], cwd: Path) -> str:
    """Run the example test that fails on purpose, and return the report, whose history of transactions has at most 40 lines."""
    environment = {**environment, SHOW_FAILURE: "1"}
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0, output
    lines = output[output.index("transactions on the broker:") :].splitlines()
    assert any("checkout-1:" in line for line in lines[:2]), output
    # The lines of the report come first, whatever the test runner prints after them.
    for event in ("InitProducerId", "EndTxn commit", "commit is decided", "commit marker"):
        assert any(event in line for line in lines[:MAX_REPORT_LINES]), output
    return output


def copied(language: str, target: Path) -> Path:
    ignored = shutil.ignore_patterns("node_modules", "target", "build")
    return Path(shutil.copytree(EXAMPLES / language, target / language, ignore=ignored))


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
    parallel = [f"--config=junit.jupiter.execution.parallel.{name}" for name in ("enabled=true", "mode.default=concurrent")]
    launched = [*starting, "org.junit.platform.console.ConsoleLauncher", *arguments, *parallel]
    assert "5 tests successful" in run(launched, environment, tmp_path)


def test_maven_example_passes_and_reports_a_failure(environment: dict[str, str], tmp_path: Path) -> None:
    project, maven = copied("junit", tmp_path), installed("mvn")
    with fetching.exclusive(kafka.cache_dir() / "ivy"):
        compiled = subprocess.run(
            [maven, "-q", "-B", "test-compile"], cwd=project, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    if "Could not transfer artifact" in compiled.stdout:
        pytest.skip(f"Maven cannot download: {compiled.stdout[:500]}")
    assert compiled.returncode == 0, compiled.stdout
    assert "Tests run: 6, Failures: 0, Errors: 0, Skipped: 1" in run([maven, "-B", "test"], environment, project)
    failure([maven, "-B", "test", "-Dtest=OrdersTest#reportOfAFailedTest"], environment, project)


def test_gradle_example_has_the_dependency_versions_of_the_maven_example() -> None:
    maven = ElementTree.parse(EXAMPLES / "junit" / "pom.xml").getroot()
    names = {"m": "http://maven.apache.org/POM/4.0.0"}
    gradle = (EXAMPLES / "junit" / "build.gradle.kts").read_text()
    for one in maven.iterfind("m:dependencies/m:dependency", names):
        coordinates = ":".join(one.findtext(f"m:{part}", "", names) for part in ("groupId", "artifactId", "version"))
        assert f'testImplementation("{coordinates}")' in gradle
    assert f"junit-platform-launcher:{JUNIT_VERSION}" in gradle


def test_gradle_example_passes_and_reports_a_failure(environment: dict[str, str], tmp_path: Path) -> None:
    project, gradle = copied("junit", tmp_path), installed("gradle")
    # A daemon would outlive the test.
    command = [gradle, "--no-daemon", "--console=plain", "test"]
    run(command, environment, project)
    suite = ElementTree.parse(next((project / "build" / "test-results" / "test").glob("TEST-*.xml"))).getroot()
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "0",
        "errors": "0",
        "skipped": "1",
    }
    failure([*command, "--tests", "OrdersTest.reportOfAFailedTest"], environment, project)


def test_go_example_passes(environment: dict[str, str], tmp_path: Path) -> None:
    go, project = installed("go"), copied("go", tmp_path)
    said = run([go, "test", "-count=1", "-v", "./..."], environment, project)
    assert said.count("\n--- PASS: ") == 5 and "--- PASS: TestOnlyCommittedOrdersAreRead" in said
    failure([go, "test", "-count=1", "-run", "TestReport", "./..."], environment, project)
    refused = subprocess.run(
        [go, "test", "-count=1", "-run", "TestOnlyCommitted", "./..."],
        env={**environment, "OTTLA": "/nowhere"},
        cwd=project,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert refused.returncode != 0 and 'OTTLA is "/nowhere", which cannot be run' in refused.stdout


@pytest.fixture
def node_project(tmp_path: Path) -> Path:
    """Return a copy of examples/node with its packages."""
    installed("node")
    npm, project = installed("npm"), copied("node", tmp_path)
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
    return project


@pytest.mark.smoke
def test_nodejs_example_passes(environment: dict[str, str], node_project: Path) -> None:
    said = run(["node", "--test", "--test-reporter=tap", "--test-name-pattern=only committed"], environment, node_project)
    assert "ok 1 - only committed orders are read" in said


def test_nodejs_example_passes_and_reports_a_failure(environment: dict[str, str], node_project: Path) -> None:
    assert "pass 5" in run([installed("npm"), "test"], environment, node_project)
    failure(["node", "--test", "--test-name-pattern=report of a failed"], environment, node_project)


NODE_ATTACK = """
const { Broker } = require("./ottla");
const refused = (error) => console.log(error.message);
(async () => {
  await Broker.start({ args: ["--listen", "nonsense"] }).catch(refused);
  const broker = await Broker.start();
  await broker.faults.error("NOT_COORDINATOR", { api: "EndTx" }).catch(refused);
  console.log(broker.process.child.pid, broker.process.directory);
  process.kill(process.pid, "SIGKILL");
})();
"""


def test_killed_nodejs_example_leaves_no_broker(environment: dict[str, str], tmp_path: Path) -> None:
    node, project = installed("node"), copied("node", tmp_path)
    done = subprocess.run(
        [node, "-e", NODE_ATTACK], env=environment, cwd=project, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    *first, invalid, last = done.stdout.splitlines()
    assert first[0] == "ottla serve did not start:" and "'nonsense' is not HOST:PORT" in first[1]
    assert invalid == "unknown API 'EndTx'; did you mean EndTxn?"
    pid, directory = last.split(" ", 1)
    wait_for(lambda: not Path(directory).exists() and not is_alive(int(pid)), TIMEOUT_S)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_python_examples_pass(environment: dict[str, str], tmp_path: Path) -> None:
    """The examples skip tests of packages that are not installed. The extra "full" has them all."""
    for path in sorted((EXAMPLES / "python").glob("*.py")):
        shutil.copy(path, tmp_path)
    without = {name: value for name, value in environment.items() if not name.startswith(("PYTEST", "OTTLA"))}
    path_list = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "ignore"]
    output = run(command, {**without, "PYTHONPATH": path_list}, tmp_path)
    assert output.splitlines()[-1].startswith("5 passed in "), output
