"""Programs in Java: compiled once, and anew when their source has changed."""

from __future__ import annotations

import subprocess
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


def test_a_program_is_compiled_when_its_source_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "Says.java"
    source.write_text(SOURCE % "first")
    assert said(source) == "first it"
    monkeypatch.setattr(java_programs, "_compile", lambda *_: pytest.fail("it is compiled already"))
    assert said(source) == "first it"
    monkeypatch.undo()
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    source.write_text(SOURCE % "second")
    assert said(source) == "second it"


def test_a_program_that_does_not_compile_says_why(tmp_path: Path) -> None:
    source = tmp_path / "Says.java"
    source.write_text("public class Says { nonsense }")
    with pytest.raises(RuntimeError, match=r"Says\.java:1"):
        said(source)
    assert not [path for path in (tmp_path / "cache" / "java").iterdir() if path.is_dir()]
