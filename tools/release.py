"""``make release``: builds the files to publish, checks them, and prints the command that publishes them.

All checks run even if some fail, so that the output lists everything that is left to do. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ottla import __version__
from tools import release_image, release_installs
from tools.release_installs import NotReady, run

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
_IN_THE_SOURCES = (
    "Makefile",
    "CHANGELOG.md",
    "ARCHITECTURE.md",
    "docs/internals/index.md",
    "tests/test_lint.py",
    "tools/release.py",
)


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
    def image_context(self) -> Path:
        return self.distributions / "extras" / f"ottla-{self.version}-image-context.tar.gz"

    @property
    def sbom(self) -> Path:
        return self.distributions / "extras" / f"ottla-{self.version}.cdx.json"

    @property
    def publishing(self) -> str:
        """The command that publishes the release."""
        return f"git tag v{self.version} && git push origin v{self.version}"

    @property
    def publishing_by_hand(self) -> str:
        """The command that publishes the release without GitHub."""
        return f"{sys.executable} -m twine upload {self.sources} {self.wheel}"


def version_is_new(release: Release) -> str:
    """Check that no other commit has the version's tag, because a version can be published only once.

    The workflow that publishes runs on the tag itself.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", release.version):
        raise NotReady(f"{release.version} is no version such as 1.2.3 or 1.2.3rc1; ottla/__init__.py has it")
    tag = f"v{release.version}"
    here = run(["git", "tag", "--points-at", "HEAD", "--list", "v[0-9]*"], release.root).split()
    if here and tag not in here:
        raise NotReady(
            f"this commit has the tag {here[0]}, and ottla/__init__.py the version {release.version}; make them the same"
        )
    if not here and run(["git", "tag", "--list", tag], release.root).strip():
        raise NotReady(f"there is a tag v{release.version} already; raise __version__ in ottla/__init__.py")
    return release.version


def checkout_is_clean(release: Release) -> str:
    """Check that all files are committed."""
    changed = run(["git", "status", "--porcelain"], release.root).splitlines()
    if changed:
        raise NotReady(f"{len(changed)} files are not committed, such as {changed[0][3:]}; commit them")
    return run(["git", "log", "-1", "--format=%h %s"], release.root).strip()


def changelog_has_the_version(release: Release) -> str:
    """Check that the version's section in CHANGELOG.md has entries and a date."""
    text = (release.root / "CHANGELOG.md").read_text()
    section = re.search(rf"^## \[{re.escape(release.version)}\] - (\S*)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise NotReady(f"CHANGELOG.md has no section '## [{release.version}] - DATE'; rename [Unreleased]")
    date, body = section.groups()
    if not re.search(r"^- ", body, re.MULTILINE):
        raise NotReady(f"the section of {release.version} in CHANGELOG.md is empty; say what is new")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        raise NotReady(f"CHANGELOG.md says '[{release.version}] - {date}'; put the day of the release in its place, as 2026-01-31")
    return f"{date}, {len(re.findall(r'^- ', body, re.MULTILINE))} entries"


def both_are_built(release: Release) -> str:
    """Build the source distribution, and from it the wheel, which shows that the source distribution is complete."""
    shutil.rmtree(release.distributions, ignore_errors=True)
    release.distributions.mkdir(parents=True)
    backend = f"import setuptools.build_meta as backend; backend.build_sdist({str(release.distributions)!r})"
    run([sys.executable, "-c", backend], release.root)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(release.distributions)]
    run([*build, str(release.sources)], release.root)
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
    said = run([sys.executable, "-m", "twine", "check", "--strict", str(release.sources), str(release.wheel)], release.root)
    metadata = release_installs.metadata_of(release.wheel, release.version)
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
    """Check in a new environment of each Python that ottla supports that the command prints the version, and that a broker starts.

    Offline, only the Python that runs this check is used, with its dependencies.
    """
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    absent = []
    checked = []
    for minor in [own] if is_offline else release_installs.supported_pythons(release.wheel, release.version):
        python = Path(sys.executable) if minor == own else release_installs.find_python(minor)
        if python is None:
            absent.append(minor)
            continue
        release_installs.check_installation(release.wheel, release.version, python, is_offline=is_offline)
        checked.append(minor)
    if not checked:
        raise NotReady(f"no Python {' or '.join(absent)} was found; install one, for example with uv python install {absent[-1]}")
    return f"a broker starts with Python {', '.join(checked)}" + (f"; not checked: {', '.join(absent)}" if absent else "")


def sbom_is_complete(release: Release) -> str:
    """Write the list of dependencies as CycloneDX."""
    return release_installs.write_sbom(release.wheel, release.version, release.root / "pyproject.toml", release.sbom)


def image_context_is_whole(release: Release) -> str:
    """Pack the build context of the container image, and check it as far as that is possible without an engine."""
    release_image.pack(release.root, release.image_context)
    return release_image.check(release.image_context, release.version)


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
        "image": image_context_is_whole,
        "installation": lambda release: wheel_installs(release, is_offline=is_offline),
        **({} if is_offline else {"sbom": sbom_is_complete}),
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
    print(
        f"\nottla {release.version} is ready. This publishes it, with .github/workflows/release.yml:\n  {release.publishing}\n"
        f"This publishes it from here instead:\n  {release.publishing_by_hand}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
