"""Faults in the notations that users write: JSON, YAML and Python. Each invalid fault gets a one-line error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ottla.broker.hooks.interception import Point
from ottla.control.faults.parsing import MAX_TEXT_BYTES
from ottla.control.faults.registry import Fault, FaultError, parse_faults

MAX_LINE = 400
"""Maximum length of an error message, which never repeats a long value completely."""

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"api": "EndTx", "drop_answer": True}, "unknown API 'EndTx'; did you mean EndTxn"),
    ({"api": "EndTx"}, "unknown API 'EndTx'; did you mean EndTxn"),
    ({"api": "EndTx", "error": 7, "cut": "before"}, "unknown API 'EndTx'; did you mean EndTxn"),
    ({"api": "EndTx", "kill": "before-complete"}, "unknown API 'EndTx'; did you mean EndTxn"),
    ({"api": 999, "drop_answer": True}, "unknown API key 999; give a key from 0 to"),
    ({"api": "Produce", "error": "NOT_LEADER"}, "unknown error 'NOT_LEADER'; did you mean NOT_LEADER_OR_FOLLOWER"),
    ({"api": "Produce", "error": 12345}, "unknown error 12345"),
    ({"api": "Produce", "error": "NONE"}, "NONE is not an error; use observe: true to only count requests"),
    ({"api": "Produce", "error": 7, "probability": 1.5}, "probability 1.5 is not between 0 and 1"),
    ({"api": "Produce", "error": 7, "probability": -0.1}, "probability -0.1 is not between 0 and 1"),
    ({"api": "Produce"}, "the fault does nothing; give error, answer, cut,"),
    ({"error": 7, "cut": "before"}, "error and cut contradict each other; give one of them"),
    (
        {"drop_answer": True, "delay_answer_ms": 5},
        "with drop_answer no response is sent, so delay_answer_ms and throttle_ms have no effect",
    ),
    ({"api": "SaslHandshake", "fail_handshake": True}, "a TLS handshake precedes all requests: leave api out; listener selects"),
    ({"fail_handshake": True, "client_id": "app", "delay_ms": 5}, "leave client_id or delay_ms out"),
    ({"fail_handshake": True, "cut": "before"}, "cut and fail_handshake contradict each other"),
    ({"api": "Produce", "listener": "SSL", "cut": "before"}, "listener selects TLS handshakes; give fail_handshake, or leave"),
    ({"api": "Produce", "cut": "between"}, "cut: 'between' is not one of before, after"),
    ({"hold": "prepare"}, "hold: 'prepare' is not one of before, after, before-prepare,"),
    ({"api": "Produce", "error": 7, "times": 0}, "times 0 must be at least 1; give null for no limit"),
    ({"api": "Produce", "error": 7, "nth": 0}, "nth 0 must be at least 1"),
    ({"api": "Produce", "delay_ms": -1}, "delay_ms -1 must be between 0 and 3,600,000"),
    ({"api": "Produce", "delay_ms": "1e3"}, "delay_ms: Expected float, got str: '1e3'"),
    ({"api": "9" * 5_000, "drop_answer": True}, "unknown API '9999"),
    ({"api": "²", "drop_answer": True}, "unknown API '²'"),
    ({"api": "Produce", "error": "9" * 5_000}, "unknown error '9999"),
    ({"api": "Produce", "error": "²"}, "unknown error '²'"),
    ({"api": "EndTxn", "version": "²", "drop_answer": True}, "'²' is not a version"),
    ({"api": "EndTxn", "version": "9" * 5_000, "drop_answer": True}, "'9999"),
    ({"api": "EndTxn", "version": "1-" + "9" * 5_000, "drop_answer": True}, "'1-9999"),
    ({"api": "EndTxn", "version": 9, "drop_answer": True}, "EndTxn has the versions 0 to 5, not 9"),
    ({"api": "EndTxn", "version": "new", "drop_answer": True}, "'new' is not a version; give one such as 3"),
    ({"api": "EndTxn", "version": "5-3", "drop_answer": True}, "'5-3' is not a version"),
    ({"api": "EndTxn", "topic": "t", "drop_answer": True}, "EndTxn names no topic, so the fault would never be triggered"),
    ({"api": "Metadata", "group": "g", "cut": "before"}, "Metadata names no group"),
    ({"api": "Fetch", "transactional_id": "x", "cut": "before"}, "Fetch names no transactional_id"),
    ({"api": "EndTxn", "partition": 1, "cut": "before"}, "EndTxn names no partition"),
    ({"api": "ShareFetch", "topic": "t", "error": 3}, "a response to ShareFetch has no field for the error of one topic"),
    (
        {"api": "EndTxn", "fields": {"commited": True}, "drop_answer": True},
        "unknown field of EndTxn 'commited'; did you mean committed?",
    ),
    ({"fields": {"committed": True}, "drop_answer": True}, "fields needs one api, such as api: EndTxn"),
    ({"answer": {}}, "answer needs one api"),
    ({"api": "EndTxn", "answer": {"eror_code": 3}}, "unknown field of a response to EndTxn 'eror_code'; did you mean error_code"),
    ({"api": "EndTxn", "answer": {"error_code": "x"}}, "unknown error 'x'"),
    ({"api": "EndTxn", "answer": {"producer_id": "x"}}, "producer_id of a response to EndTxn must be a number, not 'x'"),
    ({"api": "EndTxn", "answer": {"error_code": 99_999}}, "a response to EndTxn cannot be encoded in version 0:"),
    ({"api": "Produce", "answer": {"responses": {}}}, "responses of a response to Produce must be a list, not {}"),
    ({"api": "Produce", "answer": {"responses": [1]}}, "responses of a response to Produce must be a mapping of fields, not 1"),
    ({"api": "Metadata", "answer": {"topics": [{"topic_id": "?"}]}}, "must be base64, not '?'"),
    ({"api": "Metadata", "answer": {"topics": [{"is_internal": 1}]}}, "must be true or false, not 1"),
    ({"freeze": True, "times": 2}, "freeze lasts until the fault is removed: leave times"),
    ({"api": "EndTxn", "kill": "after-prepare"}, "after-prepare is a step of a transaction, not a request: leave api out"),
    ({"client_id": "c", "hold": "before-complete"}, "leave client_id out; transactional_id selects the transaction"),
    ({"topic": "t", "kill": "before-complete"}, "no marker is written at before-complete: leave topic and partition out"),
    ({"refuse": "after-prepare"}, "nothing can be refused after-prepare, because the transaction is decided"),
    (
        {"refuse": "between-markers", "error": "INVALID_REQUEST"},
        "a marker that is refused with INVALID_REQUEST is not sent again; give",
    ),
    ({"kill": "before-complete", "after_markers": 2}, "after_markers applies only to hold, kill or refuse at between-markers"),
    ({"api": "EndTxn", "drop_anwser": True}, "unknown field 'drop_anwser'; did you mean drop_answer"),
]


@pytest.mark.parametrize(("given", "says"), WRONG)
def test_invalid_fault_is_reported_in_one_line(given: dict[str, Any], says: str) -> None:
    texts = []
    for build in (lambda: parse_faults(msgspec.json.encode(given)), lambda: parse_faults(msgspec.yaml.encode(given))):
        with pytest.raises(FaultError) as raised:
            build()
        texts.append(str(raised.value))
    if not set(given) - set(Fault.__struct_fields__):
        with pytest.raises(FaultError) as raised:
            Fault(**given)
        texts.append(str(raised.value))
    assert len(set(texts)) == 1
    assert says in texts[0]
    assert "\n" not in texts[0]
    assert len(texts[0]) < MAX_LINE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a fault must be a mapping such as {api: EndTxn, drop_answer: true}, not nothing"),
        ("17", "not 17"),
        ("[1]", "fault 1: a fault must be a mapping"),
        ("- {api: EndTxn, drop_answer: true}\n- {api: EndTx, drop_answer: true}", "fault 2: unknown API 'EndTx'"),
        ("{api: [", "neither JSON nor YAML in line 1"),
        (b"\xff\xfe\x00", "neither JSON nor YAML"),
        pytest.param("[" * 60_000, "neither JSON nor YAML", marks=pytest.mark.smoke),
        (" " * (MAX_TEXT_BYTES + 1), "bytes; at most"),
        ("!!python/object/apply:os.getcwd []", "neither JSON nor YAML"),
        # Each of the malformed texts fails in a different function of the YAML library.
        ("api: 2001-13-45", "neither JSON nor YAML: month must be in 1..12"),
        ("api: 2001-01-01 00:00:00 +99:99", "neither JSON nor YAML: offset must be"),
        (f"api: {'9' * 5_000}", "neither JSON nor YAML: Exceeds the limit"),
        (f"api: {'1:' * 400}1.0", "neither JSON nor YAML: int too large"),
        ("api: !!bool maybe", "neither JSON nor YAML"),
        ('api: !!int ""', "neither JSON nor YAML"),
        ("api: !!timestamp soon", "neither JSON nor YAML"),
        # Valid JSON or YAML with values that no fault can have.
        (f'{{"api": {"9" * 5_000}}}', "a number is too large; the numbers of a fault are at most"),
        ('{"delay_ms": 1e400}', "a number is too large; the numbers of a fault are at most"),
        ('{"api": "Fetch", "delay_ms": 5, "nth": 1' + "0" * 30 + "}", "a number is too large; the numbers of a fault are at most"),
        (f"api: 0x{'f' * 5_000}", "a number is too large; the numbers of a fault are at most"),
        ("api: 2001-12-13", "datetime.date(2001, 12, 13) is neither text nor a number; put it in quotes"),
        ("{api: Fetch, delay_ms: 5, fields: {rack_id: !!binary aGk=}}", "b'hi' is neither text nor a number; put it in quotes"),
        ('{api: Fetch, delay_ms: 5, client_id: "\\ud800"}', "'\\ud800' is not valid text: half of a surrogate pair is missing"),
        ("{api: Fetch, delay_ms: 5, fields: {rack_id: &a [*a]}}", "a value is nested too deeply"),
        ('{"api": "Fetch", "delay_ms": 5, "fields": {"rack_id": ' + "[" * 500 + "]" * 500 + "}}", "a value is nested too deeply"),
        pytest.param("\n".join([f"a: &a [{'1,' * 9_000}]", f"b: [{'*a,' * 9}]"]), "too many values", marks=pytest.mark.smoke),
    ],
)
def test_fault_text_without_a_fault_is_refused(text: str | bytes, says: str) -> None:
    with pytest.raises(FaultError) as raised:
        parse_faults(text)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < MAX_LINE
    assert "sys." not in str(raised.value)


def test_integers_of_five_thousand_digits_in_faults_are_refused() -> None:
    for fields in ({"api": 10**5_000, "drop_answer": True}, {"error": 10**5_000}, {"delay_ms": 10**5_000}, {"times": -(10**5_000)}):
        with pytest.raises(FaultError):
            Fault(**fields)


def test_one_or_several_faults_are_parsed_from_json_and_yaml() -> None:
    one = Fault(api="EndTxn", transactional_id="checkout-*", drop_answer=True, times=1)
    other = Fault(kill="between-markers", after_markers=2, times=None)
    assert parse_faults('{"api": "EndTxn", "transactional_id": "checkout-*", "drop_answer": true, "times": 1}') == [one]
    assert parse_faults("api: EndTxn\ntransactional_id: checkout-*\ndrop_answer: true\ntimes: 1\n") == [one]
    assert parse_faults(msgspec.json.encode([one, other])) == [one, other]
    assert parse_faults("- kill: between-markers\n  after_markers: 2\n  times: null\n") == [other]
    assert parse_faults("[]") == []


def test_unset_fields_of_a_fault_are_not_shown() -> None:
    assert msgspec.to_builtins(Fault(api="EndTxn", drop_answer=True)) == {"api": "EndTxn", "drop_answer": True}


def test_api_of_a_fault_is_given_by_name_or_key() -> None:
    from ottla.control.faults.api_names import api_key

    assert [api_key(name) for name in ("EndTxn", "endtxn", "end_txn", 26, "26", "*")] == [26] * 5 + [None]


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({"error": 7}, 1),
        ({"error": 7, "times": 3}, 3),
        ({"error": 7, "times": None}, None),
        ({"error": 7, "probability": 0.5}, None),
        ({"error": 7, "probability": 0.5, "times": 1}, 1),
        ({"freeze": True}, None),
        ({"hold": "before"}, None),
        ({"throttle_ms": 5}, None),
        ({"bytes_per_second": 5}, None),
        ({"delay_ms": 5}, 1),
        ({"kill": "before-prepare"}, 1),
        ({"observe": True}, None),
    ],
)
def test_default_number_of_hits_depends_on_the_fault_action(given: dict[str, Any], limit: int | None) -> None:
    assert Fault(**given).limit == limit


@pytest.mark.smoke
def test_faults_accept_every_kafka_error_by_name_and_number() -> None:
    """The list of accepted errors is compared with kafka-python's independent list."""
    from kafka import errors

    from ottla.control.faults.api_names import ERRORS

    theirs = {kind.errno for kind in vars(errors).values() if isinstance(kind, type) and getattr(kind, "errno", None) is not None}
    assert theirs - {0} <= set(ERRORS.values())
    assert len(set(ERRORS.values())) == len(ERRORS)


PAGE = (Path(__file__).parents[3] / "docs/faults.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_faults_in_the_documentation_are_valid() -> None:
    assert [len(parse_faults(text)) for text in (*blocks("json"), *blocks("yaml"))] == [1, 3]
    assert "did you mean EndTxn" in PAGE


def test_documentation_of_faults_covers_every_field_and_transaction_point() -> None:
    described = set(re.findall(r"`([a-z_-]+)`", "".join(line for line in PAGE.splitlines() if line.startswith("|"))))
    assert set(Fault.__struct_fields__) | {point.value for point in Point} <= described
