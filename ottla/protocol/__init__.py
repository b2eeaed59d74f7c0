"""Kafka's wire protocol: converts bytes to typed messages, headers, errors and record batches, and back.

The package is pure: it uses no clock, socket or file.
"""
