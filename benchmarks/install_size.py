"""Size of an installation without extras: ottla and everything that its dependencies need, in files.

It reads the installed packages of the current environment, so it needs no network. Bytecode is left out, because Python writes it
when a module is first imported, or pip when it installs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

import ottla

MIB = 1 << 20


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(
    name: str, seen: dict[str, Distribution] | None = None, extras: frozenset[str] = frozenset()
) -> dict[str, Distribution]:
    """Return a package and all packages that it needs on this system, by name. Raises PackageNotFoundError."""
    found = {} if seen is None else seen
    found[normalized(name)] = package = distribution(name)
    for requirement in map(Requirement, package.requires or ()):
        if requirement.marker is not None and not any(requirement.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            continue
        if normalized(requirement.name) not in found:
            installed(requirement.name, found, frozenset(requirement.extras))
    return found


def size_bytes(package: Distribution) -> int:
    """Return the size of a package's files."""
    if normalized(package.name) == "ottla":
        # In a checkout the metadata lists only the link to the sources.
        return sum(path.stat().st_size for path in _own_files())
    files = (Path(str(package.locate_file(file))) for file in package.files or ())
    return sum(path.stat().st_size for path in files if path.suffix != ".pyc" and path.is_file())


def _own_files() -> Iterator[Path]:
    return (path for path in Path(ottla.__file__).parent.rglob("*") if path.is_file() and path.suffix != ".pyc")


def main() -> None:
    sizes = {name: size_bytes(package) for name, package in installed("ottla").items()}
    print("| package | MiB |\n|---|--:|")
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"| {name} | {size / MIB:.1f} |")
    print(f"| all {len(sizes)} | {sum(sizes.values()) / MIB:.1f} |")


if __name__ == "__main__":
    main()
