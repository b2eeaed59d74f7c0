"""Brokers, clock, clients, network and disks in one process, driven by a seed. For tests and tools; nothing else imports it."""
