"""``ottla consume --format`` with kcat's letters and escapes."""

from __future__ import annotations

import pytest

from ottla.arguments import BadArgument
from ottla.cli.record_format import RecordFormat
from ottla.client import ConsumedRecord
from tests.support.consumed import consumed


def record(
    key: bytes | None = b"k", value: bytes | None = b"value", headers: list[tuple[str, bytes | None]] | None = None
) -> ConsumedRecord:
    return consumed(key=key, value=value, headers=headers or [])


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"Topic %t [%p] at offset %o: key %k: %s\n", b"Topic orders [2] at offset 41: key k: value\n"),
        ("%k %v", b"k value"),
        ("%K %S %T", b"1 5 1700000000000"),
        ("%R%s", b"\0\0\0\5value"),
        ("100%%", b"100%"),
        ("%%%%s%%%s", b"%%s%value"),
        (r"\t\r\x41\65\065\\", b"\t\rAA5\\"),
        (r"\x4\q", b"\x04q"),
        (r"\x00", b"\0"),
        ("ä%k", "äk".encode()),
        ("", b""),
    ],
)
def test_record_format_has_the_letters_and_escapes_of_kcat(text: str, printed: bytes) -> None:
    assert RecordFormat(text)(record()) == printed


def test_record_format_prints_null_as_empty_text_with_length_minus_one() -> None:
    assert RecordFormat("[%k][%s] %K %S %R")(record(key=None, value=None)) == b"[][] -1 -1 \xff\xff\xff\xff"


def test_record_format_joins_headers_with_commas() -> None:
    assert RecordFormat("%h")(record(headers=[("a", b"1"), ("b", None), ("c", b"")])) == b"a=1,b=NULL,c="


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("%k %x", "unknown letter %x; the letters are s v S R k K T h t p o and %%"),
        ("%k %", "a letter is missing after the last %"),
        ("%", "a letter is missing after the last %"),
        (r"\999", "the escape \\999 is above 255"),
    ],
)
def test_invalid_record_formats_are_refused(text: str, error: str) -> None:
    with pytest.raises(BadArgument) as raised:
        RecordFormat(text)
    assert str(raised.value).startswith(error)
