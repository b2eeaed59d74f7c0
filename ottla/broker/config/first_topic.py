"""A topic that a broker is to make at its start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class FirstTopic(NamedTuple):
    """``said``: how a person has named it, for what is wrong with it."""

    name: str
    partitions: int
    configs: Mapping[str, str]
    said: str
