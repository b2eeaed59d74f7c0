"""The base of every part of a broker: access to the outside world, the scheduler of coroutines, log lines.

- `counters`: counters that the parts of a broker increment.
- `descriptors`: divides the process's file descriptors: log files that are kept open, connections, and a reserve for everything
  else.
- `env`: the broker's only access to the outside world: clock, randomness, files, timers and sockets.
- `lifecycle`: the phase of a broker between its start and its stop, which all its parts can read.
- `local_sockets`: connections inside the broker's process, and from processes of its own user on its machine.
- `logs`: writes log lines to stderr: JSON for machines, short coloured lines for a terminal.
- `repeated_errors`: logs the errors of retried operations: each error once, and then its count at growing intervals.
- `stepping`: runs coroutines step by step, between which the event loop serves other clients.
- `timed_calls`: timers on a clock that is moved by hand: the manual clock of tests, and the clock of the simulation.
- `wakeup`: lets a parked request wait until it is woken or times out.
"""
