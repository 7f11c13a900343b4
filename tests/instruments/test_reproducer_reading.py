"""Reproducers of strangers: each invalid file is one error that names it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import apass
from apass.instruments.reproducer.folder import write_reproducer
from tests.helpers.command_line import apass as command
from tests.helpers.repository import ROOT

SAMPLE: dict[str, Any] = json.loads((ROOT / "tests/instruments/data/reproducer.json").read_text())
EMPTY = {**SAMPLE, "pipeline": "Sequential"}
"""A reproducer whose pass is registered."""
LONGEST_MESSAGE = 1200
"""Characters of the longest message, which includes paths of this machine."""


def write(folder: Path, data: object) -> Path:
    """Write `reproducer.json`, as given or as JSON, and a module."""
    folder.mkdir(exist_ok=True)
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    (folder / "reproducer.json").write_bytes(text)
    (folder / "module.json").write_text('{"f": 1}')
    return folder


def message_of(folder: Path) -> str:
    """Return the message of reading a folder, after checks of every message."""
    with pytest.raises(apass.errors.ReproducerError) as caught:
        apass.read_reproducer(folder)
    message = str(caught.value)
    assert (str(folder) in message, len(message) < LONGEST_MESSAGE) == (True, True)
    result = command("replay", folder)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    return message


def test_sample_is_valid(tmp_path: Path) -> None:
    assert apass.read_reproducer(write(tmp_path, SAMPLE)).pass_name == SAMPLE["pass_name"]


INVALID: list[tuple[Any, str]] = [
    (b"", "is no reproducer: Expecting value"),
    (b"\xff\xfe{}", "is no reproducer: 'utf-8' codec can't decode byte"),
    (b"not JSON", "is no reproducer: Expecting value"),
    (b"[1]", "is no reproducer: expected a JSON object, got [1]"),
    (b"null", "is no reproducer: expected a JSON object, got None"),
    (b"[" * 200_000, "is no reproducer: the JSON is nested too deeply"),
    (b'{"format": 1, "format": 1}', "is no reproducer: the key 'format' is given twice"),
    (b'{"format": NaN}', "is no reproducer: NaN is not a value of JSON"),
    (b'{"format": 1e999}', "is no reproducer: the number 1e999 is too large"),
    (b'{"format": ' + b"9" * 5000 + b"}", "is no reproducer: Exceeds the limit"),
    (b"{}", "has no field 'format'"),
    ({**SAMPLE, "format": 99}, "was written by another version of apass; its format must be 1"),
    ({**SAMPLE, "format": [[]]}, "was written by another version of apass"),
]


@pytest.mark.parametrize(("data", "message"), INVALID, ids=range(len(INVALID)))
def test_invalid_file_is_one_error(data: object, message: str, tmp_path: Path) -> None:
    assert message in message_of(write(tmp_path / "r", data))


@pytest.mark.parametrize("field", sorted(SAMPLE))
def test_missing_field_is_named(field: str, tmp_path: Path) -> None:
    data = {key: value for key, value in SAMPLE.items() if key != field}
    assert f"reproducer.json has no field '{field}'" in message_of(write(tmp_path / "r", data))


VALUES: list[object] = [3, [], {"a": "b"}, True, "x" * 10_000]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
@pytest.mark.parametrize("field", sorted(set(SAMPLE) - {"facts", "format"}))
def test_field_of_another_type_is_named(field: str, value: object, tmp_path: Path) -> None:
    data = {**SAMPLE, field: value}
    checked = ("failure", "context", "versions", "module_file", "answers_file", "backend", "verify", "verify_outputs")
    if isinstance(value, str) and field not in checked:
        return
    if (isinstance(value, dict) and field == "versions") or (isinstance(value, list) and field == "loaded"):
        return
    message = message_of(write(tmp_path / "r", data))
    assert f"reproducer.json has an invalid field '{field}': expected " in message or f"field '{field}'" in message


@pytest.mark.parametrize(
    ("field", "inner", "value"),
    [
        ("failure", "type", None),
        ("failure", "message", 3),
        ("context", "opt_level", "2"),
        ("context", "opt_level", True),
        ("context", "disabled", "FoldConstant"),
        ("context", "required", [1]),
        ("context", "config", []),
        ("context", "lost", None),
    ],
)
def test_inner_field_of_another_type_is_named(field: str, inner: str, value: object, tmp_path: Path) -> None:
    data = {**SAMPLE, field: {**SAMPLE[field], inner: value}}
    message = message_of(write(tmp_path / "r", data))
    assert f"reproducer.json, field '{field}', has an invalid field '{inner}': expected " in message


def test_unknown_config_option_names_the_file(tmp_path: Path) -> None:
    folder = write(tmp_path / "r", {**SAMPLE, "context": {**SAMPLE["context"], "config": {"no.such.option": 1}}})
    result = command("replay", folder)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{folder}/reproducer.json has an invalid field 'context': unknown config option" in result.stderr


@pytest.mark.parametrize(
    "name",
    [
        "/etc/hostname",
        "../module.json",
        "a/module.json",
        "a\\module.json",
        "..",
        ".",
        "",
        ".hidden",
        "reproducer.json",
        "Traceback.txt",
        "module.json:stream",
        "m\x00",
        "m\n",
        "m" * 300,
    ],
)
def test_module_file_is_a_bare_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "module.json").write_text('{"secret": 1}')
    folder = write(tmp_path / "r", {**SAMPLE, "module_file": name})
    before = sorted(tmp_path.rglob("*"))
    assert "reproducer.json has an invalid field 'module_file': expected the bare name of" in message_of(folder)
    assert command("reduce", folder).exit_code == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"secret": 1}')
    folder = write(tmp_path / "r", {**SAMPLE, "module_file": "module.json"})
    (folder / "module.json").unlink()
    (folder / "module.json").symlink_to(tmp_path / "secret.json")
    for name in ("replay", "reduce"):
        result = command(name, folder)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"cannot read {folder / 'module.json'}: [Errno" in result.stderr
    (folder / "reproducer.json").rename(tmp_path / "real.json")
    (folder / "reproducer.json").symlink_to(tmp_path / "real.json")
    assert "Too many levels of symbolic links" in message_of(folder)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_large_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**30)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (make_folder, "Is a directory"),
        (os.mkfifo, "is not a regular file"),
        (make_large_file, "has 1,073,741,824 bytes, more than 67,108,864"),
    ],
)
def test_special_file_is_one_error(make: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    make(tmp_path / "reproducer.json")
    assert message in message_of(tmp_path)


def test_invalid_module_data_is_one_error(tmp_path: Path) -> None:
    folder = write(tmp_path / "r", EMPTY)
    for data in (b"", b"\xff", b"[" * 100_000):
        (folder / "module.json").write_bytes(data)
        result = command("replay", folder)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"cannot read {folder / 'module.json'}: " in result.stderr


def test_error_names_reproducers_beneath_the_folder(tmp_path: Path) -> None:
    for index in range(7):
        (tmp_path / "m.onnx").mkdir(exist_ok=True)
        write(tmp_path / "m.onnx" / f"{index}_Fail", SAMPLE)
    names = ", ".join(repr(str(tmp_path / "m.onnx" / f"{index}_Fail")) for index in range(5))
    for folder in (tmp_path, tmp_path / "m.onnx"):
        message = message_of(folder)
        assert message.endswith(f"; folders beneath it hold reproducers: {names} and 2 more")
    message = message_of(tmp_path / "m.onnx" / "0_Fail" / "reproducer.json")
    assert message.endswith(f"; give the folder of this file, '{tmp_path / 'm.onnx' / '0_Fail'}'")


@pytest.mark.parametrize(
    "changes",
    [
        {"pipeline": "x" * 10_000},
        {"pipeline": "x" * 10_000 + "("},
        {"pipeline": "Sequential{" + "x" * 10_000 + "=1}"},
        {"module_type": "x" * 10_000},
        {"module_file": None, "trouble": "x" * 10_000},
        {"pipeline": None, "trouble": "x" * 10_000},
    ],
    ids=str,
)
def test_message_quotes_the_start_of_long_fields(changes: dict[str, Any], tmp_path: Path) -> None:
    folder = write(tmp_path / "r", {**EMPTY, **changes})
    with pytest.raises(apass.errors.ReproducerError) as caught:
        anyio.run(apass.replay, folder)
    assert len(str(caught.value)) < LONGEST_MESSAGE


def test_name_with_a_lone_surrogate_is_kept(tmp_path: Path) -> None:
    reproducer = apass.read_reproducer(write(tmp_path / "a", {**SAMPLE, "module": "m\ud800"}))
    assert reproducer.module == "m\ud800"
    assert apass.read_reproducer(write_reproducer(tmp_path / "b", reproducer, b"{}", "")) == reproducer


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
records = st.dictionaries(st.sampled_from(sorted(SAMPLE)), json_values, max_size=3)


async def replay_or_raise(folder: Path) -> None:
    """Replay a reproducer; raise nothing but the documented error."""
    try:
        await apass.replay(folder)
    except apass.errors.ReproducerError as error:
        message = str(error)
    else:
        return
    assert len(message) < LONGEST_MESSAGE


def fuzz(examples: int) -> Callable[[Callable[..., object]], Callable[..., object]]:
    checks = [HealthCheck.function_scoped_fixture]
    return settings(deadline=None, max_examples=examples, suppress_health_check=checks)


def check_changed_fields(tmp_path: Path, changes: dict[str, Any]) -> None:
    anyio.run(replay_or_raise, write(tmp_path, {**EMPTY, **changes}))


def check_changed_bytes(tmp_path: Path, position: float, inserted: bytes, removed: int) -> None:
    data = json.dumps(EMPTY).encode()
    start = int(position * len(data))
    anyio.run(replay_or_raise, write(tmp_path, data[:start] + inserted + data[start + removed :]))


positions = st.floats(0, 1)
insertions = st.binary(max_size=4) | st.sampled_from([b'"', b"{", b"[", b"}", b"null", b"NaN", b"-", b"1e999"])
removals = st.integers(0, 40)


@fuzz(25)
@given(changes=records)
def test_changed_fields_raise_one_error(tmp_path: Path, changes: dict[str, Any]) -> None:
    check_changed_fields(tmp_path, changes)


@fuzz(25)
@given(position=positions, inserted=insertions, removed=removals)
def test_changed_bytes_raise_one_error(tmp_path: Path, position: float, inserted: bytes, removed: int) -> None:
    check_changed_bytes(tmp_path, position, inserted, removed)


@pytest.mark.slow
@fuzz(500)
@given(changes=records)
def test_many_changed_fields_raise_one_error(tmp_path: Path, changes: dict[str, Any]) -> None:
    check_changed_fields(tmp_path, changes)


@pytest.mark.slow
@fuzz(500)
@given(position=positions, inserted=insertions, removed=removals)
def test_many_changed_bytes_raise_one_error(tmp_path: Path, position: float, inserted: bytes, removed: int) -> None:
    check_changed_bytes(tmp_path, position, inserted, removed)
