"""The states in which a kill or a power cut may leave the files of a `TracingFilesystem`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ottla.simulation.tracing_filesystem import Op

SECTOR_BYTES = 512
"""Size of a disk sector. A crash may leave only some sectors of a write, but never part of a sector."""


@dataclass(slots=True)
class _Content:
    """The written data of a file, and how many bytes of it are synced."""

    data: bytearray = field(default_factory=bytearray)
    synced: int = 0


class TornDisk:
    """Replays recorded file operations, and derives the states after a crash."""

    def __init__(self, image: Mapping[str, bytes] | None = None) -> None:
        """``image`` maps paths to contents of the initial files, which are synced."""
        self._files = {path: _Content(bytearray(data), len(data)) for path, data in (image or {}).items()}
        self._undo: dict[str, _Content | None] = {}

    def apply(self, op: Op) -> None:
        self._undo = {}
        match op.kind:
            case "append":
                self._files.setdefault(op.path, _Content()).data += op.data
            case "truncate":
                content = self._files.setdefault(op.path, _Content())
                del content.data[op.size :]
                content.synced = min(content.synced, op.size)
            case "sync":
                if op.path in self._files:
                    self._files[op.path].synced = len(self._files[op.path].data)
            case "write":
                # A whole file is written under another name and renamed, so a crash leaves either the old or the new content.
                self._undo = {op.path: self._files.get(op.path)}
                self._files[op.path] = _Content(bytearray(op.data), len(op.data))
            case "rename":
                moved = [p for p in self._files if p == op.path or p.startswith(f"{op.path}/")]
                for path in moved:
                    target = op.to + path[len(op.path) :]
                    self._undo |= {path: self._files[path], target: self._files.get(target)}
                    self._files[target] = self._files.pop(path)
            case "unlink":
                self._undo = {op.path: self._files.pop(op.path, None)}
            case "remove_dir":
                for path in [p for p in self._files if p.startswith(f"{op.path}/")]:
                    self._undo[path] = self._files.pop(path)

    @property
    def unsynced_bytes(self) -> int:
        """The number of bytes that a power cut may remove."""
        return sum(len(content.data) - content.synced for content in self._files.values())

    def states(self, rng: random.Random) -> Iterator[tuple[str, dict[str, bytes]]]:
        """Yield the names and files of the states in which a crash may leave the disk now: "kept" after a kill, the others after
        power cuts.
        """
        yield "kept", self._image(lambda path, c: bytes(c.data))
        yield "unsynced dropped", self._image(lambda path, c: bytes(c.data[: c.synced]))
        lucky = {path: rng.random() < 0.5 for path in self._files}
        yield "dropped by file", self._image(lambda path, c: bytes(c.data if lucky[path] else c.data[: c.synced]))
        yield "torn", self._image(lambda path, c: self._torn(c, rng))
        yield "zero tail", self._image(lambda path, c: bytes(c.data[: c.synced]) + bytes(len(c.data) - c.synced))
        if self._undo:
            image = self._image(lambda path, c: bytes(c.data))
            for path, before in self._undo.items():
                image.pop(path, None)
                if before is not None:
                    image[path] = bytes(before.data)
            yield "rename or unlink undone", image

    @staticmethod
    def _torn(content: _Content, rng: random.Random) -> bytes:
        """Return the synced data, and unsynced sectors up to a random point."""
        end = content.synced + rng.randrange(len(content.data) - content.synced + 1)
        end -= end % SECTOR_BYTES
        return bytes(content.data[: max(end, content.synced)])

    def _image(self, of: Callable[[str, _Content], bytes]) -> dict[str, bytes]:
        return {path: of(path, content) for path, content in self._files.items()}
