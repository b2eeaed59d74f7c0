"""Decisions: cluster metadata, transactions, groups. Pure state machines, replayed from a log.

A command returns `Result(records, response)` and changes nothing; ``replay`` alone changes state. The broker's
runtime appends the records in between, so a failed append has changed nothing.
"""
