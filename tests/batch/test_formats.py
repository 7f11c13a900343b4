"""Reading and writing of files by IR plug-ins."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apass.adapters.mapping import ADAPTER
from apass.batch.formats import ModelFormat, format_of
from apass.cli.app import app
from apass.core.ir_plugin import IRPlugin
from apass.errors import AdapterError
from tests.helpers.distributions import write_distribution
from tests.helpers.folders import files


def _do_nothing(_mod: object, _path: Path) -> None:
    pass


def _remove(_mod: object, path: Path) -> None:
    path.unlink()


def _write_elsewhere(_mod: object, path: Path) -> None:
    path.with_name("other").touch()


@pytest.mark.parametrize("save", [_do_nothing, _remove, _write_elsewhere])
def test_save_fails_if_plugin_writes_nothing(tmp_path: Path, save: Callable[[Any, Path], None]) -> None:
    target = tmp_path / "out" / "a.mine"
    with pytest.raises(AdapterError) as caught:
        ModelFormat(IRPlugin(adapter=ADAPTER, save=save)).save({}, target)
    assert str(caught.value) == (
        f"{target}: save of the IR plug-in of DictAdapter wrote nothing; "
        "it must write the file that its second argument names"
    )
    assert not target.exists()


def test_save_may_write_an_empty_file(tmp_path: Path) -> None:
    ModelFormat(IRPlugin(adapter=ADAPTER, save=lambda _mod, path: path.write_bytes(b""))).save({}, tmp_path / "a.mine")
    assert files(tmp_path) == ["a.mine"]


@pytest.fixture
def two_irs(packages: Path) -> None:
    """Install a package with two IRs, whose files have one suffix."""
    points = (
        "[apass.irs]\n.twin = two_irs:A\na:.twin = two_irs:A\nb:.twin = two_irs:B\n[apass.passes]\nb.P = two_irs:P\n"
    )
    write_distribution(packages, "two_irs", points)
    (packages / "two_irs.py").write_text(
        "import apass\nfrom apass.adapters.mapping import ADAPTER\n"
        "A = apass.IRPlugin(adapter=ADAPTER, default_pipeline='a.P')\n"
        "B = apass.IRPlugin(adapter=ADAPTER, load=lambda path: {'f': 'b'})\n"
        "P = apass.module_pass(lambda mod, ctx: {'f': mod['f'] + 'c'}, opt_level=0, name='P')\n"
    )


@pytest.mark.usefixtures("two_irs")
@pytest.mark.parametrize(
    ("pipeline", "ir"),
    [
        (None, None),
        ("", None),
        ("Mine,Other.b", None),
        ("Repeat{times=2}(b.P,a.P)", "b"),
        ("a.P,b.P", "a"),
        ("x.b.P,other_b.P,b.P", "b"),
    ],
)
def test_first_prefix_of_a_pipeline_chooses_the_ir(pipeline: str | None, ir: str | None) -> None:
    default_pipeline = format_of(Path("m.TWIN"), None, pipeline).default_pipeline
    assert default_pipeline == ("" if ir == "b" else "a.P")


@pytest.mark.usefixtures("two_irs")
def test_opt_reads_the_files_of_the_chosen_ir(tmp_path: Path) -> None:
    (tmp_path / "m.twin").write_text("unreadable for a")
    done = CliRunner().invoke(app, ["opt", str(tmp_path / "m.twin"), "-p", "b.P", "-o", str(tmp_path / "out")])
    assert (done.exit_code, (tmp_path / "out/m.twin").read_text()) == (0, ADAPTER.dumps({"f": "bc"}).decode())
