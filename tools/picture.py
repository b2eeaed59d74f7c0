"""Draws docs/demo.svg by running the demo: ``python -m tools.picture``."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console

from ottla.demo.run import run
from tools.kafka import free_port

WIDTH = 100


def main() -> int:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=False, color_system="truecolor")
    code = run(port=free_port(), purchases=5_000, data_dir=None, console=console)
    target = Path(__file__).parent.parent / "docs" / "demo.svg"
    target.parent.mkdir(exist_ok=True)
    # Without the fonts that it would fetch from elsewhere.
    target.write_text(re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="make run"), flags=re.DOTALL))
    return code


if __name__ == "__main__":
    sys.exit(main())
