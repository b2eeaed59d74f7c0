"""Connections: frames in, responses out in request order."""
