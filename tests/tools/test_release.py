"""``make release`` on a checkout: it checks and builds everything, and prints the remaining manual steps."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools import release, release_installs
from tools.release import NotReady, Release

ROOT = Path(__file__).parents[2]


def git(directory: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", *arguments], cwd=directory, check=True, capture_output=True
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Release:
    """A committed checkout with only a changelog and a README."""
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [1.2.3] - 2026-01-31\n\n- New.\n\n## [1.2.2] - 2026-01-01\n")
    (tmp_path / "README.md").write_text("[the changes](CHANGELOG.md), [elsewhere](https://example.com)\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "x")
    return Release(root=tmp_path, version="1.2.3", distributions=tmp_path / "dist")


def test_checkout_ready_for_release_passes_the_release_checks(checkout: Release) -> None:
    assert release.version_is_new(checkout) == "1.2.3"
    assert release.checkout_is_clean(checkout).endswith(" x")
    assert release.changelog_has_the_version(checkout) == "2026-01-31, 1 entries"
    assert release.links_lead_somewhere(checkout).startswith("1 links")


def test_release_check_of_an_unready_checkout_reports_the_reasons(checkout: Release) -> None:
    git(checkout.root, "tag", "v1.2.3")
    assert release.version_is_new(checkout) == "1.2.3"  # The tag of this commit is allowed, as in the release workflow.
    with pytest.raises(NotReady, match=r"this commit has the tag v1\.2\.3, and ottla/__init__\.py the version 1\.2\.4"):
        release.version_is_new(replace(checkout, version="1.2.4"))
    git(checkout.root, "commit", "-qm", "y", "--allow-empty")
    with pytest.raises(NotReady, match=r"a tag v1\.2\.3 already"):
        release.version_is_new(checkout)
    with pytest.raises(NotReady, match="is no version"):
        release.version_is_new(replace(checkout, version="next"))
    with pytest.raises(NotReady, match=r"1\.2\.2 in CHANGELOG\.md is empty"):
        release.changelog_has_the_version(replace(checkout, version="1.2.2"))
    with pytest.raises(NotReady, match=r"no section '## \[1\.2\.4\] - DATE'"):
        release.changelog_has_the_version(replace(checkout, version="1.2.4"))
    (checkout.root / "CHANGELOG.md").write_text("## [1.2.3] - unreleased\n\n- New.\n")
    with pytest.raises(NotReady, match="put the day of the release in its place"):
        release.changelog_has_the_version(checkout)
    with pytest.raises(NotReady, match=r"1 files are not committed, such as CHANGELOG\.md"):
        release.checkout_is_clean(checkout)
    (checkout.root / "README.md").write_text("[gone](docs/gone.md)")
    with pytest.raises(NotReady, match=r"docs/gone\.md, which is not there"):
        release.links_lead_somewhere(checkout)


def test_release_is_published_by_pushing_its_tag(checkout: Release) -> None:
    assert checkout.publishing == "git tag v1.2.3 && git push origin v1.2.3"


def test_release_check_ignores_a_python_program_that_cannot_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = ".".join(sys.version.split(".")[:2])
    assert release_installs.find_python(own) == Path(sys.executable)
    # Like pyenv's shim, this program only prints an error.
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert release_installs.find_python("3.99") is None


def sbom(*names: str, **changes: object) -> dict[str, object]:
    components = [{"name": name, "version": "1"} for name in names]
    root = {"name": "ottla", "version": "1.2.3"}
    return {"specVersion": "1.6", "metadata": {"component": root}, "components": components, **changes}


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (sbom("click"), "the SBOM lacks msgspec"),
        (sbom("click", "msgspec", metadata={"component": {"name": "other"}}), "describes other"),
        (sbom("click", "msgspec", metadata={"component": {"name": "ottla"}}), "describes ottla None, and not ottla 1.2.3"),
        (sbom("click", components=[{"name": "click"}, {"name": "Msg_Spec", "version": "1"}]), "lacks msgspec"),
        (sbom(components=[{"name": "click"}, {"name": "msgspec", "version": "1"}]), "no version of click"),
        (sbom("click", "msgspec", serialNumber="/tmp/here/x"), "has paths of this machine"),
    ],
)
def test_incomplete_sbom_is_reported(described: dict[str, object], reason: str) -> None:
    with pytest.raises(NotReady, match=reason):
        release_installs.check_sbom(described, {"click", "msgspec"}, "1.2.3", "/tmp/here")


def test_complete_sbom_is_accepted() -> None:
    said = release_installs.check_sbom(sbom("Click", "msgspec", "ottla"), {"click", "msgspec"}, "1.2.3", "/tmp/here")
    assert said == "CycloneDX 1.6, 2 dependencies"


@pytest.mark.full
def test_release_of_this_checkout_is_built_installed_and_started(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    left_out = shutil.ignore_patterns(".*", "*.egg-info", "build", "dist", "__pycache__", "node_modules")
    shutil.copytree(ROOT, root, ignore=left_out, symlinks=True)
    this = Release(root=root, version=release.__version__, distributions=tmp_path / "dist")
    for check in (release.both_are_built, release.contents_are_whole, release.metadata_are_well_formed):
        check(this)
    assert release.wheel_installs(this, is_offline=True).startswith("a broker starts with Python 3.")
    assert f"twine upload {this.sources} {this.wheel}" in this.publishing_by_hand
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "x")
    assert "copies ., container/kafka, container/confluent, container/bin" in release.image_context_is_whole(this)
    (root / "ottla" / "forgotten.py").write_text("")
    with pytest.raises(NotReady, match=r"the wheel lacks 1 files, such as ottla/forgotten\.py"):
        release.contents_are_whole(this)
