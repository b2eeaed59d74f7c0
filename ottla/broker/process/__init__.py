"""The server in its process: options, signals, the ready file, and the order of start and stop.

- `controller_main`: runs the controller of a cluster in this process until SIGTERM or SIGINT.
- `main`: runs one broker in this process until SIGTERM or SIGINT.
- `ready_file`: the file (``--ready-file``) that exists while a broker answers requests, with its addresses.
- `running`: common code of all server processes: sets up the process, runs the event loop, and reports errors of the start.
- `serving`: the current broker of a process, and its replacement by a new broker, so that tests get an empty broker without
  starting a process.
- `optional_parts`: the optional parts of a broker's process: the control API and the schema registry.
"""
