"""The kernel: the parts that nearly every other part of a broker or of a controller uses.

`make_kernel` builds these parts. Any other part is built by its constructor or a ``make_*`` function from the kernel
and the part's own arguments. Afterwards only the part itself sets its attributes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.settings import POWER
from ottla.broker.hooks.interception import Interception
from ottla.broker.hooks.transaction_history import TransactionListener
from ottla.broker.loop.counters import Counters
from ottla.broker.loop.env import Env
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.stepping import Stepping
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.disk_health import DiskHealth, DiskStop
from ottla.broker.partitions.durability import GroupCommit
from ottla.storage.log_dir import LogDirectory


class Kernel(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The kernel of one broker or controller.

    ``stepping`` schedules long work; ``barrier`` delays responses until writes are committed and durable; ``interception`` may
    change the handling of requests; ``listener`` is notified of transactions.
    """

    env: Env
    config: LiveConfig
    lifecycle: Lifecycle
    stepping: Stepping
    counters: Counters
    directory: LogDirectory
    disk: DiskHealth
    disk_stop: DiskStop
    barrier: Barrier
    interception: Interception | None = None
    listener: TransactionListener | None = None


def make_kernel(
    env: Env,
    config: LiveConfig,
    sync_refused: Callable[[str, OSError], None],
    *,
    lock: object | None = None,
    interception: Interception | None = None,
    listener: TransactionListener | None = None,
) -> Kernel:
    """Build a kernel. Its directory is not locked yet, unless ``lock`` is inherited from an earlier broker of the process.

    ``sync_refused`` is called with the path of a file that could not be opened for its sync (`GroupCommit`).
    """
    settings = config.settings
    lifecycle = Lifecycle(env)
    stepping = Stepping(env, lifecycle.work_failed)
    directory = LogDirectory(env.fs, settings.log_dirs, lock)
    disk = DiskHealth(env, settings.log_dirs)
    disk_stop = DiskStop(directory, disk)
    is_synced = settings.ottla_durability == POWER
    group_commit = GroupCommit(env, stepping, disk_stop.sync_failed, sync_refused) if is_synced else None
    return Kernel(
        env=env,
        config=config,
        lifecycle=lifecycle,
        stepping=stepping,
        counters=Counters(),
        directory=directory,
        disk=disk,
        disk_stop=disk_stop,
        barrier=Barrier(group_commit, is_replicated=settings.is_member),
        interception=interception,
        listener=listener,
    )
