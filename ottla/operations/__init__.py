"""What works on a data directory at rest: handing it over, taking topics over, auditing it. No event loop and no sockets."""
