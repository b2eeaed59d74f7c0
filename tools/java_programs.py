"""Compiles Java programs of one source file and caches the classes, because ``java FILE.java`` would compile at each start."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from tools.kafka import Unavailable, cache_dir, java, java_version

COMPILE_TIMEOUT_S = 120


def command(source: Path, class_path: str, *options: str) -> list[str]:
    """Return the command that starts the program, whose main class has the file's name.

    Classes are cached by the source's text, the class path and the build of Java. Raises `Unavailable` without a compiler.
    """
    return [java(), *options, "-cp", os.pathsep.join((str(classes(source, class_path)), class_path)), source.stem]


def classes(source: Path, class_path: str) -> Path:
    """Return the folder with the program's classes. Raises `Unavailable` without a compiler."""
    made_of = (source.read_text(encoding="utf-8"), class_path, java_version(java()))
    folder = cache_dir() / "java"
    folder.mkdir(parents=True, exist_ok=True)
    compiled = folder / f"{source.stem}-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}"
    with compiled.with_suffix(".lock").open("w") as lock:
        # One process compiles while other processes wait.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not compiled.exists():
            _compile(source, class_path, compiled)
    return compiled


def expanded(class_path: str) -> list[Path]:
    """Expand a class path: ``*`` becomes the jars of its folder.

    Java's launcher expands these wildcards for the program that it starts, but not in the program's arguments.
    """
    paths: list[Path] = []
    for part in map(Path, class_path.split(os.pathsep)):
        paths += sorted(part.parent.glob("*.jar")) if part.name == "*" else [part]
    return paths


def _compile(source: Path, class_path: str, compiled: Path) -> None:
    """Compile the program to the folder ``compiled``, which appears only when it is complete."""
    with tempfile.TemporaryDirectory(dir=compiled.parent) as unfinished:
        target = Path(unfinished) / "classes"
        compiler = [java(), "-XX:TieredStopAtLevel=1", "-m", "jdk.compiler/com.sun.tools.javac.Main", "-encoding", "UTF-8"]
        done = subprocess.run(
            [*compiler, "-cp", os.pathsep.join(map(str, expanded(class_path))), "-d", str(target), str(source)],
            capture_output=True,
            text=True,
            timeout=COMPILE_TIMEOUT_S,
            check=False,
        )
        if "java.lang.module.FindException: Module " in done.stderr:
            raise Unavailable("this Java has no compiler: set JAVA_HOME to a whole JDK")
        if done.returncode:
            raise RuntimeError(f"javac {source}:\n{done.stdout}{done.stderr}")
        target.rename(compiled)
