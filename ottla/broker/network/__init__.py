"""Clients' connections: cuts bytes into frames, dispatches requests to handlers, sends responses in the order of the requests."""
