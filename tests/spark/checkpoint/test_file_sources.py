"""The digest of a batch's input files, read from Spark's checkpoint. A batch number alone does not identify the files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.spark.checkpoint.checkpoint_files import input_in
from ottla.spark.checkpoint.file_sources import files_digest
from ottla.spark.errors import PipelineError

HEAD = 'v1\n{"batchWatermarkMs":0}\n'


def log(*entries: tuple[str, int]) -> str:
    """Return a log file as FileStreamSourceLog writes it, from each file's path and number."""
    return "v1\n" + "\n".join(json.dumps({"path": path, "timestamp": 5, "batchId": number}) for path, number in entries)


def digest(files: Mapping[str, str], text: str, before: str | None = None) -> str:
    return files_digest(HEAD + text, None if before is None else HEAD + before, files.get)


def at(number: int) -> str:
    return json.dumps({"logOffset": number})


def test_file_source_digest_depends_on_the_files() -> None:
    one, two = {"sources/0/0": log(("a", 0))}, {"sources/0/0": log(("a", 0), ("b", 0))}
    assert digest(one, at(0)) == digest(one, at(0)) != digest(two, at(0))
    assert digest({"sources/0/0": log(("b", 0), ("a", 0))}, at(0)) == digest(two, at(0))


def test_file_source_digest_includes_all_file_logs_since_the_previous_batch() -> None:
    """Spark logs files before it plans a batch. If the driver dies in between, the next batch covers several log files."""
    files = {f"sources/0/{n}": log((f"f{n}", n)) for n in range(3)}
    assert digest(files, at(2), at(1)) != digest(files, at(2), at(0)) != digest(files, at(2))
    assert digest(files, at(1), at(1)) == ""


def test_compacted_file_source_log_gives_the_same_digest() -> None:
    files = {f"sources/0/{n}": log((f"f{n}", n)) for n in range(10)}
    compacted = {"sources/0/9.compact": log(*((f"f{n}", n) for n in range(10)))}
    assert digest(files, at(9), at(7)) == digest(compacted, at(9), at(7))
    assert digest(files, at(9), at(7)) == digest({**compacted, "sources/0/8": files["sources/0/8"]}, at(9), at(7))


def test_checkpoint_digest_includes_every_file_source_of_the_stream() -> None:
    files = {"sources/0/0": log(("a", 0)), "sources/1/0": log(("b", 0)), "sources/2/0": log(("c", 0))}
    kafka = '{"t":{"0":3}}'
    assert digest(files, f"{kafka}\n{at(0)}") == digest({"sources/1/0": files["sources/1/0"]}, f"{kafka}\n{at(0)}")
    assert digest(files, f"{at(0)}\n-\n{at(0)}") != digest(files, at(0))
    assert digest(files, f"{kafka}\n17\n-") == ""


def test_file_source_without_checkpoint_entries_has_no_digest() -> None:
    assert digest({}, at(0)) == ""
    with pytest.raises(PipelineError, match="log of a file source cannot be read"):
        digest({"sources/0/0": 'v1\n{"path":'}, at(0))


def test_file_source_checkpoint_is_read_without_a_jvm(tmp_path: Path) -> None:
    for name, text in (
        ("offsets/0", HEAD + at(0)),
        ("offsets/1", HEAD + at(1)),
        ("sources/0/0", log(("a", 0))),
        ("sources/0/1", log(("b", 1))),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    ends = input_in(str(tmp_path), 1)
    assert (ends.text, ends.offsets) == ('{"logOffset":1}', {})
    assert ends.content == digest({"sources/0/1": log(("b", 1))}, at(1), at(0)) != ""
    (tmp_path / "sources/0/1").write_text(log(("b", 1), ("c", 1)))
    assert input_in(str(tmp_path), 1).content != ends.content
