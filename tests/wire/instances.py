"""Processes of an application that is run several times over: started, frozen, killed, and brought to an end."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

LEAVE_TIMEOUT_S = 60


class Instance:
    """One process of the application, which ends with its input. Its output goes into a file."""

    def __init__(self, command: list[str], output: Path) -> None:
        self.output = output
        with output.open("w") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)

    def says(self, text: str) -> bool:
        assert self.process.poll() is None or text == "closed", self.output.read_text()[-3000:]
        return text in self.output.read_text()

    def freeze(self) -> None:
        """Simulates a long pause of its machine."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def close(self) -> None:
        """Close its input, upon which it leaves the group."""
        if self.process.poll() is not None:
            return
        self.thaw()
        try:
            self.process.communicate(timeout=LEAVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
