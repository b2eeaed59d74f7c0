"""Hostile or mistyped names and bytes: no control character reaches the terminal and no command fails on them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.cli import main
from ottla.cli.commands import Refused
from ottla.cli.output import note, show_json, show_line
from ottla.cli.produce import _split
from ottla.cli.txn_timeline import diagram
from ottla.client.explain.reasons import why_held
from ottla.client.explain.timeline import TimelineEvent
from ottla.testing import report as reported
from tests.client.explain.test_reasons import NOW_MS, held, holder, transaction

ESCAPES = "\x1b]0;mine\x07\x9b31m\u202e"
NO_TEXT = "\udcff\udcfe"
"""The bytes FF FE of a command-line argument as Python decodes them, with lone surrogates."""
FIRST = f"{0:020d}"


def test_control_characters_are_escaped_in_cli_messages(capsys: pytest.CaptureFixture[str]) -> None:
    show_line(f"a {ESCAPES}")
    note(f"b {ESCAPES}")
    out, err = capsys.readouterr()
    assert out == "a \\x1b]0;mine\\x07\\x9b31m\\u202e\n"
    assert err == out.replace("a", "b", 1)


def test_control_characters_in_json_output_are_escaped_without_loss(capsys: pytest.CaptureFixture[str]) -> None:
    said = {"key": ESCAPES, "\x7f": ["é", "\U000e0001", NO_TEXT, "\n"]}
    show_json(said)
    out = capsys.readouterr().out
    assert out.removesuffix("\n").isprintable()
    assert "é" in out
    assert json.loads(out) == said


def test_cli_errors_contain_no_control_characters(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise Refused(f"the broker says {ESCAPES}")

    monkeypatch.setattr("ottla.cli.dump._wanted", refuse)
    assert main(["dump", "x"]) == 2
    assert main([f"to{ESCAPES}pic"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "create", "t", "--config", f"{NO_TEXT}=1"],
        ["produce", NO_TEXT, "--value", "x"],
        ["fault", "add", NO_TEXT, "--url", "http://127.0.0.1:1", "--token", "x"],
    ],
)
def test_non_utf8_command_line_arguments_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str], scripted: str
) -> None:
    given = arguments if arguments[0] == "fault" else [*arguments, "--bootstrap", scripted]
    assert main(given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is not UTF-8 text" in line


def test_error_of_a_text_that_is_only_part_of_an_argument_does_not_show_it(
    scripted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topic", "create", "t", "--config", f"password={NO_TEXT}", "--bootstrap", scripted]) == 2
    assert capsys.readouterr().err == "ottla: an argument or a setting is not UTF-8 text\n"


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> str:
    """Bootstrap address of a fake cluster. Every client call raises the error of a name that cannot be encoded as UTF-8."""

    def ask(*_: Any, **__: Any) -> None:
        NO_TEXT.encode()

    monkeypatch.setattr("ottla.client.kafka_client.KafkaClient.create_topic", ask)
    monkeypatch.setattr("ottla.client.cluster.BrokerConnections.partitions", ask)
    monkeypatch.setattr("ottla.client.records.producing.TopicProducer.__init__", ask)
    return "127.0.0.1:1"


def test_consume_command_writes_raw_values_and_keys_unchanged() -> None:
    assert _split(b"v", NO_TEXT, None) == (b"\xff\xfe", b"v")
    assert _split(b"k\xffv", None, "\udcff") == (b"k", b"v")


def test_cli_output_is_escaped_for_the_terminal_encoding(monkeypatch: pytest.MonkeyPatch, directory_of_lines: Path) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["dump", str(directory_of_lines)]) == 0
    out.flush()
    assert b"\\u0436" in out.buffer.getvalue()


@pytest.fixture
def directory_of_lines(tmp_path: Path) -> Path:
    (tmp_path / "partition.metadata").write_text("ж", encoding="utf-8")
    return tmp_path


@pytest.mark.smoke
@pytest.mark.parametrize("coerced", ["0", "1"])
def test_names_and_paths_may_be_non_ascii_in_the_c_locale(coerced: str, tmp_path: Path) -> None:
    """In the C locale without UTF-8 mode, Python decodes non-ASCII bytes of arguments as lone surrogates."""
    variables = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": coerced, "PYTHONUTF8": coerced}

    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", "ottla", *map(os.fsencode, arguments)]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False, env={**os.environ, **variables})
        return (done.stdout + done.stderr).decode()

    fault = "{api: Fetch, topic: счета, delay_ms: 5}"
    assert "is not UTF-8 text" not in (line := said("fault", "add", fault, "--url", "http://127.0.0.1:1", "--token", "x"))
    assert "http://127.0.0.1:1 does not answer" in line
    (directory := tmp_path / "счета").mkdir()
    (directory / "partition.metadata").write_text("version: 0")
    assert "version: 0" in said("dump", str(directory))


@pytest.mark.smoke
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("lines", [1, 10_000])
def test_full_disk_on_redirected_output_is_reported(lines: int, unbuffered: str, tmp_path: Path) -> None:
    """Depending on PYTHONUNBUFFERED, the write fails at a line of output or only when the output is flushed at the end."""
    (tmp_path / "partition.metadata").write_text("a\n" * lines)
    command = [sys.executable, "-m", "ottla", "dump", "--json", str(tmp_path)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line == "ottla: No space left on device"


def test_dump_command_prints_file_names_without_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / f"{ESCAPES}{NO_TEXT}.log").touch()
    assert main(["dump", str(tmp_path)]) == 0
    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())
    (tmp_path / f"{ESCAPES}{NO_TEXT}.log").write_bytes(b"x")
    assert main(["dump", "--json", str(tmp_path)]) == 1
    assert json.loads(capsys.readouterr().out)["file"].endswith(".log")


def test_suggested_cli_command_quotes_the_transactional_id() -> None:
    taken = transaction()
    taken = type(taken)(**{name: getattr(taken, name) for name in taken.__dataclass_fields__} | {"transactional_id": "x; reboot"})
    _, do = why_held(held(holder=holder(), transaction=taken), NOW_MS)
    assert do.endswith("ottla txn abort 'x; reboot'")


def test_mermaid_diagram_contains_no_control_characters_or_directives() -> None:
    event = TimelineEvent(0, "begin", "begins", "x", (1, 0), [("t", 0)])
    text = diagram(f"a\r{ESCAPES}%%{{init: {{}}}}%%%", [event])
    assert all(line.isprintable() for line in text.split("\n"))
    assert "%%" not in text


def test_pytest_failure_report_escapes_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    class Known:
        brokers = None

        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self) -> Known:
            return self

        def __exit__(self, *_: object) -> None: ...
        def transactions(self) -> list[Any]:
            return [SimpleNamespace(transactional_id=ESCAPES)]

    class ControlEndpoint:
        def known_ids(self) -> list[tuple[str, int]]:
            return []

        def history(self, _: str) -> dict[str, Any]:
            asked = {"api": "EndTxn", "client_id": ESCAPES, "client_host": "h", "group_id": ESCAPES}
            return {"events": [{"time_ms": 1, "kind": "request", **asked}]}

    event = TimelineEvent(0, "init", "taken", "x", (1, 0))
    monkeypatch.setattr("ottla.client.explain.timeline.timeline", lambda *_: [event])
    lines = reported.transactions_since(cast(Any, Known), 0, cast(Any, ControlEndpoint()))
    assert len(lines) == 2
    assert all(line.isprintable() for _, line in lines)


@pytest.mark.parametrize(
    "url", ["http://[bad", "http://x:99999999", "http://x:y", "127.0.0.1:1", "localhost:1", "//x:1", "http://", "https://x:1"]
)
def test_invalid_control_urls_are_refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", "list", "--url", url, "--token", "x"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is not the address of a control API" in line


@pytest.mark.parametrize("token", ["ы", "a\nb"])
def test_invalid_control_api_tokens_are_refused(token: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fault", "list", "--url", "http://127.0.0.1:1", "--token", token]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is not a token" in line


def test_clock_command_refuses_a_ready_file_without_a_control_api(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others: list[dict[str, Any]] = [{"control": {"url": 5, "token": 6}}, {"control": []}, {}]
    for said in others:
        (tmp_path / "ready").write_text(json.dumps(said))
        assert main(["clock", "show", "--ready-file", str(tmp_path / "ready")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "has no control API" in line
