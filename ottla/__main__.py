from ottla.process import INTERRUPTED_EXIT

try:
    from ottla.cli import main
except KeyboardInterrupt:
    raise SystemExit(INTERRUPTED_EXIT) from None

raise SystemExit(main())
