"""One convention for exit codes: after a signal, servers exit with 0, and other commands with 128 plus the signal's number."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.process import FAILED_EXIT, STOPPED_EXIT, USAGE_EXIT, interrupted_exit

PROMPT = Path(__file__).parents[2] / "docs" / "prompt.md"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_server_exits_with_0(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as served:
        assert served.stdout is not None
        assert b"ready" in served.stdout.readline()
        served.send_signal(number)
        assert served.wait(60) == STOPPED_EXIT == 0


def test_interrupted_command_exits_with_128_plus_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def raised(error: BaseException) -> None:
        raise error

    monkeypatch.setattr("ottla.cli.directories.audit", lambda *_, **__: raised(KeyboardInterrupt()))
    assert main(["audit", "directory"]) == interrupted_exit(signal.SIGINT) == 130


def test_failed_command_and_usage_error_have_different_exit_codes() -> None:
    assert main(["doctor", "127.0.0.1:1", "--timeout-s", "0.1"]) == FAILED_EXIT == 1
    assert main(["doctor", "--nothing"]) == USAGE_EXIT == 2


def test_documentation_lists_each_exit_code() -> None:
    text = PROMPT.read_text().partition("## Exit codes")[2]
    codes = [STOPPED_EXIT, FAILED_EXIT, USAGE_EXIT]
    codes += [interrupted_exit(number) for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)]
    assert [code for code in codes if f"\n| {code} | " not in text] == []
