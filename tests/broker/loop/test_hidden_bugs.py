"""Bugs whose texts may have secrets are logged without them, and told apart by their place."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.stepping import Stepping
from ottla.broker.metadata.metadata_listener import MetadataFaults
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


def test_bug_in_background_work_is_logged_without_its_text() -> None:
    lifecycle = Lifecycle(env := simulated_env())
    stepping = Stepping(env, lifecycle.work_failed)

    async def work() -> None:
        raise KeyError(SECRET)

    with capture_logs() as lines:
        stepping.run(work())
        env.scheduler.settle()
    (line,) = lines
    assert (line["event"], lifecycle.unexpected_errors) == ("work_failed", 1)
    assert "test_hidden_bugs.py:" in line["reason"] and SECRET not in str(line)


def test_failed_metadata_step_with_secrets_is_logged_without_its_text() -> None:
    def step() -> None:
        raise KeyError(SECRET)

    for may_have_secrets in (True, False):
        faults = MetadataFaults()
        with capture_logs() as lines:
            faults.attempt(step, "configs", may_have_secrets=may_have_secrets)
        (line,) = lines
        assert line["event"] == "metadata_step_failed"
        assert (SECRET in str(line)) != may_have_secrets
        with pytest.raises(KeyError):
            faults.raise_first()
