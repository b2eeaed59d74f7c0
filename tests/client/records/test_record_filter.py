"""``consume --filter``: conditions on records."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.arguments import BadArgument
from ottla.client import ConsumedRecord
from ottla.client.records.record_filter import condition, contains, has_header
from tests.support.consumed import consumed

VALUE = b'{"status": "paid", "amount": 12.5, "items": [{"sku": "a"}, {"sku": "b"}], "ok": true, "none": null, "id": 7}'


def record(value: bytes | None = VALUE, key: bytes | None = b"order-7", control: str | None = None) -> ConsumedRecord:
    headers = [("trace", b"old"), ("trace", b"abc"), ("x-a.b", None)]
    return consumed(key=key, value=value, headers=headers, producer_id=9, producer_epoch=0, control=control)


@pytest.mark.parametrize(
    "text",
    [
        "key=order-7",
        "key!=order-8",
        "key~^order-[0-9]$",
        "value~paid",
        "value!~refunded",
        "value.status=paid",
        "value.status = paid",
        "value.amount > 12",
        "value.status!=open",
        "value.amount>12",
        "value.amount<=12.5",
        "value.amount=12.50",
        "value.id=7",
        "value.items[0].sku=a",
        "value.items[-1].sku=b",
        'value.items[1]={"sku":"b"}',
        "value.ok=true",
        "value.none=null",
        "value.none",
        "!value.other",
        "value.other!=1",
        "header.trace=abc",
        "header.x-a.b",
        "header.x-a.b=",
        "!header.y",
        "partition=2",
        "offset>=41",
        "producer=9",
        "time>2023-11-14T22:00Z",
        "time<1700000000001",
    ],
)
def test_record_filter_selects_matching_records(text: str) -> None:
    assert condition(text)(record())


def test_double_equals_sign_in_a_filter_is_refused() -> None:
    with pytest.raises(BadArgument, match=r"has ==; give value\.status=paid, or value\.status~"):
        condition("value.status == paid")
    with pytest.raises(BadArgument, match=r"has ==; give value\$\.status=paid, or value\$\.status~"):
        condition("value$.status == paid")
    assert condition("value$.status = paid")(record())


@pytest.mark.parametrize("text", ["key=x", "key= x", "key =x", "key = x ", " key = x", "key\t=\tx"])
def test_blanks_around_an_operator_of_a_record_filter_are_ignored(text: str) -> None:
    assert condition(text)(record(key=b"x"))
    assert not condition(text)(record(key=b" x"))


@pytest.mark.parametrize(
    "text",
    [
        "key=order",
        "key!~order",
        "!value",
        "!key",
        "value.status=open",
        "value.status>1",
        "value.items[2].sku=a",
        "value.items.sku=a",
        "value.ok=1",
        "value.ok>0",
        "value.other",
        "value.other=1",
        "header.trace=old",
        "header.y",
        "offset!=41",
        "time>2024-01-01",
    ],
)
def test_record_filter_rejects_records_that_do_not_match(text: str) -> None:
    assert not condition(text)(record())


def test_record_filter_on_values_matches_no_tombstone() -> None:
    assert condition("!value")(record(value=None))
    assert not condition("value=")(record(value=None))
    assert condition("value=")(record(value=b""))


def test_record_filter_finds_no_json_members_in_values_that_are_not_json() -> None:
    for value in (b"\xff", b"[" * 100_000, b"{", b"7", None):
        assert condition("!value.a")(record(value=value))
        assert not condition("value.a=1")(record(value=value))


def test_record_filter_on_keys_or_values_matches_no_transaction_marker() -> None:
    assert condition("!key")(record(control="COMMIT"))
    assert condition("offset=41")(record(control="COMMIT"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "'' is not a condition"),
        ("=a", "'=a' is not a condition"),
        ("values=a", "unknown field 'values'; the fields are key, value, header.NAME, any, partition, offset, time, producer"),
        ("!key=a", "'!key=a' has both ! and =; give key!=a, or !key"),
        ("header=a", "'header=a' names no header; give header.NAME"),
        ("value..a=1", "'value..a=1' has no valid path"),
        ("value[x]=1", "'value[x]=1' has no valid path"),
        ("offset.a=1", "field 'offset' has no members"),
        ("offset", "'offset' holds for every record; give a comparison such as offset>=100"),
        ("offset~1", "field 'offset' is a number; compare it with"),
        ("offset=x", "'x' is not a number, which field 'offset' is"),
        ("value.a>x", "'x' is not a number; > compares numbers"),
        ("key~(", "'(' is not a regular expression of RE2: missing ): (; RE2 has no lookaround such as (?=x), no backreferences"),
        ("key~(?=a)b", "'(?=a)b' is not a regular expression of RE2: invalid perl operator: (?=; RE2 has no lookaround"),
        (r"key~(a)\1", r"'(a)\\1' is not a regular expression of RE2: invalid escape sequence: \1; RE2 has"),
        ("time>yesterday", "'yesterday' is not a time; give one such as 2026-11-23T17:00Z, or ms since 1970"),
        ("time=yesterday", "'yesterday' is not a time; give one such as"),
    ],
)
def test_invalid_record_filters_are_refused(text: str, error: str) -> None:
    with pytest.raises(BadArgument) as raised:
        condition(text)
    assert str(raised.value).startswith(error)


@given(st.text(max_size=40), st.binary(max_size=40))
def test_any_text_is_a_valid_record_filter_or_refused(text: str, value: bytes) -> None:
    try:
        holds = condition(text)
    except BadArgument:
        return
    holds(record(value=value))


def test_record_filter_matches_a_hostile_value_in_linear_time() -> None:
    """Python's own `re` takes exponential time for the tested expression and value."""
    started_s = time.monotonic()
    assert not condition("value~(a+)+$")(record(value=b"a" * 100_000 + b"!"))
    assert time.monotonic() - started_s < 5


def test_regular_expressions_of_record_filters_match_bytes_that_are_not_utf_8() -> None:
    assert condition("value~paid.b")(record(value=b"\xff\xfepaid\xffb"))
    assert condition("value~gr\u00fcn")(record(value=b"\xff" + "gr\u00fcn".encode()))


def test_regular_expressions_of_record_filters_are_refused_without_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(BadArgument, match="regular expressions need google-re2: pip install google-re2"):
        condition("value~a")


def test_record_filter_field_any_matches_key_value_or_header() -> None:
    for text in ("any=order-7", "any~paid", "any=abc", "any~^x-a", "any!=nothing"):
        assert condition(text)(record()), text
    assert not condition("any=nothing")(record())
    assert not condition("any~.*")(record(control="COMMIT"))
    with pytest.raises(BadArgument, match="holds for every record; give a comparison such as any~ERROR"):
        condition("any")


def test_record_filter_contains_ignores_ascii_case() -> None:
    assert contains("key", "ORDER")(record())
    assert contains("any", "TRACE")(record())
    assert contains("header.trace", "B")(record())
    assert not contains("header.trace", "old")(record())
    assert not contains("value", "absent")(record())
    assert not contains("value", "")(record(value=None))
    assert has_header("x-a.b")(record()) and not has_header("y")(record())
