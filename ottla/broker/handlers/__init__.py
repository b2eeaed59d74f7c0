"""One file per API: what it serves per version, its declaration, its handler."""
