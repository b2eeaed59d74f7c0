"""A pause of the event loop, and the signals that end it."""

from __future__ import annotations

import subprocess
import sys

import pytest

TIMEOUT_S = 60
SIGNALLED = """
import asyncio, os, signal, sys, threading
from ottla.control.http_api import STOP_SIGNALS, LoopPause

begun = []

def signal_in_a_wait(frame, event, argument):
    # The main thread has the lock of the condition here, and lets it go only when it waits.
    if event == "call" and frame.f_code is threading.Condition.wait.__code__ and not begun:
        if frame.f_back.f_back.f_code.co_name == "stand_still":
            begun.append(True)
            os.kill(os.getpid(), signal.SIGINT)

async def main():
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, lambda: None)
    pause = LoopPause(loop)

    def hold_and_stop():
        pause.hold()
        os.kill(os.getpid(), signal.SIGTERM)

    sys.setprofile(signal_in_a_wait)
    await asyncio.to_thread(hold_and_stop)
    while pause.is_held:
        await asyncio.sleep(0.001)

asyncio.run(main())
"""


@pytest.mark.smoke
def test_signal_ends_a_pause_at_its_very_start() -> None:
    """The signal handler may run while the main thread holds any lock, so it must not acquire a lock itself."""
    done = subprocess.run([sys.executable, "-c", SIGNALLED], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
