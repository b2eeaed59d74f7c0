"""Cases that do not affect each other run at the same time on one broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.simulation.broker import SimulatedBroker
from tests.scenarios.ahead import Ahead, Part
from tests.scenarios.brokers import Brokers, Client, Target
from tests.scenarios.script import Scenario, load
from tests.scenarios.waves import Company, company, waves

HEAD = "IDM-01 something   [how=restart,kill,commit]\n"


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[..., Scenario]:
    def write(*commands: str) -> Scenario:
        file = tmp_path / "some.txt"
        file.write_text(HEAD + "".join(f"  {command}\n" for command in commands))
        return load(file)[0]

    return write


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        (("topic t", "A = init x timeout=300"), Company()),
        (("config t retention.ms=1", "create_partitions t count=3"), Company()),
        (("restart",), Company(restart="restart")),
        (("kill", "A = init x timeout=300"), Company(restart="kill")),
        (("A = init x timeout=300", "kill"), Company(restart="kill", alone=True)),
        (("hold t", "restart"), Company(restart="restart", single=True)),
        (("hold __transaction_state",), Company(alone=True)),
        (("config __consumer_offsets segment.ms=20", "kill"), Company(restart="kill", alone=True)),
        (("broker_config log.cleaner.threads=2",), Company(alone=True)),
        (("feature transaction.version=1 kind=2",), Company(alone=True)),
        (("broker: tv0", "produce A t"), Company(single=True)),
        (("A = produce A t -> v=11: TRANSACTION_ABORTABLE ; INVALID_TXN_STATE",), Company(single=True)),
        (("identities t pid=A -> e0: INVALID_TXN_STATE",), Company(single=True)),
        (("commit A -> INVALID_TXN_STATE",), Company()),
        (('ask AlterConfigs {"resources":[]}',), Company(alone=True)),
        (('ask DeleteGroups {"groups_names":["",""]}',), Company(alone=True)),
        (('ask DeleteGroups {"groups_names":["~g"]}',), Company()),
    ],
)
def test_scenarios_may_run_together_depending_on_their_commands(
    scenario: Callable[..., Scenario], commands: tuple[str, ...], expected: Company
) -> None:
    assert company(scenario(*commands), {}) == expected


@pytest.mark.parametrize(("how", "expected"), [("restart", "restart"), ("kill", "kill"), ("commit", "")])
def test_restart_command_of_a_scenario_may_come_from_a_case_parameter(
    scenario: Callable[..., Scenario], how: str, expected: str
) -> None:
    assert company(scenario("$how A"), {"how": how}).restart == expected


def test_restarting_scenarios_run_first_and_exclusive_scenarios_last(scenario: Callable[..., Scenario]) -> None:
    cases = {
        "holds": ("hold t", "restart"),
        "free": ("topic t",),
        "lowers": ("feature transaction.version=1 kind=2",),
        "lowers too": ("feature transaction.version=1 kind=2",),
        "stops": ("restart",),
        "free too": ("topic t",),
        "kills": ("kill",),
    }
    groups = waves((name, scenario(*commands), {}) for name, commands in cases.items())
    assert [[name for name, _ in group] for group in groups] == [
        ["stops", "holds"],
        ["kills"],
        ["free", "free too"],
        ["lowers"],
        ["lowers too"],
    ]


class Noting:
    """A simulated broker that counts its connections and restarts. Only one case at a time may use it."""

    def __init__(self) -> None:
        self.simulated = SimulatedBroker().start()
        self.connections = 0
        self.restarts = 0
        self.is_closed = False

    def connect(self, client_id: str = "scenario") -> Client:
        self.connections += 1
        return self.simulated.connect(client_id)

    def connect_as(self, user: str, client_id: str = "scenario") -> Client:
        return self.simulated.connect_as(user, client_id)

    def restart(self, *, kill: bool = False) -> None:
        self.restarts += 1
        self.simulated.restart(kill=kill)

    def close(self) -> None:
        self.simulated.close()
        self.is_closed = True

    def sleep(self, ms: float) -> None:
        self.simulated.sleep(ms)

    def now_ms(self) -> int:
        return self.simulated.now_ms()


def test_first_requested_scenario_case_runs_all_cases_of_its_broker(scenario: Callable[..., Scenario]) -> None:
    started: list[Noting] = []

    def start(target: str, name: str) -> Target:
        assert (target, name) == ("ottla", "default")
        started.append(Noting())
        return started[-1]

    # The scenario has the command ``hold``, so its cases run one at a time, as the event loop of a simulated broker requires.
    one = scenario("topic t", "hold t", "release t", "A = init x", "restart", "describe x", "read t")
    elsewhere = scenario("broker: short", "kill")
    parts = {name: Part("ottla", one, {}) for name in ("a", "b", "c")} | {"d": Part("ottla", elsewhere, {})}
    ahead = Ahead(parts, Brokers(start))
    answers = {name: [played.answer for played in ahead.answers(name)] for name in ("b", "a", "c")}
    assert answers == {name: ["", "", "", "NONE p1 e0", "", "Empty p1 e0", "nothing"] for name in "abc"}
    # Each case opens one connection before the restart and another after it.
    assert [(broker.restarts, broker.connections, broker.is_closed) for broker in started] == [(1, 6, True)]
    # A repeated request for a result, as in a rerun of a test, runs only that case again.
    ahead.answers("a")
    assert [(broker.restarts, broker.connections, broker.is_closed) for broker in started[1:]] == [(1, 2, True)]


def test_simulated_scenario_case_runs_only_when_requested(scenario: Callable[..., Scenario]) -> None:
    broker = Noting()
    parts = {name: Part("simulated", scenario("restart"), {}) for name in ("a", "b")}
    ahead = Ahead(parts, Brokers(lambda target, name: broker))
    ahead.answers("a")
    ahead.answers("b")
    assert broker.restarts == 2
    broker.close()
