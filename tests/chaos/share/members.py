"""The members of the share group, which are processes with Kafka's own share consumer."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tests.chaos.share.history import ShareHistory
from tools import java_programs, kafka

PROGRAM = Path(__file__).parent / "Member.java"
CLOSE_S = 30.0
COUNT = 3


def program() -> list[str]:
    """Return the command that starts a member. Raises `tools.kafka.Unavailable`."""
    return java_programs.command(PROGRAM, kafka.jars("clients"), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class Member:
    """A share group member: one process and its output."""

    def __init__(self, name: str, command: list[str], directory: Path) -> None:
        self.name = name
        self._output = directory / f"member-{name}.txt"
        with self._output.open("w") as output, (directory / f"member-{name}-errors.txt").open("w") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=errors)

    def lines(self) -> list[str]:
        """Return the output lines of the process, without an incomplete final line, which a kill has truncated."""
        return self._output.read_text().rpartition("\n")[0].splitlines()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def close(self) -> None:
        """Close the member's input, so that it leaves the group and exits. Kills the process if it does not exit in time."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.communicate(b"end\n", timeout=CLOSE_S)
            except subprocess.TimeoutExpired:
                self.kill()


class Members:
    """Starts, kills and pauses members, and keeps their number constant."""

    def __init__(self, directory: Path, bootstrap: str, group: str, topic: str, seed: str, lock_ms: int) -> None:
        self._directory = directory
        self._arguments = [bootstrap, group, topic]
        self._seed, self._lock_ms = seed, lock_ms
        self._numbers = itertools.count(1)
        self._all: list[Member] = []
        self._running: list[Member] = []

    def start(self) -> None:
        for _ in range(COUNT):
            self._begin()

    def _begin(self) -> None:
        name = str(next(self._numbers))
        command = [*program(), *self._arguments, f"{self._seed}/{name}", str(self._lock_ms)]
        member = Member(name, command, self._directory)
        self._all.append(member)
        self._running.append(member)

    def _taken(self, rng: random.Random) -> Member:
        return self._running.pop(rng.randrange(len(self._running)))

    def kill_one(self, rng: random.Random) -> None:
        self._taken(rng).kill()
        self._begin()

    def close_one(self, rng: random.Random) -> None:
        self._taken(rng).close()
        self._begin()

    def pause_one(self, rng: random.Random, for_s: float) -> None:
        """Pause a random member for a time, usually until the locks on its records have expired."""
        member = self._taken(rng)
        member.process.send_signal(signal.SIGSTOP)
        time.sleep(for_s)
        member.process.send_signal(signal.SIGCONT)
        self._running.append(member)

    def end(self, history: ShareHistory) -> list[str]:
        """Close all members and add their output to the history. Returns a finding for each member that ended by itself."""
        findings = [f"member {m.name} has ended with {m.process.poll()}" for m in self._running if m.process.poll() is not None]
        for member in self._running:
            member.close()
        for member in self._all:
            history.take(member.name, member.lines())
        return findings

    def kill_all(self) -> None:
        for member in self._all:
            with suppress(OSError):
                member.kill()
