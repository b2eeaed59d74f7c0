"""A simulated broker whose plain values for control API and console must agree with its responses to clients."""

from __future__ import annotations

from ottla.client.kafka_client import KafkaClient
from ottla.protocol.steps import Steps
from ottla.simulation.broker import SimulatedBroker
from tests.scenarios.brokers import SET_UPS
from tests.scenarios.play import perform
from tests.scenarios.world import World

WAIT_MS = 10
MAX_WAITS = 1_000


class SimulatedTransport:
    """A client's connection to a simulated broker. Simulated time advances while the client waits."""

    def __init__(self, broker: SimulatedBroker) -> None:
        self._broker = broker
        self._connection = broker.connect()
        self._received = b""

    def send(self, data: bytes) -> None:
        self._connection.send_bytes(data)

    def receive(self, size: int) -> bytes:
        for _ in range(MAX_WAITS):
            if len(self._received) >= size:
                break
            frame = self._connection._transport.next_frame()
            if frame is None:
                self._broker.env.advance(WAIT_MS)
            else:
                self._received += len(frame).to_bytes(4, "big") + frame
        data, self._received = self._received[:size], self._received[size:]
        return data

    def close(self) -> None:
        self._connection.close()


class ViewedWorld:
    """A broker that transcript commands change. Names get no prefix."""

    def __init__(self, set_up: str = "apis", **settings: str) -> None:
        """``settings`` has broker configs, with underscores for dots."""
        chosen = SET_UPS[set_up]
        given = {name.replace("_", "."): value for name, value in settings.items()}
        of_broker = {"auto.create.topics.enable": "false", **chosen.settings, **given}
        self.simulated = SimulatedBroker(of_broker, chosen.features).start()
        self.broker = self.simulated.broker
        self.world = World(self.simulated, "simulated", "")
        self.client = KafkaClient("simulated:9092", connect=lambda address, timeout_s: SimulatedTransport(self.simulated))

    def do(self, *commands: str) -> None:
        for command in commands:
            perform(self.world, command)

    def close(self) -> None:
        self.client.close()
        self.world.close()
        self.simulated.close()
        assert self.simulated.bugs == 0


def steps_of(steps: Steps[object]) -> int:
    """Read a value as the console does, and return in how many steps of the event loop it is read."""
    count = 1
    while True:
        try:
            steps.send(None)
        except StopIteration:
            return count
        count += 1
