"""Log lines on a stream whose disk is full, and on a stream that several processes share."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator

import pytest
import structlog

from ottla.broker.loop.logs import NamedLogger, Unfailing, configure


class Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_writing_a_log_line_to_a_full_disk_raises_no_error() -> None:
    stream = Unfailing(Full())
    assert stream.write("a line\n") == 7
    stream.flush()
    kept = io.StringIO()
    Unfailing(kept).write("another\n")
    assert kept.getvalue() == "another\n"


def test_log_line_and_its_newline_are_written_in_one_call() -> None:
    """Several processes share one stream, and separate writes of two processes may be interleaved."""
    writes: list[str] = []

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            writes.append(text)
            return len(text)

    NamedLogger(Stream()).info("a line")
    assert writes == ["a line\n"]


@pytest.fixture
def configured() -> Iterator[None]:
    """Restore structlog's configuration after the test."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize("as_json", [True, False])
def test_traceback_in_the_log_shows_no_values_of_variables(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """If the package rich is installed, structlog shows local variables by default, among them passwords."""
    import rich

    assert rich
    configure(as_json=as_json)
    password = "planted " + "secret"
    try:
        int(password[:0])
    except ValueError:
        structlog.get_logger("broker").exception("request_failed")
    shown = capsys.readouterr().err
    assert "ValueError: invalid literal" in shown
    assert "planted secret" not in shown
