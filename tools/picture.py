"""Records the output of a run as a picture: ``python -m tools.picture`` writes docs/demo.svg, ``... pipeline``
docs/pipeline.svg."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console

from ottla.demo.run import run
from tools.kafka import free_port

WIDTH = 100


def main(what: str) -> int:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=False, color_system="truecolor")
    if what == "pipeline":
        from ottla.cli.pipeline import DEFAULT_ROWS
        from ottla.demo.pipeline import run as pipeline
        from ottla.pipeline import running

        running.console = running.tables = console
        code = pipeline(rows=DEFAULT_ROWS, values="json")
    else:
        code = run(port=free_port(), purchases=5_000, data_dir=None, console=console)
    target = Path(__file__).parent.parent / "docs" / f"{what}.svg"
    target.parent.mkdir(exist_ok=True)
    # Remove the fonts, which a browser would download.
    title = {"demo": "make run", "pipeline": "make pipeline"}[what]
    target.write_text(re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title=title), flags=re.DOTALL))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "demo"))
