"""Recording of signals, and signals that stop a job."""

from __future__ import annotations

import os
import signal

import pytest

from ottla.pipeline.signals import Stopped, noted_signals, stopping_signals


def test_recorded_signals_do_not_stop_the_job_and_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with noted_signals(signal.SIGINT, signal.SIGTERM) as noted:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        # Python runs a signal handler between two bytecode instructions of the main thread, so both signal handlers have run by
        # now.
        assert sorted(noted) == [signal.SIGINT, signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_starting_pipeline_job_at_once(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as stopped, stopping_signals(signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)
        pytest.fail("the program continued after the signal")
    assert stopped.value.number is number
    assert signal.getsignal(number) is before


def test_sigint_stops_a_starting_job_although_spark_installs_its_own_handler() -> None:
    with pytest.raises(Stopped) as stopped, stopping_signals(signal.SIGINT, signal.SIGTERM):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("the program continued after the signal")
    assert stopped.value.number is signal.SIGINT


def test_signal_while_a_spark_batch_may_be_open_is_recorded_instead_of_ending_the_job() -> None:
    with stopping_signals(signal.SIGTERM):
        with noted_signals(signal.SIGTERM) as noted:
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
    assert noted == [signal.SIGTERM]
