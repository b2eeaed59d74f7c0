"""ottla's command line, whose log files are noted at each sync: ``python -m tests.chaos.unclean.served serve ...``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.chaos.unclean.power import SYNCED_VARIABLE, SyncedLengths, note_syncs


def main() -> int:
    from ottla.cli import main as serve

    note_syncs(SyncedLengths(Path(os.environ[SYNCED_VARIABLE])))
    return serve(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
