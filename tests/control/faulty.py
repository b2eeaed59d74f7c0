"""A simulated broker with faults. A fault may kill its process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.control.faults.registry import AddedFault, Fault, Faults
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import newest
from tests.scenarios.play import cut_up, perform
from tests.scenarios.verbs import VERBS
from tests.scenarios.world import Ask, World


class Killed(BaseException):
    """Simulates the end of the process: no later code runs, and no error handler sees this exception."""


def die() -> None:
    raise Killed


class Faulty:
    """A broker with faults, which is used with the commands of the transcripts."""

    def __init__(self, **settings: str) -> None:
        self.faults = Faults(kill=die)
        self.broker = SimulatedBroker(
            {"auto.create.topics.enable": "false", **{k.replace("_", "."): v for k, v in settings.items()}},
            interception=self.faults,
        ).start()
        self.broker.with_coordinators()
        self.world = World(self.broker, "simulated", "f-")

    def add(self, **fault: Any) -> AddedFault:
        return self.faults.add(Fault(**fault))

    def release(self, added: AddedFault) -> None:
        """Remove a fault, and resume everything that it held."""
        added.remove()
        self.broker.env.settle()

    def do(self, *commands: str) -> str:
        """Perform the commands, and return the result of the last command."""
        return [perform(self.world, command) for command in commands][-1]

    def send(self, command: str) -> Callable[[], str]:
        """Send a command's request on a new connection. Returns a function that waits for the response."""
        words = cut_up(command, {})
        ask = VERBS[words.verb](self.world, words)
        assert isinstance(ask, Ask)
        client = self.broker.connect()
        sent = client.send(ask.request, newest(ask.request) if ask.version is None else ask.version)
        return lambda: ask.show(client.receive(sent))

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Expect the block to kill the process. Afterwards the broker restarts on the same files, without faults."""
        with pytest.raises(Killed):
            yield
        self.faults.clear()
        self.world.forget_connection()
        self.broker.restart(kill=True)

    def close(self) -> None:
        self.faults.clear()
        self.world.close()
        self.broker.close()
        assert self.broker.bugs == 0
