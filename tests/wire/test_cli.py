"""What other tools expect of the command line, the `Broker` object, the pytest plugin and the package."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla import Broker, BrokerFailed
from ottla.cli import main
from ottla.cli.health_check import answers
from ottla.client import KafkaClient
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.wire

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 60


Serving = tuple[subprocess.Popen[str], dict[str, object]]


@contextmanager
def serving(
    *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], dict[str, object]]]:
    command = [sys.executable, "-m", "ottla", "serve", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    )
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT_S)


def refused(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "serve", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    return lines[-1]


@pytest.mark.smoke
def test_serve_command_reports_that_it_is_ready_and_exits_cleanly(tmp_path: Path) -> None:
    data, ready_file = tmp_path / "data", tmp_path / "ready.json"
    for _ in range(2):
        with serving("--listen", "127.0.0.1:0", "--data-dir", str(data), "--ready-file", str(ready_file)) as (process, ready):
            assert ready["event"] == "ready"
            host, _, port = str(ready["bootstrap"]).rpartition(":")
            assert answers(host, int(port), 5)
            assert json.loads(ready_file.read_text()) == ready
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0
        assert (data / ".kafka_cleanshutdown").exists()
        assert not ready_file.exists()


def test_broker_settings_are_read_from_file_environment_and_set_option(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path / 'data'}\nlisteners=PLAINTEXT://127.0.0.1:0\nnum.partitions=2\nnum.io.threads=3\n")
    arguments = (str(properties), "--set", "message.max.bytes=12345", "--feature", "transaction.version=1")
    with serving(*arguments, environment={"KAFKA_NUM_PARTITIONS": "5"}) as (_, ready), RawClient(str(ready["bootstrap"])) as client:
        answer = client.call(
            DescribeConfigsRequest([DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)])
        )
        values = {c.name: c.value for c in answer.results[0].configs}
        assert (values["num.partitions"], values["message.max.bytes"], values["num.io.threads"]) == ("5", "12345", "3")
        features = client.call(ApiVersionsRequest(client_software_name="t", client_software_version="1")).finalized_features
        assert {f.name: f.max_version_level for f in features}["transaction.version"] == 1


def test_serve_command_reports_usage_errors_in_one_line(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "d"))
    assert "did you mean 'num.partitions'" in refused(*data, "--set", "num.partitons=1")
    assert "KEY=VALUE" in refused(*data, "--set", "nonsense")
    assert "transaction.version 0-2" in refused(*data, "--feature", "transaction.version=9")
    assert "SSL" in refused(*data, "--set", "listeners=SSL://127.0.0.1:0")
    assert "cannot read" in refused(str(tmp_path / "missing.properties"))
    (tmp_path / "file").write_text("in the way")
    assert "cannot use" in refused("--data-dir", str(tmp_path / "file"), "--listen", "127.0.0.1:0")


def test_ctrl_c_during_a_broker_start_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker runs in its own session, so Ctrl-C does not reach it, and the `Broker` object must stop it."""
    broker, pids = Broker(data_dir=tmp_path / "data"), list[int | None]()

    def interrupted(*_: object) -> bool:
        pids.append(broker.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr("ottla.testing.handle.threading.Event.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        broker.start()
    monkeypatch.undo()
    (pid,) = pids
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_second_broker_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data"):
        assert "in use by another broker" in refused("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")


def test_serve_command_reports_a_port_in_use(ottla: Broker, tmp_path: Path) -> None:
    data = str(tmp_path / "d")
    line = refused("--data-dir", data, "--listen", ottla.bootstrap)
    assert line.startswith(
        f"ottla: cannot listen on {ottla.bootstrap}: Address already in use; the port is in use by another process"
    )
    assert "cannot listen on 192.0.2.1:0: Cannot assign requested address" in refused("--data-dir", data, "--listen", "192.0.2.1:0")
    metrics = ("--metrics-port", ottla.bootstrap.rpartition(":")[2])
    assert "cannot serve metrics on" in refused("--data-dir", data, "--listen", "127.0.0.1:0", *metrics)
    # The failed starts did not remove the clean-shutdown file.
    assert (tmp_path / "d" / ".kafka_cleanshutdown").exists()


def test_health_command_reports_the_state_of_the_broker(ottla: Broker) -> None:
    command = [sys.executable, "-m", "ottla", "health", "--bootstrap"]
    assert subprocess.run([*command, ottla.bootstrap], capture_output=True, check=False).returncode == 0
    assert subprocess.run([*command, "127.0.0.1:1"], capture_output=True, check=False).returncode == 1


def test_health_command_checks_each_broker_of_a_list(
    ottla: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = ottla.bootstrap.rpartition(":")[2]
    assert main(["health", "--bootstrap", f"{ottla.bootstrap}, localhost:{port},{ottla.bootstrap}"]) == 0
    assert capsys.readouterr() == (f"{ottla.bootstrap} answers\nlocalhost:{port} answers\n", "")
    both = f"127.0.0.1:1,{ottla.bootstrap}"
    monkeypatch.setenv("OTTLA_BOOTSTRAP", both)
    monkeypatch.delenv("OTTLA_READY_FILE", raising=False)
    for given in ([], ["--bootstrap", both], ["--bootstrap", both, "--wait", "--timeout-s", "0.1"]):
        assert main(["health", *given]) == 1
        assert capsys.readouterr() == (f"{ottla.bootstrap} answers\n", "ottla: 127.0.0.1:1 does not answer\n")
    assert main(["health", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "bootstrap": both,
        "healthy": False,
        "brokers": [
            {"bootstrap": "127.0.0.1:1", "healthy": False, "reason": "127.0.0.1:1 does not answer"},
            {"bootstrap": ottla.bootstrap, "healthy": True, "warnings": []},
        ],
    }


def test_health_command_waits_for_a_starting_broker(tmp_path: Path) -> None:
    ready_file = tmp_path / "ready.json"
    command = [sys.executable, "-m", "ottla", "health", "--wait", "--ready-file", str(ready_file)]
    waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with serving("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "d"), "--ready-file", str(ready_file)) as (_, ready):
        assert waiting.communicate(timeout=TIMEOUT_S) == (f"{ready['bootstrap']} answers\n", None)
    assert waiting.returncode == 0
    never = subprocess.run([*command, "--timeout-s", "0.3"], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert never.returncode == 1
    assert never.stderr.count("\n") == 1


def test_initial_topics_are_created_before_the_broker_is_ready_and_survive_restarts(tmp_path: Path) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), "--topic")
    environment = {"KAFKA_CREATE_TOPICS": "a:1:1, b:2:3:compact"}
    for topic in ("orders:3:retention.ms=5:cleanup.policy=compact,delete", "orders:7"):
        with (
            serving(*arguments, topic, environment=environment) as (process, ready),
            KafkaClient(str(ready["bootstrap"])) as cluster,
        ):
            assert [(t.name, t.partitions) for t in cluster.topics()] == [("a", 1), ("b", 2), ("orders", 3)]
            configs = {name: {c.name: c.value for c in cluster.topic(name).configs if c.own} for name in ("b", "orders")}
            assert configs == {
                "b": {"cleanup.policy": "compact"},
                "orders": {"cleanup.policy": "compact,delete", "retention.ms": "5"},
            }
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0
            assert process.stderr is not None
            # The broker logs OTTLA_ variables that are not settings as ignored, so the environment must have none.
            assert "setting_ignored" not in process.stderr.read()


def test_serve_command_reports_an_invalid_initial_topic(tmp_path: Path) -> None:
    where = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    assert refused(*where, "--topic", "t:1:no.such=1") == "ottla: --topic t:1:no.such=1: Unknown topic config name: no.such"
    assert "--topic a/b:1: " in refused(*where, "--topic", "a/b:1")


def said_on_a_terminal(*arguments: str) -> tuple[int, str]:
    """Run a broker on a terminal, and send SIGINT after it prints how to stop it. Returns its process id and its output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ottla", "serve", "--listen", "127.0.0.1:0", *arguments]
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    try:
        said = ""
        while "stops it" not in said:
            said += os.read(ours, 1_000).decode()
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(TIMEOUT_S)
        os.close(ours)
    assert code == 0
    return process.pid, said


def test_serve_command_on_a_terminal_prints_the_address_and_how_to_stop(tmp_path: Path) -> None:
    pid, said = said_on_a_terminal("--data-dir", str(tmp_path / "data"))
    assert re.match(r"ottla listens at 127\.0\.0\.1:\d+\r\n", said)
    assert f"its data is in {tmp_path / 'data'}\r\n" in said
    assert f"Ctrl-C, or kill {pid}, stops it" in said
    assert "{" not in said


def test_serve_command_on_a_terminal_prints_the_control_api_address(tmp_path: Path) -> None:
    _, said = said_on_a_terminal("--data-dir", str(tmp_path / "data"), "--control-port", "0")
    assert re.search(r"its control API is at http://127\.0\.0\.1:\d+, with the token [\w-]{22}\r\n", said)


async def test_broker_object_starts_and_stops_a_broker_in_an_async_with_block() -> None:
    async with Broker() as broker:
        assert broker.is_running
        with RawClient(broker.bootstrap) as client:
            assert client.call(ApiVersionsRequest(client_software_name="t", client_software_version="1")).error_code == 0
    assert not broker.is_running
    assert not broker.data_dir.exists()


def test_broker_object_reports_why_a_broker_does_not_start() -> None:
    with pytest.raises(BrokerFailed, match=r"num\.partitons"):
        Broker(settings={"num.partitons": 1}).start()
