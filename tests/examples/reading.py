"""Reads the example files that people copy, as the programs for which they are written do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"


def documents(path: str) -> list[Any]:
    """Return the documents of a YAML file. A key that occurs twice in a mapping raises an AssertionError."""

    class Strict(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value]
            assert len(keys) == len(set(keys)), f"{path}, line {node.start_mark.line + 1}: a key occurs twice"
            return super().construct_mapping(node, deep)

    return list(yaml.load_all((EXAMPLES / path).read_text(), Strict))


def document(path: str) -> Any:
    (one,) = documents(path)
    return one


def commands(directory: Path) -> Path:
    """Create a directory for the PATH, in which ``ottla`` runs this checkout and ``pip install`` installs nothing."""
    directory.mkdir(exist_ok=True)
    python = f"PYTHONPATH={ROOT} exec {sys.executable}"
    pip = 'case "$1" in install) ;; *) echo "pip $*: expected install" >&2; exit 1 ;; esac'
    scripts = {
        "ottla": f'{python} -m ottla "$@"',
        "pytest": f'{python} -m pytest -p no:cacheprovider -p no:randomly "$@"',
        "python3": f'{python} "$@"',
        "pip": pip,
    }
    for name, script in scripts.items():
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)
    return directory
