"""Bugs whose texts may have secrets are told apart by their place."""

from __future__ import annotations

from structlog.testing import capture_logs

from ottla.broker.loop.lifecycle import Lifecycle
from tests.support.world import simulated_env

SECRET = "".join(("hu", "sh"))
"""Not a literal, because a traceback shows the lines of this file."""


def test_two_bugs_with_secrets_at_different_lines_are_both_logged_without_their_texts() -> None:
    lifecycle = Lifecycle(simulated_env())
    with capture_logs() as lines:
        for _ in range(2):
            try:
                raise KeyError(SECRET)
            except KeyError:
                lifecycle.bug("request_failed", may_have_secrets=True)
        try:
            raise KeyError(SECRET)
        except KeyError:
            lifecycle.bug("request_failed", may_have_secrets=True)
    assert len(lines) == 2
    assert all("test_hidden_bugs.py:" in line["reason"] and SECRET not in str(line) for line in lines)
    assert lifecycle.unexpected_errors == 3
