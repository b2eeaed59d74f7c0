"""Becomes process 1 of a container: ``python inside.py SPECIFICATION``, run in new namespaces by `running`.

It imports nothing of the project, so that any Python can run it. Published ports are listening sockets inherited from the process
outside; a child process forwards their connections to the container's network.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC = 1, 32, 4096, 16384
PR_SET_PDEATHSIG = 1
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, kind: str | None = None, flags: int = 0) -> None:
    target.mkdir(parents=True, exist_ok=True)
    names = (source.encode(), str(target).encode(), kind.encode() if kind else None)
    if libc.mount(*names, ctypes.c_ulong(flags), None):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"mount {source} {target}")


def mount_read_only(root: Path, writable: list[str]) -> None:
    """Make the root read-only, except for the directories of volumes. Only the mount of the root itself changes."""
    for path in writable:
        mount(str(root / path.lstrip("/")), root / path.lstrip("/"), flags=MS_BIND | MS_REC)
    mount("none", root, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)


def network_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def forward(published: list[tuple[int, int]]) -> None:
    def to(port: int) -> object:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                # Close the connection, as an engine's proxy does before the container listens.
                writer.close()
                return
            await asyncio.gather(pipe(reader, inner_writer), pipe(inner_reader, writer))

        return accepted

    for number, port in published:
        await asyncio.start_server(to(port), sock=socket.socket(fileno=number))  # type: ignore[arg-type]
    await asyncio.Event().wait()


def main(specification: dict[str, object]) -> None:
    root = Path(str(specification["root"]))
    network_up()
    socket.sethostname(str(specification["hostname"]))
    published: list[tuple[int, int]] = specification["published"]  # type: ignore[assignment]
    if not os.fork():
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        asyncio.run(forward(published))
        os._exit(0)
    for number, _ in published:
        os.close(number)
    # The root becomes a mount point, so that it can be mounted read-only.
    mount(str(root), root, flags=MS_BIND)
    for path in specification["bound"]:  # type: ignore[attr-defined]
        mount(path, root / path.lstrip("/"), flags=MS_BIND | MS_REC)
    try:
        mount("proc", root / "proc", "proc")
    except OSError:
        mount("/proc", root / "proc", flags=MS_BIND | MS_REC)
    for path, volume in specification["volumes"].items():  # type: ignore[attr-defined]
        mount(volume, root / path.lstrip("/"), flags=MS_BIND)
    if (writable := specification["writable"]) is not None:
        mount_read_only(root, writable)  # type: ignore[arg-type]
    os.chroot(root)
    os.chdir(str(specification["workdir"]))
    user_id: int = specification["user_id"]  # type: ignore[assignment]
    if user_id:
        os.setgroups([])
        os.setgid(user_id)
        os.setuid(user_id)
        # A change of the user resets the parent-death signal, which `unshare --kill-child` had set.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    environment: dict[str, str] = specification["environment"]  # type: ignore[assignment]
    command: list[str] = specification["command"]  # type: ignore[assignment]
    os.environ["PATH"] = environment["PATH"]
    os.execvpe(command[0], command, environment)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
