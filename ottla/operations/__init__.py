"""Operations on a data directory whose broker does not run: handing over, adopting, auditing. No event loop and no sockets."""
