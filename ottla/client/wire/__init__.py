"""Connections to brokers.

- `connection`: a connection to one broker: one request at a time, in the newest version that both sides support.
"""
