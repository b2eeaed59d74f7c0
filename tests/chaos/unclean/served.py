"""ottla's command line, with recording of synced log file lengths: ``python -m tests.chaos.unclean.served serve ...``."""

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
