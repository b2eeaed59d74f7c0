"""The script for spark-submit: ``spark-submit ... ottla/cli/submit.py JOB`` runs ``ottla pipeline JOB`` on spark-submit's
cluster."""

from __future__ import annotations

import sys

from ottla.cli import main

if __name__ == "__main__":
    sys.exit(main(["pipeline", *sys.argv[1:]]))
