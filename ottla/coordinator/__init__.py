"""Decisions: cluster metadata, transactions, groups. Pure state machines, replayed from a log.

A command returns `Result(records, response, effects)` and changes nothing that is logged. The broker's runtime appends the
records, ``replay`` changes the logged state, and ``apply`` what an effect names beside it; so a failed append has changed nothing.
"""
