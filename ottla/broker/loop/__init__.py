"""What every part of a broker runs on: its access to the outside world, the scheduler of long work, pending responses, log lines.

- `counters`: counters that the broker's parts add to.
- `descriptors`: divides the process's file descriptors: log files that are kept open, connections, and a reserve for everything
  else.
- `env`: the broker's only access to the outside world: clock, randomness, files, timers and sockets.
- `lifecycle`: the phase of a broker between its start and its stop, for its work in the background.
- `logs`: writes log lines to stderr: JSON for machines, short coloured lines for a terminal.
- `pending_response`: the response of a request that must wait.
- `repeated_errors`: logs the errors of operations that are retried: each error once, and while it lasts how often it came, at
  growing intervals.
- `stepping`: runs long work a step at a time: requests and housekeeping share its turns on the event loop.
- `timed_calls`: callbacks that wait for their time on a clock that is moved by hand: the manual clock of tests, and the
  simulation's.
"""
