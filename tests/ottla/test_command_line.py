"""Usage errors on the command line are one line, and never a traceback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from ottla.cli import main
from ottla.cli.health_check import NotReady, listening_address
from ottla.cli.imports import importing_without

COMPOSE = Path(__file__).parent.parent.parent / "docker-compose.yml"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the exit code and the single line of the error message."""
    try:
        code: object = main(list(arguments))
    except SystemExit as ended:
        code = ended.code
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return f"{code} {line}"


def test_version_option_of_ottla_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["--version"]), capsys.readouterr().out) == (0, f"ottla {ottla.__version__}\n")


def test_ottla_without_a_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    help_text = capsys.readouterr().err
    assert help_text.startswith("Usage: ottla")
    assert all(command in help_text for command in ("serve", "health", "graduate", "adopt", "audit", "pipeline", "demo"))


def test_help_of_ottla_serve_lists_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for word in ("until SIGTERM", "127.0.0.1:9092", ".ottla/data", "KAFKA_NUM_PARTITIONS", "server.properties", "JSON line"):
        assert word in text
    assert text.count("(default: ") >= 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "2 ottla: unknown command 'nonsense'; see ottla --help"),
        (["serve", "--listen", "9092"], "did you mean 127.0.0.1:9092?"),
        (["serve", "--listen", "1:2:3"], "is not HOST:PORT"),
        (["serve", "--listen", "127.0.0.1:99999"], "'99999' is not a port, 0 to 65535"),
        (["serve", "--metrics-port", "99999"], "'99999' is not a port, 0 to 65535"),
        (["serve", "--metrics-port", "-1"], "not a port"),
        (["serve", "--nonsense"], "2 ottla serve: no such option"),
        (["serve", "--set", "nonsense"], "1 ottla: --set 'nonsense' is not KEY=VALUE"),
        (["serve", "--set", "=1"], "is not KEY=VALUE"),
        (["serve", "--set", "num.partitons=1"], "did you mean 'num.partitions'?"),
        (["serve", "--set", "num.partitions=\u00b2"], "Not a number of type INT"),
        (["serve", "--users-file", "/none"], "1 ottla: --users-file: cannot read /none: No such file"),
        (["serve", "--user", "alice:a", "--user", "alice:b"], "1 ottla: --user alice is given twice; give each user once"),
        (
            ["serve", "--listen", "127.0.0.1:0", "--set", "listeners=SASL_SSL://127.0.0.1:0"],
            "1 ottla: --listen would replace SASL_SSL://127.0.0.1:0 by a listener without SASL_SSL; leave --listen out",
        ),
        (["serve", "--feature", "transaction.version=\u00b2"], "is not NAME=LEVEL"),
        (["serve", "--feature", "transaction.version=9"], "transaction.version 0-2"),
        (["serve", "--data-dir", ""], "'log.dirs' must not be empty"),
        (["serve", "/no/such.properties"], "1 ottla: cannot read /no/such.properties: No such file"),
        (["health", "--bootstrap", "foo"], "2 ottla health: --bootstrap: 'foo' is not HOST:PORT"),
        (["health", "--bootstrap", "127.0.0.1:0"], "has no port between 1 and 65535"),
        (["health", "--bootstrap", "127.0.0.1:\u0661"], "is not a port"),
        (["health", "--timeout-s", "nan"], "is not a number of seconds above 0"),
        (["health", "--timeout-s", "-1"], "is not a number of seconds above 0"),
        (["health", "--ready-file", "/no/such"], "1 ottla: /no/such does not exist: no broker is ready"),
        (["demo", "--port", "65536"], "is not a port"),
        (["demo", "--purchases", "0"], "is not a number of 1 or more"),
        (["audit"], "2 ottla audit: DIR is missing; see ottla audit --help"),
    ],
)
def test_usage_errors_of_ottla_serve_are_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert says in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("listening", "address"),
    [
        ({"PLAINTEXT": "0.0.0.0:9192"}, "127.0.0.1:9192"),
        ({"PLAINTEXT": ":9192"}, "127.0.0.1:9192"),
        ({"PLAINTEXT": "[::]:9192"}, "[::1]:9192"),
        ({"DOCKER": "10.0.0.1:1", "PLAINTEXT": "127.0.0.1:2"}, "10.0.0.1:1"),
    ],
)
def test_health_command_connects_to_the_listener_in_the_ready_file(tmp_path: Path, listening: dict[str, str], address: str) -> None:
    (tmp_path / "ready").write_text(json.dumps({"event": "ready", "bootstrap": "elsewhere:1", "listening": listening}))
    assert listening_address(tmp_path / "ready") == address


NOT_READY = ["", "[]", "{}", "[" * 100_000, '{"listening": {}}', '{"listening": {"P": 1}}', '{"listening": {"P": "x"}}']


