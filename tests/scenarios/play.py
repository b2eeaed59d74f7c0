"""Runs the cases of scenarios: sends each command to the broker, and compares each response with the scenario file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ottla.simulation.client import newest
from tests.scenarios import (
    acl_verbs,
    admin_verbs,
    api_verbs,
    batch_verbs,
    config_verbs,
    consumer_verbs,
    forge,
    group_verbs,
    quota_verbs,
    replica_verbs,
    several_verbs,
    share_group_verbs,
    share_verbs,
    streams_verbs,
    verbs,
    views,
)
from tests.scenarios.brokers import Target
from tests.scenarios.script import Scenario, Step, choose, steps_of
from tests.scenarios.world import Ask, Words, World
from tests.support import oracle

_LOADED = (
    verbs,
    views,
    group_verbs,
    consumer_verbs,
    streams_verbs,
    share_verbs,
    share_group_verbs,
    config_verbs,
    forge,
    api_verbs,
    batch_verbs,
    quota_verbs,
    acl_verbs,
)
_LOADED_OF_SEVERAL_BROKERS = (several_verbs, replica_verbs, admin_verbs)
MODES = {"once", "cut", "twice"}
_NAMED = re.compile(r"^(\w+) = (.+)$")


class NotOffered(Exception):
    """A broker does not support a request of the case, because it is an older release of Apache Kafka."""


class Differs(AssertionError):
    """A response differs from the scenario file."""


@dataclass(slots=True)
class Played:
    step: Step
    answer: str


def cut_up(command: str, case: dict[str, str]) -> Words:
    for name, value in case.items():
        command = command.replace(f"${name}", value)
    named = _NAMED.match(command)
    name, rest = (named[1], named[2]) if named else ("", command)
    rest, brace, content = rest.partition(" {")
    verb, *words = rest.split()
    if verb in MODES:
        verb, *words = [*words, verb]
    plain = [w for w in words if "=" not in w or w.startswith("=")]
    options = dict(w.split("=", 1) for w in words if "=" in w and not w.startswith("="))
    return Words(name, verb, plain, options, brace.strip() + content, options.pop("by", ""))


def play(scenario: Scenario, case: dict[str, str], broker: Target, target: str, prefix: str) -> list[Played]:
    """Run a case and return every response, without comparing any. Raises `NotOffered`."""
    world = World(broker, target, prefix)
    played: list[Played] = []
    try:
        for step in steps_of(scenario, case, target):
            world.not_offered = ""
            played.append(Played(step, _perform(world, step, case, target)))
            if world.not_offered and "closed" not in (step.expected or ""):
                raise NotOffered(world.not_offered)
        return played
    finally:
        world.close()


def _perform(world: World, step: Step, case: dict[str, str], target: str) -> str:
    words = cut_up(step.command, case)
    where = words.options.pop("on", None)
    if where is None:
        return _carry_out(world, words, step, case, target)
    # The response of the broker named by ``on`` is final, even if it refers to another broker.
    words.plain.append("once")
    with several_verbs.target(world).on(several_verbs.node(world, where)):
        return _carry_out(world, words, step, case, target)


def _carry_out(world: World, words: Words, step: Step, case: dict[str, str], target: str) -> str:
    if words.verb == "later":
        # The request is built now, from the actor's current state, and sent later by ``deliver``.
        inner = _inner(words)
        made = verbs.VERBS[inner.verb](world, inner)
        assert isinstance(made, Ask)
        world.later[words.name] = made
        return ""
    if words.verb == "deliver":
        return world.ask(world.later.pop(words.plain[0]), set(words.plain) & MODES)
    if words.verb == "send":
        # The request is sent on its own connection, and ``answer`` reads the response.
        inner = _inner(words)
        made = verbs.VERBS[inner.verb](world, inner)
        assert isinstance(made, Ask)
        client = world.connect()
        version = newest(made.request) if made.version is None else made.version
        world.parked[words.name] = (client, made, client.send(made.request, version))
        return ""
    if words.verb == "answer":
        client, made, sent = world.parked.pop(words.plain[0])
        answer = made.show(client.receive(sent))
        client.close()
        return answer
    if words.verb == "eventually":
        return _eventually(world, _inner(words, words.name), step, case, target)
    if words.verb == "repeat":
        times, inner = int(words.plain.pop(0)), _inner(words, words.name)
        return " ".join(dict.fromkeys(_run(world, inner) for _ in range(times)))
    if words.verb == "after":
        # ``after 2 one | two | three`` runs only the first two commands.
        wanted = [text.strip() for text in step.command.split(" ", 2)[2].split("|")][: int(words.plain[0])]
        return " ".join(_run(world, cut_up(text, case)) for text in wanted)
    return _run(world, words)


def perform(world: World, command: str) -> str:
    """Run one command without modifiers, and return its response."""
    return _run(world, cut_up(command, {}))


def _inner(words: Words, name: str = "") -> Words:
    return Words(name, words.plain[0], words.plain[1:], words.options, words.json, words.user)


def _run(world: World, words: Words) -> str:
    ask_or_answer = verbs.VERBS[words.verb](world, words)
    if isinstance(ask_or_answer, Ask):
        ask_or_answer.user = words.user
        return world.ask(ask_or_answer, set(words.plain) & MODES)
    return ask_or_answer


def _eventually(world: World, words: Words, step: Step, case: dict[str, str], target: str) -> str:
    wanted = None if step.expected is None else choose(step.expected, case, target)
    return oracle.final_value(lambda: _run(world, words), lambda answer: answer == wanted, clock=world.broker)


def compare(scenario: Scenario, case: dict[str, str], target: str, played: list[Played]) -> None:
    """Raise `Differs` with the whole transcript if a response is wrong. Wrong lines are marked with ``!``."""
    lines, wrong = [], 0
    for one in played:
        expected = None if one.step.expected is None else choose(one.step.expected, case, target)
        if one.step.expected is None:
            fine = one.answer == "" or one.answer.startswith("NONE")
        else:
            fine = expected in (one.answer, "*")
        lines.append(f"{'  ' if fine else '! '}{one.step.command:<46} -> {one.answer}")
        if not fine:
            wrong += 1
            lines.append(f"  {'':<46}    {expected if one.step.expected is not None else 'success'} was expected")
    if wrong:
        raise Differs(f"{' '.join(scenario.entries) or scenario.name} {scenario.title}\n" + "\n".join(lines))
