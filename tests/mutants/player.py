"""``python -m tests.mutants.player MODULE ENTRIES``: runs scenarios against an ottla in which one module has another source.

The source is read from stdin as UTF-8; an empty input leaves the module unchanged. ENTRIES are rules of docs/rules.md, separated by
commas. All other modules are imported from the working tree with their cached bytecode, so a mutant takes one second instead of
ten.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

NOTICED = 3
"""Exit code if a response differs from the scenario's file.

Exit code 0 means no difference; any other code is a failure of the player.
"""


class Changed:
    """A finder for ``sys.meta_path`` that loads one module from another source."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        spec = PathFinder.find_spec(name, path, target)
        assert spec is not None
        spec.loader = self  # type: ignore[assignment]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, so that the import system creates the module as usual."""

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._text, str(module.__file__), "exec"), module.__dict__)


def first_difference(entries: Iterable[str]) -> str | None:
    """Run the scenarios of ``rules`` until a response differs from the scenario's file. Returns the difference, or None."""
    # Import these modules only now, so that they import the changed module.
    from ottla.invariants import CHECKED
    from ottla.protocol.errors import KafkaError
    from tests.scenarios.brokers import Target, start
    from tests.scenarios.play import Differs, compare, play
    from tests.scenarios.script import FOLDER, load
    from tests.support.oracle import ConditionNotMet

    CHECKED.whole_states = True
    chosen = [s for file in sorted(FOLDER.glob("*.txt")) for s in load(file) if s.name in entries]
    missing = set(entries) - {s.name for s in chosen}
    assert not missing, f"unknown scenario entries: {missing}"
    brokers: dict[str, Target] = {}
    for number, scenario in enumerate(chosen):
        for at, case in enumerate(scenario.cases):
            try:
                if scenario.broker not in brokers:
                    brokers[scenario.broker] = start("simulated", scenario.broker, Path())
                # Names have the same length as in other runs, because quotas count the bytes of requests.
                prefix = f"{scenario.name.lower()}-{number:03}{at:03}-"
                played = play(scenario, case, brokers[scenario.broker], "simulated", prefix)
                compare(scenario, case, "simulated", played)
            # A wait that times out counts as a detection of the mutant.
            except (Differs, KafkaError, ConditionNotMet) as difference:
                return f"{type(difference).__name__}: {difference}"
    return None


def main() -> int:
    module, entries = sys.argv[1:]
    text = sys.stdin.buffer.read().decode()
    if text:
        assert module not in sys.modules
        sys.meta_path.insert(0, Changed(module, text))
    difference = first_difference(entries.split(","))
    if difference is None:
        return 0
    assert module in sys.modules
    print(difference)
    return NOTICED


if __name__ == "__main__":
    sys.exit(main())
