"""Java programs are compiled once, and compiled again when their source has changed."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tools import java_programs, kafka

pytestmark = pytest.mark.java

SOURCE = 'public class Says { public static void main(String[] arguments) { System.out.println("%s " + arguments[0]); } }'


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))


def said(source: Path) -> str:
    try:
        command = java_programs.command(source, "", "-Xshare:auto")
    except kafka.Unavailable as missing:
        pytest.skip(str(missing))
    return subprocess.run([*command, "it"], capture_output=True, text=True, check=True).stdout.strip()


def test_java_program_is_recompiled_when_its_source_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "Says.java"
    source.write_text(SOURCE % "first")
    assert said(source) == "first it"
    monkeypatch.setattr(java_programs, "_compile", lambda *_: pytest.fail("the program was compiled again"))
    assert said(source) == "first it"
    monkeypatch.undo()
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    source.write_text(SOURCE % "second")
    assert said(source) == "second it"


def test_java_compilation_failure_is_reported_with_the_source_line(tmp_path: Path) -> None:
    """A compilation error must not be reported as a missing compiler, even if it mentions the compiler's module."""
    try:
        launcher = Path(kafka.java())
    except kafka.Unavailable as missing:
        pytest.skip(str(missing))
    if not (launcher.resolve().parent / "javac").exists():
        pytest.skip("this Java has no compiler")
    source = tmp_path / "Says.java"
    source.write_text("public class Says { jdk.compiler.Nothing nothing; }")
    with pytest.raises(RuntimeError, match=r"Says\.java:1"):
        java_programs.command(source, "")
    assert not [path for path in (tmp_path / "cache" / "java").iterdir() if path.is_dir()]


def test_class_path_with_jars_folders_and_wildcards_is_expanded(tmp_path: Path) -> None:
    for name in ("one.jar", "other.jar", "readme.txt"):
        (tmp_path / name).touch()
    one, other = tmp_path / "one.jar", tmp_path / "other.jar"
    for path, expected in (
        (str(other), [other]),
        (f"{tmp_path}/*", [one, other]),
        (str(tmp_path), [tmp_path]),
        (os.pathsep.join((str(other), f"{tmp_path}/*")), [other, one, other]),
    ):
        assert java_programs.expanded(path) == expected


def test_java_program_is_compiled_against_its_named_jars_only(tmp_path: Path) -> None:
    both = tmp_path / "Both.java"
    both.write_text("".join(f'class {name} {{ static String name = "{name}"; }}' for name in ("Both", "Neighbour")))
    try:
        compiled = java_programs.classes(both, "")
    except kafka.Unavailable as missing:
        pytest.skip(str(missing))
    for name in ("Both", "Neighbour"):
        with zipfile.ZipFile(tmp_path / f"{name}.jar", "w") as file:
            file.write(compiled / f"{name}.class", f"{name}.class")
    source = tmp_path / "Says.java"
    source.write_text(SOURCE.replace('"%s "', "Both.name"))
    command = java_programs.command(source, str(tmp_path / "Both.jar"), "-Xshare:auto")
    assert subprocess.run([*command, "it"], capture_output=True, text=True, check=True).stdout.strip() == "Bothit"
    source.write_text(source.read_text().replace("Both.name", "Neighbour.name"))
    with pytest.raises(RuntimeError, match="cannot find symbol"):
        java_programs.command(source, str(tmp_path / "Both.jar"))
