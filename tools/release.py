"""``make release``: builds the files to publish, checks them, and prints the command that publishes them.

All checks run even if some fail, so that the output lists everything that is left to do. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ottla import __version__

ROOT = Path(__file__).parent.parent
TIMEOUT_S = 600
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
_IN_THE_SOURCES = (
    "Makefile",
    "CHANGELOG.md",
    "ARCHITECTURE.md",
    "docs/internals/index.md",
    "tests/test_lint.py",
    "tools/release.py",
)
_SMOKE = """
import ottla
assert ottla.__version__ == {version!r}, ottla.__version__
with ottla.Broker() as broker:
    broker.create_topic("orders", 1)
    assert broker.records("orders") == []
"""


class NotReady(Exception):
    """A check has failed. The message says what to do."""


@dataclass(slots=True, frozen=True)
class Release:
    """The checkout that is checked, and the files that were built from it."""

    root: Path
    version: str
    distributions: Path

    @property
    def wheel(self) -> Path:
        return self.distributions / f"ottla-{self.version}-py3-none-any.whl"

    @property
    def sources(self) -> Path:
        return self.distributions / f"ottla-{self.version}.tar.gz"

    @property
    def publishing(self) -> str:
        """The command that publishes the release."""
        tag = f"v{self.version}"
        return f"git tag {tag} && {sys.executable} -m twine upload {self.sources} {self.wheel} && git push origin {tag}"


def _run(command: list[str], cwd: Path, **environment: str) -> str:
    """Return the output of a command."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotReady(f"{' '.join(command)} takes longer than {TIMEOUT_S} s") from None
    if done.returncode:
        raise NotReady(f"{' '.join(command)} failed:\n{done.stdout[-3_000:]}")
    return done.stdout


def version_is_new(release: Release) -> str:
    """Check that no tag has the version yet, because a version can be published only once."""
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", release.version):
        raise NotReady(f"{release.version} is no version such as 1.2.3 or 1.2.3rc1; ottla/__init__.py has it")
    if _run(["git", "tag", "--list", f"v{release.version}"], release.root).strip():
        raise NotReady(f"there is a tag v{release.version} already; raise __version__ in ottla/__init__.py")
    return release.version


def checkout_is_clean(release: Release) -> str:
    """Check that all files are committed."""
    changed = _run(["git", "status", "--porcelain"], release.root).splitlines()
    if changed:
        raise NotReady(f"{len(changed)} files are not committed, such as {changed[0][3:]}; commit them")
    return _run(["git", "log", "-1", "--format=%h %s"], release.root).strip()


def changelog_has_the_version(release: Release) -> str:
    """Check that the version's section in CHANGELOG.md has entries and a date."""
    text = (release.root / "CHANGELOG.md").read_text()
    section = re.search(rf"^## {re.escape(release.version)} \(([^)]*)\)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise NotReady(f"CHANGELOG.md has no section '## {release.version} (DATE)'; add it")
    date, body = section.groups()
    if not re.search(r"^- ", body, re.MULTILINE):
        raise NotReady(f"the section of {release.version} in CHANGELOG.md is empty; say what is new")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        raise NotReady(f"CHANGELOG.md says '{release.version} ({date})'; put the day of the release in its place, as 2026-01-31")
    return f"{date}, {len(re.findall(r'^- ', body, re.MULTILINE))} entries"


def both_are_built(release: Release) -> str:
    """Build the source distribution, and from it the wheel, which shows that the source distribution is complete."""
    shutil.rmtree(release.distributions, ignore_errors=True)
    release.distributions.mkdir(parents=True)
    backend = f"import setuptools.build_meta as backend; backend.build_sdist({str(release.distributions)!r})"
    _run([sys.executable, "-c", backend], release.root)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(release.distributions)]
    _run([*build, str(release.sources)], release.root)
    for built in (release.sources, release.wheel):
        if not built.is_file():
            raise NotReady(f"{built.name} was not built; there is {', '.join(p.name for p in release.distributions.iterdir())}")
    return ", ".join(f"{built.name} {built.stat().st_size:,} bytes" for built in (release.sources, release.wheel))


