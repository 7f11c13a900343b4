"""`apass opt --cache`, and `apass cache`."""

from pathlib import Path

import pytest

from tests.cli.models import apass, files, write_model


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_second_run_takes_what_the_first_one_kept(tmp_path: Path, backend: str) -> None:
    for name in ("a", "b"):
        write_model(tmp_path / "in" / f"{name}.onnx", identities=2 if name == "a" else 3)
    place = tmp_path / "cache" / "results.db"
    for output in ("one", "two"):
        result = apass("opt", tmp_path / "in", "-o", tmp_path / output, "--cache", place, "--backend", backend)
        assert result.exit_code == 0, result.output
    info = apass("cache", "info", "--cache", place).stdout
    assert info.startswith(f"{place}: ")
    assert {name: (tmp_path / "one" / name).read_bytes() for name in files(tmp_path / "one")} == {
        name: (tmp_path / "two" / name).read_bytes() for name in files(tmp_path / "two")
    }
    # Nothing was added by the second run.
    apass("opt", tmp_path / "in", "-o", tmp_path / "two", "--cache", place)
    assert apass("cache", "info", "--cache", place).stdout == info
    assert apass("cache", "clear", "--cache", place).stdout.endswith("results forgotten\n")
    assert apass("cache", "info", "--cache", place).stdout == f"{place}: 0 results, 0 bytes\n"


def test_the_default_place_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APASS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert apass("cache", "info").stdout == f"{tmp_path}/apass/results.db: 0 results, 0 bytes\n"
    monkeypatch.setenv("APASS_CACHE", str(tmp_path / "mine.db"))
    assert apass("cache", "info").stdout == f"{tmp_path}/mine.db: 0 results, 0 bytes\n"


def test_a_place_that_is_a_folder_is_a_line(tmp_path: Path) -> None:
    result = apass("cache", "info", "--cache", tmp_path)
    assert (result.exit_code, result.stderr) == (
        2,
        f"apass: the cache '{tmp_path}' is a folder; name a file, as '{tmp_path}/results.db'\n",
    )
