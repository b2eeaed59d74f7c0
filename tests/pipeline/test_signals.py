"""Signals that are noted, and end nothing."""

from __future__ import annotations

import os
import signal

import pytest

from ottla.pipeline.signals import Stopped, noted_signals, stopping_signals


def test_a_signal_is_noted_and_the_handler_of_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with noted_signals(signal.SIGINT, signal.SIGTERM) as noted:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        # A handler runs between two instructions of the main thread.
        assert sorted(noted) == [signal.SIGINT, signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_a_job_begins_a_signal_ends_it_at_once(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as stopped, stopping_signals(signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)
        pytest.fail("went on")
    assert stopped.value.number is number
    assert signal.getsignal(number) is before


def test_spark_s_own_handler_of_ctrl_c_is_no_way_around() -> None:
    with pytest.raises(Stopped) as stopped, stopping_signals(signal.SIGINT, signal.SIGTERM):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("went on")
    assert stopped.value.number is signal.SIGINT


def test_once_a_batch_may_be_open_signals_are_noted_again() -> None:
    with stopping_signals(signal.SIGTERM):
        with noted_signals(signal.SIGTERM) as noted:
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
    assert noted == [signal.SIGTERM]
