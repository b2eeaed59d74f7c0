"""`Broker` objects in a process whose working directory contains files named like modules, or whose working directory changes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla
from ottla import Broker, BrokerFailed, Cluster

pytestmark = pytest.mark.wire

SHADOWING = ("queue.py", "secrets.py", "msgspec.py", "ottla.py", "json.py")
TRAP = 'raise SystemExit("a module of the working directory was imported")\n'


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory outside of the checkout."""
    path = tmp_path / "work"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.mark.smoke
def test_broker_process_imports_no_modules_of_the_working_directory(directory: Path) -> None:
    for name in SHADOWING:
        (directory / name).write_text(TRAP)
    with Broker() as broker:
        assert broker.is_running


@pytest.mark.parametrize("kind", [Broker, lambda: Cluster(1)])
def test_broker_process_prefers_the_standard_library_to_files_in_python_path(
    directory: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[[], Broker | Cluster]
) -> None:
    """Python itself needs `types` and other modules before ottla can change the order."""
    for name in ("queue", "secrets", "json", "random", "token", "logging", "calendar"):
        (directory / f"{name}.py").write_text(TRAP)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(directory), os.environ.get("PYTHONPATH", ""))))
    with kind() as started:
        assert started.bootstrap


def test_packages_in_python_path_replace_installed_packages(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "structlog.py").write_text('raise SystemExit("the package of PYTHONPATH was imported")\n')
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(directory), os.environ.get("PYTHONPATH", ""))))
    with pytest.raises(BrokerFailed, match="the package of PYTHONPATH was imported"):
        Broker().start()


def test_tests_use_a_secured_broker_in_a_project_with_its_own_secrets_module(directory: Path) -> None:
    """``python -m pytest`` imports modules of the working directory in place of Python's."""
    (directory / "secrets.py").write_text(TRAP)
    (directory / "test_orders.py").write_text(
        "import pytest\n@pytest.mark.ottla(security='SASL_PLAINTEXT')\n"
        "def test_orders(ottla):\n    ottla.produce('orders', ['x'])\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "ottla.testing.pytest_plugin", "test_orders.py"]
    # Other plugins import `secrets`.
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=alone)
    assert "1 passed" in done.stdout, done.stdout


def test_cluster_processes_import_no_modules_of_the_working_directory(directory: Path) -> None:
    for name in SHADOWING:
        (directory / name).write_text(TRAP)
    with Cluster(1) as cluster:
        assert cluster.in_service() == [1]


def test_broker_start_with_a_relative_python_path_is_unaffected_by_a_chdir(directory: Path) -> None:
    (directory / "vendor").symlink_to(Path(ottla.__file__).parent.parent)
    (directory / "other").mkdir()
    script = (
        "import os; from ottla import Broker; os.chdir('other'); broker = Broker().start(); "
        "print(open(f'/proc/{broker.pid}/environ').read().split('PYTHONPATH=')[1].split(chr(0))[0]); broker.close()"
    )
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(("vendor", "", "/absolute"))}
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60, env=variables)
    assert done.stdout.strip().split(os.pathsep) == [str(directory / "vendor"), str(directory), "/absolute"]


def test_broker_failure_without_output_is_reported_with_a_reason(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "silent.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setenv("PYTHONPATH", str(directory))
    monkeypatch.setattr(Broker, "_module", "silent")
    with pytest.raises(BrokerFailed) as failed:
        Broker().start()
    assert str(failed.value) == "the broker did not start:\nthe process logged nothing and ended with exit code 3"


def test_relative_data_directory_is_unaffected_by_a_chdir(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(data_dir="data")
    cluster = Cluster(1, data_dir="cluster")
    assert (broker.data_dir, cluster.data_dir) == (directory / "data", directory / "cluster")
    with broker:
        broker.create_topic("orders")
        monkeypatch.chdir(tmp_path)
        broker.restart()
        assert broker.records("orders") == []
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


def test_relative_path_in_a_broker_setting_is_unaffected_by_a_chdir(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker resolves the path in the working directory in which the `Broker` object was created."""
    monkeypatch.setattr(Broker, "_module", "says_directory")
    (directory / "modules").mkdir()
    (directory / "modules" / "says_directory.py").write_text("import os, sys\nprint(os.getcwd(), file=sys.stderr)\n")
    monkeypatch.setenv("PYTHONPATH", str(directory / "modules"))
    broker = Broker()
    for to in (directory, tmp_path):
        monkeypatch.chdir(to)
        with pytest.raises(BrokerFailed) as failed:
            broker.start()
        assert str(failed.value) == f"the broker did not start:\n{directory}"


@pytest.mark.parametrize("given", [" spaced", "c\\d", "{e}"])
def test_broker_data_directory_may_have_special_characters(directory: Path, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(data_dir=given) as broker:
        broker.create_topic("orders")
        assert (directory / given / "meta.properties").is_file()


def test_comma_in_a_broker_data_directory_is_refused(directory: Path) -> None:
    told = "data_dir: 'a,b' contains a comma, which separates directories in log.dirs; choose another path"
    for kind in (Broker, Cluster):
        with pytest.raises(ValueError, match=told):
            kind(data_dir="a,b")
        with pytest.raises(ValueError, match="data_dir: 'spaced ' ends with white space"):
            kind(data_dir="spaced ")


def test_broker_starts_if_the_temporary_directory_has_a_comma(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "a,b").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory / "a,b"))
    with Broker() as broker:
        assert "," not in str(broker.data_dir)
        broker.snapshot()
        broker.reset()
    with Cluster(1) as cluster:
        assert cluster.in_service() == [1]
