"""The wheel and the source distribution work next to a user's packages that have the same names as ottla's folders."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import msgspec
import pytest

from ottla.client import KafkaClient, NewRecord
from ottla.spark.versions import VERSIONS, packages_for
from tests.support.raw_client import RawClient, create
from tools import kafka

pytestmark = pytest.mark.wire

ROOT = Path(__file__).parent.parent.parent
ROOMS = ("broker", "coordinator", "pipeline", "protocol", "storage")
BUILD_TIMEOUT_S = 120
DEMO_TIMEOUT_S = 600
ORDERS = 3_000


USER_TEST = """
import broker, coordinator, pipeline, protocol, storage

def test_packages_of_a_user_with_names_of_ottlas_folders_are_imported_if_the_wheel_is_installed(ottla, ottla_topic, ottla_group):
    assert {room.WHOSE for room in (broker, coordinator, pipeline, protocol, storage)} == {"the user's"}
    from kafka import KafkaConsumer, KafkaProducer
    producer = KafkaProducer(bootstrap_servers=ottla.bootstrap)
    producer.send(ottla_topic, b"hello").get(10)
    consumer = KafkaConsumer(
        ottla_topic, bootstrap_servers=ottla.bootstrap, group_id=ottla_group, auto_offset_reset="earliest"
    )
    assert next(consumer).value == b"hello"
"""


class Project(msgspec.Struct, frozen=True):
    """A user's project whose packages have the names of ottla's folders, and the Python in which the wheel is installed."""

    directory: Path
    python: Path

    def run(self, *arguments: str, timeout_s: float, **environment: str) -> str:
        """Run Python in the project as a user does, and return its output. All processes import the project's packages first."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "PYSPARK"))}
        done = subprocess.run(
            [str(self.python), *arguments],
            cwd=self.directory,
            env={**inherited, "PYTHONPATH": str(self.directory), **environment},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(target), str(ROOT)]
    subprocess.run(build, check=True, timeout=BUILD_TIMEOUT_S, capture_output=True)
    (built,) = target.glob("ottla-*.whl")
    return built


@pytest.fixture(scope="session")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    home = tmp_path_factory.mktemp("home")
    venv.create(home / "venv", with_pip=False, symlinks=True)
    site = next((home / "venv" / "lib").glob("python*/site-packages"))
    installing = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(installing, check=True, timeout=BUILD_TIMEOUT_S, capture_output=True)
    # The dependencies are those of the current environment, without its editable installation of ottla.
    ours = next(p for p in map(Path, sys.path) if p.name == "site-packages" and (p / "aiokafka").exists())
    for entry in ours.iterdir():
        if "ottla" not in entry.name.lower() and not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry)
    directory = home / "project"
    for name in ROOMS:
        (directory / name).mkdir(parents=True)
        (directory / name / "__init__.py").write_text('WHOSE = "the user\'s"\n')
    (directory / "test_user.py").write_text(USER_TEST)
    return Project(directory=directory, python=home / "venv" / "bin" / "python")


def test_plugin_starts_a_broker_in_a_project_with_conflicting_package_names(project: Project) -> None:
    output = project.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "test_user.py", timeout_s=120)
    assert "1 passed" in output


@pytest.mark.full
def test_example_tests_pass_with_the_wheel(project: Project) -> None:
    example = project.directory.parent / "example"
    shutil.copytree(ROOT / "examples" / "billing", example, ignore=shutil.ignore_patterns("__pycache__"))
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:asyncio", "-W", "error")
    output = project.run("-m", "pytest", *options, str(example), timeout_s=120)
    assert "5 passed" in output


@pytest.mark.nightly
@pytest.mark.java
def test_spark_jobs_run_in_a_project_with_conflicting_package_names(project: Project) -> None:
    """The broker's process, the Spark driver and its Python workers all import the user's packages first."""
    pytest.importorskip("pyspark")
    from tests.support import quick_java

    output = project.run(
        "-m",
        "ottla",
        "pipeline",
        "demo",
        "--rows",
        "400",
        timeout_s=DEMO_TIMEOUT_S,
        **quick_java.environment(),
        OTTLA_CACHE=str(kafka.cache_dir()),
    )
    assert "Findings" in output
    assert output.splitlines()[-1] == "pipeline demo passed: each of 400 purchases was handled once"


