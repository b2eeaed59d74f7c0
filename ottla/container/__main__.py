"""``python -m ottla.container launch``, as the scripts in container/ call it."""

import sys

from ottla.container.image import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
