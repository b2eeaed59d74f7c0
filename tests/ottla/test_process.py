"""Helpers for the start and end of a process."""

from __future__ import annotations

import io
import sys

import pytest

from ottla.process import print_error


def test_line_of_unbuffered_output_is_written_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    # Processes of a cluster share one stderr. If each line took two writes, lines of several processes would be mixed.
    writes: list[bytes] = []

    class Descriptor(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            writes.append(bytes(data))  # type: ignore[call-overload]
            return len(writes[-1])

    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(Descriptor(), write_through=True))  # type: ignore[type-var]
    print_error("ottla: cannot start: äh")
    assert writes == ["ottla: cannot start: äh\n".encode()]
