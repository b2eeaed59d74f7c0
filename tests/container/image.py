"""Builds the image's root directory without a container engine, by executing the steps of the Dockerfile's last stage.

Debian and Python are those of this machine: `inside` bind-mounts them into the root. Everything else comes from the Dockerfile. An
unknown step raises an exception, so that no step of the image is left untested.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from ottla.container.links import create_links

Step = Callable[["Image", str], None]

OF_THE_MACHINE = [
    *(str(path) for path in Path("/usr").iterdir() if path.is_dir() and path.name not in ("local", "sbin")),
    *(str(path) for path in Path("/usr/local").iterdir() if path.is_dir() and path.name != "bin"),
]
"""Directories of this machine that are bind-mounted into the root.

The excluded directories hold files of the image, or files that users of the image copy into it.
"""

ROOT = Path(__file__).parent.parent.parent
DOCKERFILE = ROOT / "Dockerfile"
USER_ID = 1000


class Image(msgspec.Struct):
    """A root directory, and the image configuration that an engine reads from a Dockerfile."""

    root: Path
    owned: list[str] = []
    """Paths inside the root that belong to the image's user."""
    environment: dict[str, str] = {}
    workdir: str = "/"
    command: list[str] = []
    entrypoint: list[str] = []
    health: list[str] = []
    ports: list[str] = []
    volumes: list[str] = []
    user: str = "root"

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")


def build(root: Path, dockerfile: Path = DOCKERFILE) -> Image:
    image = Image(root)
    for directory in ("dev", "etc", "home", "proc", "root", "tmp", "usr/local/bin", "usr/sbin"):
        (root / directory).mkdir(parents=True)
    root.chmod(0o755)
    image.at("tmp").chmod(0o1777)
    for name in ("bin", "lib", "lib64", "sbin"):
        image.at(name).symlink_to(f"usr/{name}")
    _as_python_slim(image)
    for instruction, arguments in _last_stage(dockerfile.read_text()):
        _STEPS[instruction](image, arguments)
    return image


def _as_python_slim(image: Image) -> None:
    """Create the contents of the base image: accounts, the linker's cache, and Python and ottla on the PATH."""
    image.at("etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
    image.at("etc/group").write_text("root:x:0:\n")
    shutil.copy("/etc/ld.so.cache", image.at("etc/ld.so.cache"))
    commands = image.at("usr/local/bin")
    python = Path(sys.executable).resolve()
    if python.is_relative_to("/usr/local/bin"):
        shutil.copy(python, commands)
    for name, module in (("python3", ""), ("ottla", "-m ottla ")):
        script = commands / name
        script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} {module}"$@"\n')
        script.chmod(0o755)


def _last_stage(text: str) -> list[tuple[str, str]]:
    lines = [line for line in re.sub(r"\\\n", " ", text).splitlines() if line.strip() and not line.startswith("#")]
    steps = [(word.upper(), arguments.strip()) for word, _, arguments in (line.partition(" ") for line in lines)]
    last = max(at for at, (instruction, _) in enumerate(steps) if instruction == "FROM")
    return steps[last + 1 :]


def _copy(image: Image, arguments: str) -> None:
    words = shlex.split(arguments)
    options = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
    source, target = (word for word in words if not word.startswith("--"))
    if "from" in options:
        assert (options, source) == ({"from": "build"}, "/wheels")
        return
    folder = image.at(target)
    folder.mkdir(parents=True, exist_ok=True)
    for file in (ROOT / source).iterdir():
        copied = folder / file.name
        shutil.copyfile(file, copied)
        copied.chmod(int(options["chmod"], 8))
        if "chown" in options:
            image.owned.append(f"{target}/{file.name}")
    if "chown" in options:
        image.owned.append(target)


def _run(image: Image, arguments: str) -> None:
    for step in arguments.split("&&"):
        name, *words = shlex.split(step)
        paths = [word for word in words if word.startswith("/")]
        if name == "useradd":
            user = words[-1]
            assert words[:-1] == ["--create-home", "--uid", str(USER_ID)]
            with image.at("etc/passwd").open("a") as passwd:
                passwd.write(f"{user}:x:{USER_ID}:{USER_ID}::/home/{user}:/bin/sh\n")
            image.at(f"home/{user}").mkdir()
            image.owned.append(f"/home/{user}")
        elif name == "mkdir":
            for path in paths:
                image.at(path).mkdir(parents=True, exist_ok=True)
        elif name == "chown":
            image.owned += paths
        elif name == "python3":
            assert words == ["-m", "ottla.container", "link-tools"]
            create_links(image.root)
        else:
            assert (name, words[-1]) in (("pip", "ottla[registry,security]"), ("rm", "/wheels")), step


def _env(image: Image, arguments: str) -> None:
    image.environment |= dict(word.split("=", 1) for word in shlex.split(arguments))


def _health(image: Image, arguments: str) -> None:
    image.health = json.loads(arguments.partition("CMD ")[2])


def _set(field: str, *, is_json: bool = False) -> Step:
    return lambda image, arguments: setattr(image, field, json.loads(arguments) if is_json else arguments)


_STEPS: dict[str, Step] = {
    "COPY": _copy,
    "RUN": _run,
    "ENV": _env,
    "HEALTHCHECK": _health,
    "WORKDIR": _set("workdir"),
    "USER": _set("user"),
    "CMD": _set("command", is_json=True),
    "ENTRYPOINT": _set("entrypoint", is_json=True),
    "EXPOSE": lambda image, arguments: image.ports.extend(arguments.split()),
    "VOLUME": lambda image, arguments: image.volumes.extend(arguments.split()),
}
