"""Decisions: cluster metadata, transactions, groups. Pure state machines, replayed from a log.

A command returns `Result(records, response, effects)` and changes nothing that is logged. The broker's runtime appends the records,
``replay`` changes the logged state, and ``apply`` changes state that is only in memory. So a failed append has changed nothing.

- `expressions`: compiles regular expressions that clients send, in RE2's syntax.
- `invariants`: checks the whole state of a coordinator after each command in tests.
- `result`: the result of a coordinator's command: records for the log, the response, and effects.
"""
