"""Runs all cases of a broker, several at once, when a test first requests the result of one of them."""

from __future__ import annotations

import uuid
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from tests.scenarios.brokers import Brokers, Client, Target
from tests.scenarios.play import Played, play
from tests.scenarios.script import Scenario
from tests.scenarios.together import Play, Together
from tests.scenarios.waves import AT_ONCE, waves


@dataclass(slots=True, frozen=True)
class Part:
    """One case of a scenario on one target."""

    target: str
    scenario: Scenario
    case: dict[str, str]

    @property
    def broker(self) -> tuple[str, str]:
        """The names of the target and of the set-up. Cases with the same names run on the same broker."""
        return self.target, self.scenario.broker


def perform(part: Part, broker: Target) -> list[Played]:
    prefix = f"{part.scenario.name.lower().replace(' ', '-')}-{uuid.uuid4().hex[:6]}-"
    return play(part.scenario, part.case, broker, part.target, prefix)


@dataclass(slots=True)
class _InCompany:
    """A broker that several cases share. A restart begins when every case has either requested it or ended."""

    broker: Target
    together: Together[list[Played]]

    def connect(self, client_id: str = "scenario") -> Client:
        return self.broker.connect(client_id)

    def connect_as(self, user: str, client_id: str = "scenario") -> Client:
        return self.broker.connect_as(user, client_id)

    def restart(self, *, kill: bool = False) -> None:
        self.together.restart(kill=kill)

    def close(self) -> None:
        raise AssertionError("the fixture that started the broker closes it")

    def sleep(self, ms: float) -> None:
        self.broker.sleep(ms)

    def now_ms(self) -> int:
        return self.broker.now_ms()


@dataclass(slots=True)
class Ahead:
    """The results of all cases in this session, by the node ids of the tests.

    ``parts`` are the cases whose results tests will request. A broker is closed when the results of all its cases have been
    requested. If a result is requested again, as in a rerun, the case runs again on a new broker.
    """

    parts: dict[str, Part]
    brokers: Brokers
    _outcomes: dict[str, Future[list[Played]]] = field(default_factory=dict)
    _played: set[str] = field(default_factory=set)

    def answers(self, name: str) -> list[Played]:
        """Return the responses of a case. Raises the exception that the case raised."""
        part = self.parts[name]
        if part.target == "simulated":
            # A simulated case runs in this process, where time passes only while the case waits.
            return perform(part, self.brokers.of(*part.broker))
        if name not in self._outcomes:
            not_yet = [other for other, its in self.parts.items() if its.broker == part.broker and other not in self._played]
            self._play(self.brokers.of(*part.broker), [name] if name in self._played else not_yet)
        outcome = self._outcomes.pop(name)
        if not any(self.parts[other].broker == part.broker for other in self._outcomes):
            self.brokers.close(*part.broker)
        return outcome.result()

    def _play(self, broker: Target, names: list[str]) -> None:
        for group in waves((name, self.parts[name].scenario, self.parts[name].case) for name in names):
            together = Together[list[Played]](lambda kill: broker.restart(kill=kill), AT_ONCE)
            shared = _InCompany(broker, together)
            plays = [Play(partial(perform, self.parts[name], shared), company.single) for name, company in group]
            self._played.update(name for name, _ in group)
            self._outcomes |= dict(zip((name for name, _ in group), together.play(plays), strict=True))
