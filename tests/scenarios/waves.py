"""Decides which cases run at the same time on one broker.

The names of a case's topics, groups and ids have the case's own prefix, so most cases do not affect each other. Cases that affect
others are recognised by their commands and expected responses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from tests.scenarios.play import cut_up
from tests.scenarios.quota_verbs import ALL
from tests.scenarios.script import Scenario
from tests.scenarios.world import Words

AT_ONCE = 8
"""Number of cases at once.

A busy machine with two cores can answer this many within the few hundred milliseconds that some cases allow.
"""
_CHANGES_ALL = {"broker_config", "feature"}
_ASKED_OF_ALL = {"AlterConfigs", "IncrementalAlterConfigs"}
"""APIs that can change configs and log levels of the broker."""
_NAMELESS = '"groups_names":[""'
"""Text in a DeleteGroups request that deletes the group with an empty name. All cases share this group, so the case runs alone."""
_CHANGES_A_TOPIC = {"hold", "release", "config"}
_RESTARTS = ("restart", "kill")
_VERIFIED = {"produce", "offsets", "deliver", "identities", "ask"}
"""Commands that send batches and offsets, whose partitions a broker verifies."""
_UNVERIFIED = ("INVALID_TXN_STATE", "TRANSACTION_ABORTABLE")

Key = TypeVar("Key")


@dataclass(slots=True, frozen=True)
class Company:
    """Decides with which other cases a case may run at the same time.

    Such cases wait for the same ``restart``, which is "restart", "kill" or "". While a ``single`` case runs, no other case runs,
    except that others may wait for a restart. A case that is ``alone`` shares the broker with no other case from its first to its
    last command.
    """

    restart: str = ""
    single: bool = False
    alone: bool = False


def company(scenario: Scenario, case: dict[str, str]) -> Company:
    """Return with which cases this case may share a broker, judging by its commands and its expected responses."""
    commands = [cut_up(step.command, case) for step in scenario.steps]
    restart = next((words.verb for words in commands if words.verb in _RESTARTS), "")
    if any(_changes_others(words) for words in commands) or (restart and _is_timed_before(commands, restart)):
        return Company(restart=restart, alone=True)
    return Company(restart=restart, single=_holds(commands) or _is_refused_by_verification(scenario, commands))


def _holds(commands: list[Words]) -> bool:
    """Whether a case makes a partition refuse markers.

    Apache Kafka sends the markers of several transactions in one request. If one marker was refused, it ignores the rest of the
    response, and a transaction of another case would stay prepared.
    """
    return any(words.verb == "hold" for words in commands)


def _is_refused_by_verification(scenario: Scenario, commands: list[Words]) -> bool:
    """Whether verification may refuse a batch or an offset, because its partition is not in the transaction.

    Apache Kafka verifies several producers in one request (``AddPartitionsToTxnManager``), and gives all of them an error code that
    the version of the first producer supports. At transaction.version 0 the whole request is refused.
    """
    answers = [(words.verb, step.expected or "") for words, step in zip(commands, scenario.steps, strict=True)]
    refused = any(verb in _VERIFIED and any(code in answer for code in _UNVERIFIED) for verb, answer in answers)
    return refused or scenario.broker == "tv0"


def _changes_others(words: Words) -> bool:
    """Whether a command changes something that affects every case: the broker, or a coordinator's log."""
    if words.verb == "quota":
        return bool({"user", "ip"} & words.options.keys()) or words.options.get("client") == ALL
    if words.verb == "ask":
        return words.plain[0] in _ASKED_OF_ALL or _NAMELESS in words.json
    return words.verb in _CHANGES_ALL or (words.verb in _CHANGES_A_TOPIC and words.plain[0].startswith("__"))


def _is_timed_before(commands: list[Words], restart: str) -> bool:
    """Whether a timeout of the case begins before its restart, which is delayed if other cases wait for it."""
    before = commands[: [words.verb for words in commands].index(restart)]
    return any("timeout" in words.options for words in before)


def waves(cases: Iterable[tuple[Key, Scenario, dict[str, str]]]) -> list[list[tuple[Key, Company]]]:
    """Return the keys of the cases, in groups that run one after another.

    Cases that restart the broker come first, while the broker has few topics to open. Cases that run alone come last, because their
    changes to the broker may persist.
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
