"""ottla on Windows and macOS. On Linux, functions that those systems lack are removed from Python. CI runs this file on Windows and
macOS too."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import ottla
from tests.support.other_systems import IS_WINDOWS, MACOS, WINDOWS, environment, python

TIMEOUT_S = 60
CALLS = """
import contextlib, io, json, sys
from ottla.cli import main
said = []
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    said.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(said))
"""
NEED_POSIX = (
    ["serve"],
    ["serve", "--brokers", "3"],
    ["console"],
    ["audit", "data"],
    ["dump", "data"],
    ["recover", "--data-dir", "data"],
    ["graduate", "--data-dir", "data", "--to", "graduated"],
    ["adopt", "--from", "data", "--data-dir", "adopted"],
    ["health", "--data-dir", "data"],
    ["cluster", "grow", "--data-dir", "data", "--brokers", "3"],
)


def run(system: Path, directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command, variables = python(*arguments), {**environment(system), **variables}
    return subprocess.run(command, cwd=directory, env=variables, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def called(system: Path, directory: Path, calls: list[list[str]]) -> list[tuple[int, str, str]]:
    """Return exit code, output and error output of each call of the command line, all in one process."""
    done = run(system, directory, "-c", CALLS, json.dumps(calls))
    assert done.returncode == 0, done.stderr
    return [tuple(result) for result in json.loads(done.stdout)]


def test_commands_that_need_posix_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    results = called(WINDOWS, tmp_path, [["--version"], *NEED_POSIX])
    assert results[0] == (0, f"ottla {ottla.__version__}\n", "")
    for arguments, (code, out, err) in zip(NEED_POSIX, results[1:], strict=True):
        assert (code, out, err.count("\n")) == (2, "", 1), (arguments, err)
        assert err.startswith("ottla: this needs Linux, macOS or another POSIX system: "), (arguments, err)
        assert "WSL" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_help_of_every_command_is_shown_on_windows(tmp_path: Path) -> None:
    from ottla.cli.root import COMMANDS

    results = called(WINDOWS, tmp_path, [[name, "--help"] for name in COMMANDS if name != "demo"])
    assert all(code == 0 and out.startswith("Usage: ottla") and err == "" for code, out, err in results), results


def test_broker_and_cluster_objects_on_windows_fail_with_the_reason(tmp_path: Path) -> None:
    for name in ("Broker", "Cluster"):
        done = run(WINDOWS, tmp_path, "-c", f"import ottla; ottla.{name}().start()")
        assert "this needs Linux, macOS or another POSIX system" in done.stderr.splitlines()[-1], done.stderr
        assert f"ottla.testing.{'handle.Broker' if name == 'Broker' else 'cluster_handle.Cluster'}Failed" in done.stderr


def test_tests_without_a_broker_pass_on_windows_with_the_pytest_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_user_test_without_a_broker_passes.py").write_text(
        "def test_user_test_without_a_broker_passes() -> None:\n    pass\n"
    )
    options = ("-q", "-p", "no:cacheprovider", "-p", "ottla.testing.pytest_plugin")
    done = run(
        WINDOWS, tmp_path, "-m", "pytest", *options, "test_user_test_without_a_broker_passes.py", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


SYNC = """
import os
from ottla.storage.real_filesystem import RealFilesystem
synced = []
os.fsync = synced.append
fs = RealFilesystem()
file = fs.open("file")
file.append(b"x")
file.sync()
fs.sync_file("file")
fs.sync_dir(".")
print(len(synced))
"""


@pytest.mark.skipif(IS_WINDOWS, reason="no data directory is written on Windows")
@pytest.mark.parametrize(
    ("full_sync", "plain_syncs"),
    [
        pytest.param("1", "0", id="F_FULLFSYNC"),  # On Linux, command 1 is F_GETFD.
        pytest.param("51", "4", id="a file system without F_FULLFSYNC"),
    ],
)
def test_files_are_synced_with_f_fullfsync_on_macos_else_with_fsync(tmp_path: Path, full_sync: str, plain_syncs: str) -> None:
    """macOS has no fdatasync, and its fsync does not reach the disk."""
    done = run(MACOS, tmp_path, "-c", SYNC, F_FULLFSYNC=full_sync)
    assert (done.stdout.strip(), done.stderr) == (plain_syncs, "")


BROKER = """
import ottla
with ottla.Broker(settings={"ottla.durability": "power"}) as broker:
    broker.create_topic("orders", 1)
    broker.produce("orders", b"one")
    broker.restart(kill=True)
    broker.produce("orders", b"two")
    print([record.value for record in broker.records("orders")], broker.restart().is_running)
with ottla.Cluster(brokers=2) as cluster:
    cluster.create_topic("orders", 1)
    cluster.kill(1)
    cluster.restart(1)
    cluster.produce("orders", b"three")
    print(len(cluster.records("orders")))
"""


@pytest.mark.full
@pytest.mark.skipif(IS_WINDOWS, reason="no broker runs on Windows")
def test_brokers_run_on_macos(tmp_path: Path) -> None:
    done = run(MACOS, tmp_path, "-W", "error", "-c", BROKER)
    assert done.stdout.splitlines() == ["[b'one', b'two'] True", "1"], done.stderr


@pytest.mark.full
def test_client_commands_work_on_windows(tmp_path: Path) -> None:
    """On Windows itself, CI starts a broker in WSL and passes its address."""
    given = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    if given is None and IS_WINDOWS:
        pytest.skip("OTTLA_TEST_BOOTSTRAP does not name a broker")
    if given is not None:
        check_client_commands(given, tmp_path)
        return
    with ottla.Broker() as broker:
        check_client_commands(broker.bootstrap, tmp_path)


def check_client_commands(bootstrap: str, directory: Path) -> None:
    calls = [
        ["health", "--wait"],
        ["topic", "create", "orders"],
        ["produce", "orders", "--value", "first order"],
        ["consume", "orders"],
        ["topic", "describe", "orders"],
        ["config", "get", "topic", "orders"],
        ["group", "list"],
        ["txn", "list"],
        ["quota", "list"],
        ["user", "list"],
        ["cluster"],
        ["top"],
        ["topic", "delete", "orders", "--yes"],
    ]
    results = called(WINDOWS, directory, [[*call, "--bootstrap", bootstrap] for call in calls])
    for call, (code, out, err) in zip(calls, results, strict=True):
        assert (code, "Traceback" in err) == (0, False), (call, out, err)
    assert results[3][1].endswith("\tfirst order\n")
