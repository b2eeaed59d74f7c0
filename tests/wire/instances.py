"""Processes that run several instances of an application: start, freeze, kill and stop them."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

LEAVE_TIMEOUT_S = 60


class Instance:
    """One process of the application. It stops when its standard input is closed, and its output is written to a file."""

    def __init__(self, command: list[str], output: Path) -> None:
        self.output = output
        with output.open("w") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)

    def says(self, text: str) -> bool:
        assert self.process.poll() is None or text == "closed", self.output.read_text()[-3000:]
        return text in self.output.read_text()

    def freeze(self) -> None:
        """Stop the process with SIGSTOP, which simulates a long pause of its machine."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def close(self) -> None:
        """Close the standard input, so that the instance leaves its group and exits."""
        if self.process.poll() is not None:
            return
        self.thaw()
        try:
            self.process.communicate(timeout=LEAVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
