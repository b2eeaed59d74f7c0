"""Traces of bugs that the fuzzer found, kept in ``corpus``: one file per bug, replayed line by line.

A file begins with ``#`` lines that describe the bug, then ``seed N``, the settings and features, and the actions of
`tests.fuzz.host.Host`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tests.fuzz import settings
from tests.fuzz.exchange import Failure
from tests.fuzz.host import Host
from tests.fuzz.settings import Given
from tests.fuzz.sockets import SocketHost

CORPUS = Path(__file__).parent / "corpus"
SAME_CHARS = 40
"""Number of leading characters of the failure's message that must stay the same while its trace is reduced."""


@dataclass(slots=True, frozen=True)
class Trace:
    """A broker's seed, its settings, and the actions performed on it."""

    seed: int
    given: Given
    actions: list[str]


def traces() -> list[Path]:
    """Return every trace file of the corpus."""
    return sorted(CORPUS.glob("*.txt"))


def play(trace: Trace, host_of: type[Host | SocketHost] = Host) -> None:
    """Replay a trace. Raises `tests.fuzz.exchange.Failure`."""
    with host_of(trace.seed, trace.given) as host:
        for line in trace.actions:
            host.perform(line)
        host.end()


def replay(path: Path, host_of: type[Host | SocketHost] = Host) -> None:
    """Replay a file. Raises `tests.fuzz.exchange.Failure`."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    setup = [line for line in lines if line.startswith(("set ", "feature "))]
    play(Trace(int(lines[0].removeprefix("seed ")), settings.read(setup), lines[1 + len(setup) :]), host_of)


def _fails_as(trace: Trace, said: str, host_of: type[Host | SocketHost]) -> bool:
    try:
        play(trace, host_of)
    except Failure as failure:
        return str(failure)[:SAME_CHARS] == said[:SAME_CHARS]
    return False


def reduced(trace: Trace, said: str, host_of: type[Host | SocketHost] = Host) -> Trace:
    """Remove actions and settings while the trace still fails in the same way (ddmin). Returns the shortest trace found."""
    size = len(trace.actions) // 2
    while size:
        start = 0
        while start < len(trace.actions):
            fewer = replace(trace, actions=trace.actions[:start] + trace.actions[start + size :])
            if _fails_as(fewer, said, host_of):
                trace = fewer
            else:
                start += size
        size //= 2
    for name in trace.given.settings.keys() - settings.FIXED.keys():
        usual = Given({n: v for n, v in trace.given.settings.items() if n != name}, trace.given.features)
        if _fails_as(replace(trace, given=usual), said, host_of):
            trace = replace(trace, given=usual)
    return trace


def keep(directory: Path, trace: Trace, said: str) -> Path:
    """Write a trace to a file for `replay`."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"seed-{trace.seed}.txt"
    comments = [f"# {line}" for line in said.splitlines()[:20]]
    path.write_text("\n".join([*comments, f"seed {trace.seed}", *settings.written(trace.given), *trace.actions]) + "\n")
    return path
