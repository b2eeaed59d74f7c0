"""What spark-submit is given: ``spark-submit ... ottla/submit.py JOB`` is ``ottla pipeline JOB`` on its cluster."""

from __future__ import annotations

import sys

from ottla.cli import main

if __name__ == "__main__":
    sys.exit(main(["pipeline", *sys.argv[1:]]))
