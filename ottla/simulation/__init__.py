"""Brokers, clock, clients, network and disks in one process, driven by a seed. For tests and tools; nothing else imports it.

- `broker`: a broker without sockets, disk or real clock: requests are passed as bytes, and time passes when a test says so.
- `checker`: judges exactly-once: compares what clients attempted and were answered with what exists after all is settled.
- `client`: a client of a simulated broker.
- `committed_transactions`: checks the transactions of several brokers by what is committed: the coordinators' records, the batches,
  and the markers.
- `controller`: a controller without sockets, disk or real clock, as `simulation.broker` has a broker.
- `coroutines`: runs the start and the stop of a server in simulated time: its coroutine waits for a `Promise`, and for nothing
  else.
- `disk`: the disk of a simulated broker.
- `env`: the environment of a simulated broker: simulated time, the given files, randomness from a seed, and no sockets.
- `faults`: carries out the faults of a plan in its world.
- `faulty_filesystem`: files in memory, on a disk that refuses single operations, or all operations until a test stops this.
- `history`: what clients attempted and how they were answered, for `simulation.checker`.
- `judging`: plays a plan and judges it: compares the history with what exists in the end, for clients and in the files.
- `links`: a network driven by a seed: delays, split writes, cuts one way or both, lost machines.
- `machines`: the machines of a world: one broker that is its own controller, or several brokers and their controller.
- `memory_filesystem`: files in memory, for simulations and tests without a disk.
- `network`: connections between simulated brokers: data goes from protocol to protocol in turns of a simulated world.
- `node`: one machine of a simulated world: its environment, its disk, and the lives of the server on it between start and end.
- `plan`: the plan of a world: its actors, and the faults with their times.
- `replicas`: checks what holds between the replicas of several brokers while a world runs: leaders, high watermarks, and what is
  committed.
- `running`: plays many seeds on all cores: collects findings and rare states, and shrinks failing plans.
- `scheduler`: simulated time: pending calls and when they are due.
- `tasks`: actors as generators.
- `torn_disk`: the states in which a power cut, a kill or a torn write may leave the files of a `TracingFilesystem`.
- `tracing_filesystem`: files in memory with a trace of all operations, from which `simulation.torn_disk` derives the states after a
  crash.
- `watch`: checks the coordinators' states in memory after each step of a world.
- `world`: a world driven by a seed: brokers, clients, network and disks on one scheduler in one process.
"""
