"""A setting that several blocks override has the user's value after the last block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

pytest.importorskip("py4j")

from ottla.spark.sink.overriding import Overriding


class Setting:
    def __init__(self, value: str) -> None:
        self.value = value
        self.is_broken = False

    def get(self) -> str:
        return self.value

    def put(self, value: str) -> None:
        if self.is_broken:
            raise ValueError("no setting can be changed")
        self.value = value


def block(
    overriding: Overriding, setting: Setting, chosen: Callable[[str], str], owner: str = "session"
) -> contextlib.AbstractContextManager[None]:
    return overriding.block(owner, setting.get, setting.put, chosen)


def test_setting_has_the_users_value_after_the_last_of_several_blocks() -> None:
    overriding, setting, other = Overriding(), Setting("10"), Setting("10")
    with block(overriding, setting, lambda given: "5"):
        with block(overriding, setting, lambda given: f"{given}0"), block(overriding, other, lambda given: "7", "other"):
            assert (setting.value, other.value) == ("100", "7")
        assert (setting.value, other.value) == ("100", "10")
    assert setting.value == "10"


def test_setting_that_no_block_changes_is_not_written() -> None:
    overriding, setting = Overriding(), Setting("10")
    setting.is_broken = True
    with block(overriding, setting, lambda given: given):
        pass


def test_setting_is_restored_after_a_block_whose_change_failed() -> None:
    overriding, setting = Overriding(), Setting("10")
    setting.is_broken = True
    with pytest.raises(ValueError, match="no setting can be changed"), block(overriding, setting, lambda given: "5"):
        pass
    setting.is_broken = False
    with block(overriding, setting, lambda given: "5"):
        assert setting.value == "5"
    assert setting.value == "10"