def contents_are_whole(release: Release) -> str:
    """Check that the wheel has only the package with its data, and that the source distribution has all files for building and
    testing."""
    with zipfile.ZipFile(release.wheel) as wheel:
        names = set(wheel.namelist())
    foreign = {name.split("/")[0] for name in names} - {"ottla", f"ottla-{release.version}.dist-info"}
    if foreign:
        raise NotReady(f"the wheel brings along {', '.join(sorted(foreign))}, which it must not")
    packed_here = {str(path.relative_to(release.root)) for path in (release.root / "ottla").rglob("*.py")}
    wanted = {*packed_here, "ottla/py.typed", "ottla/broker/config/keys.txt", "ottla/protocol/schemas/produce.schema"}
    if missing := sorted(wanted - names):
        raise NotReady(f"the wheel lacks {len(missing)} files, such as {missing[0]}")
    with tarfile.open(release.sources) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    if missing := sorted(set(_IN_THE_SOURCES) - inside):
        raise NotReady(f"the source distribution lacks {', '.join(missing)}; MANIFEST.in says what it has")
    return f"{len(names)} files in the wheel, {len(inside)} in the sources"


def metadata_are_well_formed(release: Release) -> str:
    """Check the metadata, including the text of README.md, with the checks of the package index."""
    said = _run([sys.executable, "-m", "twine", "check", "--strict", str(release.sources), str(release.wheel)], release.root)
    with zipfile.ZipFile(release.wheel) as wheel:
        metadata = email.message_from_bytes(wheel.read(f"ottla-{release.version}.dist-info/METADATA"))
    if metadata["Version"] != release.version:
        raise NotReady(f"the metadata say {metadata['Version']}, and ottla/__init__.py {release.version}")
    if "PASSED" not in said:
        raise NotReady(said)
    return f"Metadata-Version {metadata['Metadata-Version']}, Python {metadata['Requires-Python']}"


def links_lead_somewhere(release: Release) -> str:
    """Check that the files to which README.md links exist. A package index shows such links as text, unless `project.urls` in
    pyproject.toml has the repository's address."""
    targets = [target for target in _LINK.findall((release.root / "README.md").read_text()) if "://" not in target]
    if dead := [target for target in targets if not (release.root / target).exists()]:
        raise NotReady(f"README.md links to {', '.join(dead)}, which is not there")
    return f"{len(targets)} links to files, which a checkout has; on an index they are text"


def wheel_installs(release: Release, *, is_offline: bool) -> str:
    """Check in a new environment that the command prints the version, and that a broker starts.

    Offline, the environment uses the dependencies of the Python that runs this check.
    """
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        _run([sys.executable, "-m", "venv", str(home / "venv")], home)
        python = home / "venv" / "bin" / "python"
        _run(
            [str(python), "-m", "pip", "install", "-q", *(["--no-deps"] if is_offline else []), str(release.wheel)],
            home,
            PYTHONPATH="",
        )
        if is_offline:
            site = next((home / "venv" / "lib").glob("python*/site-packages"))
            # Add them after the environment's own packages, which include the wheel.
            theirs = "\n".join(path for path in sys.path if path.endswith("site-packages"))
            (site / "dependencies.pth").write_text(f"{theirs}\n")
        said = _run([str(python.parent / "ottla"), "--version"], home, PYTHONPATH="").strip()
        if said != f"ottla {release.version}":
            raise NotReady(f"ottla --version says {said!r}, and ottla/__init__.py {release.version}")
        _run([str(python), "-c", _SMOKE.format(version=release.version)], home, PYTHONPATH="")
    return f"{said}; a broker starts"


def checks(*, is_offline: bool) -> dict[str, Callable[[Release], str]]:
    """Return all checks by name, in their order."""
    return {
        "version": version_is_new,
        "checkout": checkout_is_clean,
        "changelog": changelog_has_the_version,
        "build": both_are_built,
        "contents": contents_are_whole,
        "metadata": metadata_are_well_formed,
        "links": links_lead_somewhere,
        "installation": lambda release: wheel_installs(release, is_offline=is_offline),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--offline", action="store_true", help="take the dependencies of the wheel from this environment")
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="where the distributions go (default: dist)")
    options = parser.parse_args(arguments)
    release = Release(root=ROOT, version=__version__, distributions=options.to.absolute())
    failed = 0
    for name, check in checks(is_offline=options.offline).items():
        try:
            print(f"ok     {name:13} {check(release)}", flush=True)
        except NotReady as reason:
            failed += 1
            print(f"wrong  {name:13} {reason}", flush=True)
        except OSError as error:
            failed += 1
            print(f"wrong  {name:13} {error.strerror}: {error.filename}; mend what stands above first", flush=True)
    if failed:
        print(f"\nottla {release.version} is not ready: {failed} of the above")
        return 1
    print(f"\nottla {release.version} is ready. This publishes it:\n  {release.publishing}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
