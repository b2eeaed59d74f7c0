"""Packs the build context of the container image, so that the image can be built where there is an engine but no checkout."""

from __future__ import annotations

import re
import sys
import tarfile
import tempfile
from pathlib import Path

from tools.release_installs import NotReady, run

_COPY = re.compile(r"^COPY (?!--from)(?:--\S+ )*(?P<source>\S+) \S+$", re.MULTILINE)


def pack(root: Path, target: Path) -> None:
    """Write the committed files as a tar archive, whose root is the context of the build."""
    target.parent.mkdir(parents=True, exist_ok=True)
    run(["git", "archive", "--format=tar.gz", "-o", str(target), "HEAD"], root)


def check(target: Path, version: str) -> str:
    """Check that the context has all files that the Dockerfile copies, and that its sources build a wheel. Raises `NotReady`."""
    with tempfile.TemporaryDirectory() as directory:
        context = Path(directory, "context")
        with tarfile.open(target) as packed:
            packed.extractall(context, filter="data")
        dockerfile = context / "Dockerfile"
        if not dockerfile.is_file():
            raise NotReady("the context of the image has no Dockerfile")
        sources = [found["source"] for found in _COPY.finditer(dockerfile.read_text())]
        if missing := [source for source in sources if not (context / source).exists()]:
            raise NotReady(f"Dockerfile copies {', '.join(missing)}, which is not committed")
        build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", directory, str(context)]
        run(build, context, PYTHONPATH="")
        if not Path(directory, f"ottla-{version}-py3-none-any.whl").is_file():
            raise NotReady(f"the context of the image does not build ottla {version}")
    return f"{target.name} {target.stat().st_size:,} bytes, copies {', '.join(sources)}"
