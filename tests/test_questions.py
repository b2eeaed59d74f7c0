"""Tests of `wait_for` in ottla.testing, without a broker."""

from __future__ import annotations

import pytest

from ottla.client.errors import KafkaAnswered, Unreachable
from ottla.protocol.errors import Code
from ottla.testing.cluster_queries import wait_for

NO_GROUP = KafkaAnswered("unknown group 'billing'", Code.GROUP_ID_NOT_FOUND)


@pytest.mark.parametrize(
    "code", [Code.UNKNOWN_TOPIC_OR_PARTITION, Code.GROUP_ID_NOT_FOUND, Code.TRANSACTIONAL_ID_NOT_FOUND], ids=lambda code: code.name
)
def test_wait_for_repeats_its_request_until_the_value_arrives(code: Code) -> None:
    answers: list[KafkaAnswered | dict[str, int]] = [{"orders": 0}, {}, KafkaAnswered("there is none", code)]

    def condition() -> dict[str, int]:
        answer = answers.pop()
        if isinstance(answer, KafkaAnswered):
            raise answer
        return answer

    assert wait_for(condition, 60) == {"orders": 0}


def test_timeout_error_of_wait_for_names_the_missing_value() -> None:
    def condition() -> None:
        raise NO_GROUP

    with pytest.raises(TimeoutError, match=r"Condition not met within 0.05 s; last error: unknown group 'billing'") as late:
        wait_for(condition, 0.05)
    assert late.value.__cause__ is NO_GROUP


@pytest.mark.parametrize(
    "error", [Unreachable("nobody"), KafkaAnswered("reading", Code.TOPIC_AUTHORIZATION_FAILED), AssertionError("told")], ids=repr
)
def test_wait_for_raises_a_non_retriable_error_at_once(error: Exception) -> None:
    def condition() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        wait_for(condition, 60)
    assert raised.value is error
