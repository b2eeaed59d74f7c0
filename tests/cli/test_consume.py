"""``ottla consume`` without a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.cli import consume, main
from ottla.client.errors import BatchTooLarge
from ottla.process import USAGE_EXIT


def test_consume_command_reports_a_too_large_batch_with_options_to_continue_after_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def cluster_at(*_: object) -> Iterator[None]:
        yield

    def records(*_: object) -> Iterator[Any]:
        raise BatchTooLarge(
            "the batch at offset 40 of orders-2 inflates", partition=2, first_offset=40, next_offset=51, is_alone=True
        )
        yield

    monkeypatch.setattr(consume, "cluster_at", cluster_at)
    monkeypatch.setattr(consume, "_records", records)
    assert main(["consume", "orders"]) == USAGE_EXIT
    assert capsys.readouterr().err == (
        "ottla: the batch at offset 40 of orders-2 inflates; continue with --partition 2 --from 51\n"
    )
