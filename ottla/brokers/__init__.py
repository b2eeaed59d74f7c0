"""Several brokers and their controller on this machine, each a process of its own, started and stopped by one parent."""
