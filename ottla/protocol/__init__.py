"""Bytes to typed messages and back: messages, headers, errors, record batches. Pure: no clock, socket or file."""
