"""Traces of what was found, kept in ``corpus``: one file a bug, played again line by line.

A file begins with lines of ``#`` that say what was wrong, then ``seed N`` and the actions of `tests.fuzz.host.Host`.
"""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.host import Failure, Host

CORPUS = Path(__file__).parent / "corpus"
SAME_CHARS = 40
"""So much of what a failure says must stay the same while its trace is reduced."""


def traces() -> list[Path]:
    """Every file of the corpus."""
    return sorted(CORPUS.glob("*.txt"))


def play(seed: int, lines: list[str]) -> None:
    """Raises `tests.fuzz.host.Failure`."""
    with Host(seed) as host:
        for line in lines:
            host.perform(line)
        host.end()


def replay(path: Path) -> None:
    """Play a file. Raises `tests.fuzz.host.Failure`."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    play(int(lines[0].removeprefix("seed ")), lines[1:])


def _fails_as(seed: int, lines: list[str], said: str) -> bool:
    try:
        play(seed, lines)
    except Failure as failure:
        return str(failure)[:SAME_CHARS] == said[:SAME_CHARS]
    return False


def reduced(seed: int, lines: list[str], said: str) -> list[str]:
    """A trace that fails in the same way with as few actions as leaving some out can bring (ddmin)."""
    size = len(lines) // 2
    while size:
        start = 0
        while start < len(lines):
            fewer = lines[:start] + lines[start + size :]
            if _fails_as(seed, fewer, said):
                lines = fewer
            else:
                start += size
        size //= 2
    return lines


def keep(directory: Path, seed: int, lines: list[str], said: str) -> Path:
    """Write a trace to a file that `replay` plays."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"seed-{seed}.txt"
    told = [f"# {line}" for line in said.splitlines()[:20]]
    path.write_text("\n".join([*told, f"seed {seed}", *lines]) + "\n")
    return path
