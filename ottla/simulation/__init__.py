"""A broker, its clock, its clients and its disk in one process and by a seed: for tests and for tools. Nothing else imports it."""
