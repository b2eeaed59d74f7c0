"""``python -m ottla.container launch``: the entry point for the scripts in container/."""

import sys

from ottla.container.image import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
