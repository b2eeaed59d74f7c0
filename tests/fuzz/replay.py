"""Traces of what was found, kept in ``corpus``: one file a bug, played again line by line.

A file begins with lines of ``#`` that say what was wrong, then ``seed N`` and the actions of `tests.fuzz.host.Host`.
"""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.host import Host

CORPUS = Path(__file__).parent / "corpus"


def traces() -> list[Path]:
    """Every file of the corpus."""
    return sorted(CORPUS.glob("*.txt"))


def replay(path: Path) -> None:
    """Raises `tests.fuzz.host.Failure`."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    with Host(int(lines[0].removeprefix("seed "))) as host:
        for line in lines[1:]:
            host.perform(line)
        host.end()
