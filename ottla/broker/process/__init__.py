"""The server in its process: options, signals, the ready file, and the order of start and stop.

- `controller_main`: runs the controller of several brokers in this process until SIGTERM or SIGINT.
- `main`: runs one broker in this process until SIGTERM or SIGINT.
- `ready_file`: the file that holds the ready line while a broker answers requests (``--ready-file``).
- `running`: what every process with a server does: prepares itself, runs the event loop until it is to stop, and says how that
  went.
- `serving`: the present broker of a process, and its replacement by a new broker: tests get an empty broker without starting a
  process.
- `steering`: the ports by which a broker's process may be controlled from outside.
"""
