"""Which cases are played at the same time on one broker.

A case names its topics, groups and ids by a prefix of its own, so most leave each other alone. Those that do not are told by
their commands and answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from tests.scenarios.play import cut_up
from tests.scenarios.script import Scenario
from tests.scenarios.world import Words

AT_ONCE = 8
"""As many as a busy machine with two cores answers within the few hundred milliseconds that some cases reckon with."""
_CHANGES_ALL = {"broker_config", "feature"}
_ASKED_OF_ALL = {"AlterConfigs", "IncrementalAlterConfigs"}
"""APIs that change the broker's configs and log levels, among others."""
_NAMELESS = '"groups_names":[""'
"""Part of a request that deletes the group without a name, which all cases share."""
_CHANGES_A_TOPIC = {"hold", "release", "config"}
_RESTARTS = ("restart", "kill")
_VERIFIED = {"produce", "offsets", "deliver"}
_UNVERIFIED = ("INVALID_TXN_STATE", "TRANSACTION_ABORTABLE")

Key = TypeVar("Key")


@dataclass(slots=True, frozen=True)
class Company:
    """What a case may be played with: others that wait for the same ``restart``, which is ``restart``, ``kill`` or nothing.

    While a ``single`` one asks, none of the others does. Those that are ``alone`` meet nobody from their beginning to their end.
    """

    restart: str = ""
    single: bool = False
    alone: bool = False


def company(scenario: Scenario, case: dict[str, str]) -> Company:
    """Decided by the case's commands and by the answers in its file."""
    commands = [cut_up(step.command, case) for step in scenario.steps]
    restart = next((words.verb for words in commands if words.verb in _RESTARTS), "")
    if any(_changes_others(words) for words in commands) or (restart and _is_timed_before(commands, restart)):
        return Company(restart=restart, alone=True)
    return Company(restart=restart, single=_holds(commands) or _is_refused_by_verification(scenario, commands))


def _holds(commands: list[Words]) -> bool:
    """Whether a partition is to refuse its marker.

    Apache Kafka sends the markers of several transactions in one request, and where one of them was refused it does not look at the
    rest of the answer: somebody else's transaction would stay prepared.
    """
    return any(words.verb == "hold" for words in commands)


def _is_refused_by_verification(scenario: Scenario, commands: list[Words]) -> bool:
    """Whether a batch or an offset may be refused because the transaction does not have its partition.

    Apache Kafka asks its coordinator about several producers in one request (``AddPartitionsToTxnManager``), and tells all of them
    what the version of the first understands. At transaction.version 0 the request is refused as a whole.
    """
    answers = [(words.verb, step.expected or "") for words, step in zip(commands, scenario.steps, strict=True)]
    refused = any(verb in _VERIFIED and any(code in answer for code in _UNVERIFIED) for verb, answer in answers)
    return refused or scenario.broker == "tv0"


def _changes_others(words: Words) -> bool:
    """Whether a command changes something that every case lives by: the broker, or a coordinator's log."""
    if words.verb == "ask":
        return words.plain[0] in _ASKED_OF_ALL or _NAMELESS in words.json
    return words.verb in _CHANGES_ALL or (words.verb in _CHANGES_A_TOPIC and words.plain[0].startswith("__"))


def _is_timed_before(commands: list[Words], restart: str) -> bool:
    """Whether something begins to run out before the restart, which comes later in company."""
    before = commands[: [words.verb for words in commands].index(restart)]
    return any("timeout" in words.options for words in before)


def waves(cases: Iterable[tuple[Key, Scenario, dict[str, str]]]) -> list[list[tuple[Key, Company]]]:
    """The keys of the cases in groups that are played one after another.

    Restarts come first, while the broker has few topics to open. Whoever meets nobody comes last: what it has changed may stay.
    """
    groups: dict[str, list[tuple[Key, Company]]] = defaultdict(list)
    alone = list[list[tuple[Key, Company]]]()
    for key, scenario, case in cases:
        whose = company(scenario, case)
        if whose.alone:
            alone.append([(key, whose)])
        else:
            groups[whose.restart].append((key, whose))
    for group in groups.values():
        group.sort(key=lambda member: member[1].single)
    return [*(groups[restart] for restart in (*_RESTARTS, "") if restart in groups), *alone]