@pytest.mark.parametrize("text", NOT_READY, ids=range(len(NOT_READY)))
def test_health_command_refuses_a_file_that_is_not_a_ready_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "ready").write_text(text)
    with pytest.raises(NotReady, match="is not a ready file of ottla serve"):
        listening_address(tmp_path / "ready")


@pytest.mark.parametrize("name", ["listeners", "log.dirs", "log.dir"])
def test_testing_broker_refuses_settings_for_listeners_and_log_dirs(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ottla.Broker(settings={name: "x"})


def test_compose_file_publishes_ports_on_loopback_only() -> None:
    text = COMPOSE.read_text()
    published = [line.strip(' -"') for line in text.partition("ports:")[2].partition("environment:")[0].splitlines() if '"' in line]
    assert published == ["127.0.0.1:9092:9092", "127.0.0.1:8081:8081"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["generate", "--rows", "-5"], 2, "'-5' is not a number of 1 or more"),
        (["generate", "--partitions", "0"], 2, "'0' is not a number of 1 or more"),
        (["shop", "--cores", "x"], 2, "'x' is not a number of 1 or more"),
        (["generate", "--config", "binary.toml"], 1, "--config binary.toml: "),
    ],
)
def test_invalid_arguments_of_a_pipeline_job_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\x88\xff\0")
    assert main(["pipeline", *arguments]) == code
    (said,) = capsys.readouterr().err.splitlines()
    assert says in said


SIGNALLED = """
import os, signal, sys
# Whoever runs the tests in the background may have this one ignored.
signal.signal(signal.SIGINT, signal.{disposition})
class Signals:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Signals())
sys.argv = ["ottla", *{command!r}.split()]
from ottla.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("command", "module", "number", "code"),
    [
        ("serve", "ottla.cli", signal.SIGINT, 0),
        ("serve", "ottla.cli", signal.SIGTERM, 0),
        ("serve", "ottla.broker.broker", signal.SIGINT, 0),
        ("serve", "ottla.broker.broker", signal.SIGTERM, 0),
        ("demo", "ottla.cli", signal.SIGINT, 130),
        ("demo", "ottla.demo.run", signal.SIGINT, 130),
        ("demo", "ottla.cli", signal.SIGTERM, -signal.SIGTERM),
        ("pipeline audit", "ottla.pipeline.running", signal.SIGINT, 130),
        ("pipeline demo", "ottla.pipeline.running", signal.SIGINT, 130),
    ],
)
def test_signal_during_imports_of_a_command_shows_no_traceback(command: str, module: str, number: int, code: int) -> None:
    script = SIGNALLED.format(disposition="default_int_handler", command=command, module=module, number=int(number))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_signal_ignored_by_the_calling_shell_stays_ignored() -> None:
    script = SIGNALLED.format(disposition="SIG_IGN", command="--version", module="ottla.cli", number=int(signal.SIGINT))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, f"ottla {ottla.__version__}\n")


def test_ctrl_c_in_a_command_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ottla.cli.directories.audit", interrupted)
    assert main(["audit", "directory"]) == 130


def test_closed_standard_stream_is_not_reused_for_a_file(tmp_path: Path) -> None:
    """Descriptors 0 to 2 are opened on /dev/null, so printing to them is harmless."""
    shown = tmp_path / "shown"
    script = f"""
import os, sys
for descriptor in (0, 1, 2):
    os.close(descriptor)
sys.stdin = sys.stdout = sys.stderr = None
from ottla.process import open_standard_streams
open_standard_streams()
print("out"), print("err", file=sys.stderr, flush=True)
with open({str(shown)!r}, "w") as kept:
    streams = [os.path.samestat(os.fstat(number), os.stat(os.devnull)) for number in range(3)]
    kept.write(f"{{kept.fileno() > 2}} {{streams}}")
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert shown.read_text() == "True [True, True, True]"


@pytest.mark.smoke
def test_broker_does_not_import_unused_modules() -> None:
    """structlog imports rich if it is installed, and aiokafka its whole client. Both cost memory, and half of the start time."""
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ottla", "serve", "--set", "no.such.key=1"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    loaded = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines() if line.startswith("import time:")}
    assert ended.returncode == 1, ended.stderr
    assert "structlog.dev" in loaded
    assert not {name for name in loaded if name.startswith("rich.")}
    assert "aiokafka.record._crecords.default_records" in loaded
    assert not loaded & {"aiokafka.client", "aiokafka.producer", "aiokafka.consumer", "yaml"}


def test_package_hidden_from_one_import_can_be_imported_later() -> None:
    sys.modules.pop("colorsys", None)
    with importing_without("colorsys"), pytest.raises(ImportError):
        __import__("colorsys")
    assert __import__("colorsys").rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
    with importing_without("colorsys"):
        assert __import__("colorsys"), "a package that is already imported is not hidden"
