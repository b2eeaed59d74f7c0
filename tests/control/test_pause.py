"""A pause of the event loop, and the signals that end it."""

from __future__ import annotations

import subprocess
import sys

import pytest

TIMEOUT_S = 60
SIGNALLED = """
import asyncio, os, signal
from ottla.control.http_api import STOP_SIGNALS, LoopPause

async def main():
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, lambda: None)
    pause = LoopPause(loop)

    def hold_and_stop():
        pause.hold()
        os.kill(os.getpid(), signal.SIGTERM)

    for _ in range(100):
        await asyncio.to_thread(hold_and_stop)
        while pause.is_held:
            await asyncio.sleep(0.001)

asyncio.run(main())
"""
"""The signals arrive while the main thread begins to wait, some of them just before it blocks."""


@pytest.mark.smoke
def test_termination_signal_ends_a_broker_pause_that_just_began() -> None:
    done = subprocess.run([sys.executable, "-c", SIGNALLED], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
