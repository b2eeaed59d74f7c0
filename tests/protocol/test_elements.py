"""While a message is decoded, the total number of its array elements is counted and limited."""

from __future__ import annotations

import threading

import pytest

from ottla.protocol.primitives import TooManyElements, begin_message, message_elements, read_length

FIVE = b"\0\0\0\5" + bytes(5)
THOUSAND = b"\0\0\3\xe8" + bytes(1_000)


def test_array_elements_of_a_message_are_limited_in_total() -> None:
    begin_message(9)
    read_length(FIVE, 0)
    with pytest.raises(TooManyElements, match="more than 9 elements"):
        read_length(FIVE, 0)
    begin_message()
    read_length(THOUSAND, 0)
    assert message_elements() == 1_000


def test_array_elements_of_messages_are_counted_per_thread() -> None:
    # A worker thread decodes large requests, and a page of the console responses, while the event loop decodes requests.
    def decode() -> None:
        begin_message()
        read_length(THOUSAND, 0)

    begin_message(10)
    read_length(FIVE, 0)
    other = threading.Thread(target=decode)
    other.start()
    other.join()
    assert message_elements() == 5
    read_length(FIVE, 0)
    with pytest.raises(TooManyElements, match="more than 10 elements"):
        read_length(FIVE, 0)
