from ottla.cli import main

raise SystemExit(main())
