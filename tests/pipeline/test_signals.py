"""Signals that are noted, and end nothing."""

from __future__ import annotations

import os
import signal

from ottla.pipeline.signals import noted_signals


def test_a_signal_is_noted_and_the_handler_of_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with noted_signals(signal.SIGINT, signal.SIGTERM) as noted:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        # A handler runs between two instructions of the main thread.
        assert sorted(noted) == [signal.SIGINT, signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is before