def spark_of(minor: str) -> dict[str, str]:
    """Return environment variables for a driver with this Spark version, which is installed or downloaded once."""
    import pyspark

    from tests.support import quick_java

    if pyspark.__version__.startswith(f"{minor}."):
        return quick_java.environment()
    target = kafka.cache_dir() / f"pyspark-{minor}"
    if not (target / "complete").exists():
        wanted = [VERSIONS[minor].pyspark, "py4j"]
        fetch = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade", "--target", str(target), *wanted]
        subprocess.run(fetch, check=True, timeout=DEMO_TIMEOUT_S, capture_output=True)
        (target / "complete").touch()
    return {"PYTHONPATH": str(target), "SPARK_HOME": str(target / "pyspark"), "JAVA_HOME": quick_java.java_home()}


@pytest.mark.nightly
@pytest.mark.full
@pytest.mark.java
@pytest.mark.parametrize("minor", [min(VERSIONS), max(VERSIONS)])  # The CI workflow tests the other Spark versions.
def test_user_spark_job_writes_every_order_once_over_sasl_ssl(project: Project, tmp_path: Path, minor: str) -> None:
    """The job is killed and restarted. It imports its own packages ``pipeline`` and ``storage``."""
    pytest.importorskip("pyspark")
    from tests.spark.secured import Secured

    shutil.copytree(ROOT / "examples" / "orders", tmp_path / "orders", ignore=shutil.ignore_patterns("__pycache__"))
    secured = Secured(tmp_path)
    options = {name: value for name, value in secured.options("SCRAM-SHA-512").items() if isinstance(value, str)}
    (tmp_path / "kafka.properties").write_text("".join(f"{k.removeprefix('kafka.')}={v}\n" for k, v in options.items()))
    submit = (
        f"--packages {packages_for(minor)[0]} --conf spark.jars.ivy={kafka.cache_dir() / 'ivy'} --master local[2] pyspark-shell"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "PYSPARK"))}
    environment |= {**spark_of(minor), "PYSPARK_SUBMIT_ARGS": submit, "PYSPARK_PYTHON": str(project.python)}
    command = [str(project.python), "main.py", str(tmp_path / "kafka.properties"), str(tmp_path / "checkpoint")]

    def start() -> subprocess.Popen[str]:
        with (tmp_path / "job.log").open("a") as log:
            return subprocess.Popen(
                command,
                cwd=tmp_path / "orders",
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    with secured:
        with RawClient(secured.bootstrap) as client:
            for topic in ("orders", "invoices", "journal"):
                create(client, topic, 2)
        with KafkaClient(secured.bootstrap, timeout_s=60) as cluster:
            orders = [{"order_id": f"o-{n}", "customer": f"c-{n % 7}", "cents": n} for n in range(ORDERS)]
            cluster.produce("orders", [NewRecord(json.dumps(order).encode()) for order in orders])
            with start() as first:
                assert first.stdout is not None
                assert first.stdout.readline().startswith("batch 0: "), (tmp_path / "job.log").read_text()[-3_000:]
                os.killpg(first.pid, signal.SIGKILL)
            with start() as second:
                printed, _ = second.communicate(timeout=DEMO_TIMEOUT_S)
            assert second.returncode == 0, printed + (tmp_path / "job.log").read_text()[-3_000:]
            invoices = [json.loads(record.value or b"")["order_id"] for record in cluster.records("invoices")]
            journal = [(record.key or b"").decode() for record in cluster.records("journal")]
        assert sorted(invoices) == sorted(journal) == sorted(order["order_id"] for order in orders)


@pytest.mark.full
def test_source_distribution_is_complete_and_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    script = f"import setuptools.build_meta as build; build.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=BUILD_TIMEOUT_S, capture_output=True)
    (archive,) = tmp_path.glob("ottla-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    for name in ("Makefile", "CHANGELOG.md", "tests/test_lint.py", "tools/kafka.py", "ottla/protocol/schemas/produce.schema"):
        assert (source / name).is_file(), name
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source)]
    subprocess.run(build, check=True, timeout=BUILD_TIMEOUT_S, capture_output=True)
    (again,) = tmp_path.glob("ottla-*.whl")
    assert contents(again) == contents(wheel)
    # Files of an earlier build must not become part of the wheel.
    left = source / "build" / "lib" / "ottla"
    assert left.is_dir()
    (left / "gone.py").write_text("")
    again.unlink()
    subprocess.run(build, check=True, timeout=BUILD_TIMEOUT_S, capture_output=True)
    assert contents(again) == contents(wheel)


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
