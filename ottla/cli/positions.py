"""The parameter type of positions in a topic: ``beginning``, ``end``, an offset, or a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.options import Checked

if TYPE_CHECKING:
    from ottla.client.admin.places import Place


def _place(text: str) -> Place:
    from ottla.client.admin.places import place

    return place(text)


PLACE = Checked("place", _place)
