"""The list of all texts that users see: log events, errors and command output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.messages import LEVELS, Message, messages, python_files

PRIVATE_WORDS = re.compile(r"\b(nobody|somebody|whoever|any more|(?<!there )is no [a-z]|is none of|is wanted|anew|lies in)\b")
"""Words that the glossary in CONTRIBUTING.md replaces, and that have no other meaning in messages."""


@pytest.fixture(scope="module")
def listed() -> list[Message]:
    return messages(python_files(["ottla"]))


def test_list_of_messages_has_known_errors_and_log_events(listed: list[Message]) -> None:
    texts = {(one.kind, one.text) for one in listed}
    assert ("log info", "connection_closed") in texts
    assert ("UsageError", "{given[0]} must not be empty") in texts
    assert ("UnknownTopic", "unknown topic {topic!r} at {self.bootstrap}") in texts


def test_log_events_are_snake_case(listed: list[Message]) -> None:
    events = {one.text.split(" ")[0] for one in listed if one.kind.startswith("log ") and "spark" not in one.file}
    assert len(events) > 50
    assert {event for event in events if not re.fullmatch(r"[a-z]+(_[a-z]+)+|\{\w+\}", event)} == set()
    assert {one.kind.removeprefix("log ") for one in listed if one.kind.startswith("log ")} <= LEVELS


def test_error_texts_use_the_words_of_the_glossary(listed: list[Message]) -> None:
    assert [str(one) for one in listed if PRIVATE_WORDS.search(one.text)] == []


def test_message_list_shows_interpolated_values_in_braces(tmp_path: Path) -> None:
    source = tmp_path / "shown.py"
    source.write_text(
        "class Broken(ValueError): ...\n"
        "log.error('disk_failed', reason=f'{path}: full', path=path)\n"
        "raise Broken(f'{name!r} is ' + ('old' if a else 'new'))\n"
        "raise Broken(error)\n"
        "note('done')\n"
    )
    found = messages([source], root=tmp_path)
    assert [str(one) for one in found] == [
        "shown.py:2  log error  disk_failed reason={path}: full",
        "shown.py:3  Broken  {name!r} is old | new",
        "shown.py:5  output  done",
    ]
