"""A topic that a broker creates when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class FirstTopic(NamedTuple):
    """A topic to create. ``said`` is the user's text that requests the topic, for error messages."""

    name: str
    partitions: int
    configs: Mapping[str, str]
    said: str
