"""Overrides a setting of Spark for the jobs of a block. Blocks of several sinks may overlap."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import msgspec


class _Setting(msgspec.Struct):
    """The user's value of a setting with open blocks."""

    given: str
    blocks: int = 0
    is_changed: bool = False


class Overriding:
    """Overrides one setting of sessions or applications. After an owner's last block the setting has the user's value again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settings: dict[str, _Setting] = {}

    @contextlib.contextmanager
    def block(
        self, owner: str, get: Callable[[], str], put: Callable[[str], object], chosen: Callable[[str], str]
    ) -> Iterator[None]:
        """Override the setting of the session or application with the id ``owner``.

        ``get`` reads the setting, ``put`` writes it, and ``chosen`` returns the value for the block, given the user's value.
        """
        with self._lock:
            setting = self._settings.get(owner) or _Setting(get())
            self._settings[owner] = setting
            setting.blocks += 1
        try:
            with self._lock:
                if (value := chosen(setting.given)) != setting.given:
                    put(value)
                    setting.is_changed = True
            yield
        finally:
            self._end(owner, setting, put)

    def _end(self, owner: str, setting: _Setting, put: Callable[[str], object]) -> None:
        from py4j.protocol import Py4JError

        with self._lock:
            setting.blocks -= 1
            if setting.blocks:
                return
            del self._settings[owner]
            # The JVM may have exited, in which case the block has already raised an error that says so.
            with contextlib.suppress(Py4JError, OSError):
                if setting.is_changed:
                    put(setting.given)
