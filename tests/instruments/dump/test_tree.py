"""`DumpTree`: the files of a run, and resuming from them."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import apass
from apass.adapters.mapping import ADAPTER
from apass.instruments import DumpTree
from apass.instruments.dump.tree import read_dumped
from tests.helpers.folders import texts_without_times

pytestmark = pytest.mark.anyio

Module = dict[str, int]


@apass.function_pass(opt_level=0)
async def Increment(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await anyio.lowlevel.checkpoint()
    return func + 1


@apass.module_pass(opt_level=0)
def Keep(mod: Module, ctx: apass.PassContext) -> Module:
    return mod


@apass.module_pass(opt_level=0)
async def Fail(mod: Module, ctx: apass.PassContext) -> Module:
    raise ValueError("no more\nthan this")


@apass.function_pass(opt_level=0)
async def Nest(func: int, mod: Module, ctx: apass.PassContext) -> int:
    return (await Increment({"inner": func}))["inner"]


def _texts(folder: Path) -> list[Path]:
    """Return the text files of passes on the module itself."""
    paths = (path for path in folder.rglob("*.txt") if path.name != "index.txt" and ".input" not in path.name)
    return [path for path in paths if "@" not in str(path)]


async def test_files_are_nested_like_the_pipeline(tmp_path: Path) -> None:
    async with apass.PassContext(instruments=[DumpTree(tmp_path)]):
        await apass.optimize_all({"m": {"f": 1}}, apass.Sequential([Keep, apass.Sequential([Increment], name="in")]))
    files = texts_without_times(tmp_path)
    assert sorted(files) == [
        "index.txt",
        "m/0_sequential.input.json",
        "m/0_sequential.input.txt",
        "m/0_sequential.txt",
        "m/0_sequential/0_Keep.txt",
        "m/0_sequential/1_in.txt",
        "m/0_sequential/1_in/0_Increment.json",
        "m/0_sequential/1_in/0_Increment.txt",
        "m/index.txt",
    ]
    assert files["index.txt"] == "m  4 passes, 1 changed something, T s\n"
    assert files["m/0_sequential/1_in/0_Increment.txt"] == dedent("""\
        # after 0:sequential/1:in/0:Increment of module 'm'
        # changed, T ms
        # module: 0_Increment.json
        # resume: apass.rest_of(pipeline, apass.Position.parse('0:sequential/1:in/0:Increment'))

        f: 2
        """)
    assert files["m/0_sequential/0_Keep.txt"] == dedent("""\
        # after 0:sequential/0:Keep of module 'm'
        # unchanged, T ms
        # module: ../0_sequential.input.json
        # resume: apass.rest_of(pipeline, apass.Position.parse('0:sequential/0:Keep'))
        # text: ../0_sequential.input.txt
        """)
    assert files["m/index.txt"].splitlines()[0] == "module 'm'"
    assert [line.split()[1:] for line in files["m/index.txt"].splitlines()[4:]] == [
        ["0:sequential", "m/0_sequential.txt"],
        ["0:Keep", "m/0_sequential/0_Keep.txt"],
        ["1:in", "m/0_sequential/1_in.txt"],
        ["changed", "0:Increment", "m/0_sequential/1_in/0_Increment.txt"],
    ]


async def test_index_contains_the_failure(tmp_path: Path) -> None:
    async with apass.PassContext(instruments=[DumpTree(tmp_path)]):
        with pytest.raises(ValueError, match="no more"):
            await apass.Sequential([Increment, Fail])({"f": 1})
    files = texts_without_times(tmp_path)
    assert "failed" in files["module/index.txt"]
    assert files["index.txt"].endswith("failed: ValueError: no more\n")


async def test_passes_in_a_body_have_a_function_folder(tmp_path: Path) -> None:
    async with apass.PassContext(instruments=[DumpTree(tmp_path)]):
        await Nest({"f": 1, "g": 5})
    files = texts_without_times(tmp_path)
    assert "g: 6" in files["module/0_Nest.txt"]
    assert "inner: 5" in files["module/0_Nest@g/0_Increment.input.txt"]
    assert "inner: 6" in files["module/0_Nest@g/0_Increment.txt"]


async def test_run_resumes_from_any_file(tmp_path: Path) -> None:
    pipeline = apass.Sequential([Increment, apass.Repeat([Increment, Keep], times=3), Nest])
    async with apass.PassContext(instruments=[DumpTree(tmp_path)]):
        whole = await pipeline({"f": 1})
    tried = 0
    for path in _texts(tmp_path):
        dumped = read_dumped(path)
        mod: Module = ADAPTER.loads(dumped.data.read_bytes())
        result: Any = await apass.rest_of(pipeline, dumped.position)(mod)
        assert result == whole, path
        tried += 1
    assert tried == 1 + 1 + 1 + 6 + 1


async def test_inner_file_names_a_resumable_file(tmp_path: Path) -> None:
    pipeline = apass.Sequential([Nest, apass.Race([apass.Sequential([Keep]), Increment], key=lambda mod: mod["f"])])
    async with apass.PassContext(instruments=[DumpTree(tmp_path)]):
        await pipeline({"f": 1})
    top = tmp_path / "module" / "0_sequential"
    files = [path for path in top.rglob("*.txt") if ".input" not in path.name]
    resume_lines = {str(path.relative_to(top)): path.read_text().splitlines()[3] for path in files}
    assert resume_lines == {
        "0_Nest.txt": "# resume: apass.rest_of(pipeline, apass.Position.parse('0:sequential/0:Nest'))",
        "0_Nest@f/0_Increment.txt": "# resume: not from here, within pass 'Nest', but from ../0_Nest.txt",
        "1_Race.txt": "# resume: apass.rest_of(pipeline, apass.Position.parse('0:sequential/1:Race'))",
        "1_Race@1/0_sequential.txt": "# resume: not from here, within pass 'Race', but from ../1_Race.txt",
        "1_Race@1/0_sequential/0_Keep.txt": "# resume: not from here, within pass 'Race', but from ../../1_Race.txt",
        "1_Race@2/0_Increment.txt": "# resume: not from here, within pass 'Race', but from ../1_Race.txt",
    }
    for name, line in resume_lines.items():
        if "not from here" not in line:
            rest = apass.rest_of(pipeline, read_dumped(top / name).position)
            assert await rest(ADAPTER.loads(read_dumped(top / name).data.read_bytes())) == {"f": 2}


async def test_foreign_file_raises_resume_error(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hello\n")
    for path, message in ((tmp_path / "x.txt", "it is no text file that"), (tmp_path / "y.txt", "No such file")):
        with pytest.raises(apass.errors.ResumeError, match=message):
            read_dumped(path)
    with pytest.raises(NotADirectoryError, match="choose another"):
        DumpTree(tmp_path / "x.txt")


@pytest.mark.parametrize("name", ["/etc/hostname", "../../../secret.json", "link.json"])
async def test_module_file_outside_of_the_dump_is_rejected(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("{}")
    async with apass.PassContext(instruments=[DumpTree(tmp_path / "dump")]):
        await apass.Sequential([Increment])({"f": 1})
    path = tmp_path / "dump" / "module" / "0_sequential" / "0_Increment.txt"
    (path.parent / "link.json").symlink_to(tmp_path / "secret.json")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], f"# module: {name}\n"]))
    with pytest.raises(apass.errors.ResumeError, match="is outside of the dump"):
        read_dumped(path)


async def test_header_shows_options_of_the_pass(tmp_path: Path) -> None:
    async with apass.PassContext(instruments=[DumpTree(tmp_path)]):
        await apass.Repeat([Keep], times=2, name="twice")({"f": 1})
    text = (tmp_path / "module/0_twice.txt").read_text()
    assert [line for line in text.splitlines() if line.startswith("# pass")] == ["# pass: twice{times=2}"]
    assert read_dumped(tmp_path / "module/0_twice.txt").position.text == "0:twice"


async def test_name_cannot_forge_a_line_of_the_header(tmp_path: Path) -> None:
    name = "Forge\n# changed\n# module: /etc/hostname\n#"
    forge = apass.module_pass(lambda mod, ctx: {"f": 2}, opt_level=0, name=name)
    async with apass.PassContext(instruments=[DumpTree(tmp_path)]):
        await forge({"f": 1})
    (path,) = _texts(tmp_path)
    assert read_dumped(path).data.is_relative_to(tmp_path)


async def test_pass_on_another_module_has_its_own_input(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    async def Try(mod: Module, ctx: apass.PassContext) -> Module:
        assert await Increment({"g": 5}) == {"g": 6}
        await Increment({"h": 7})
        return mod

    async with apass.PassContext(instruments=[DumpTree(tmp_path)]):
        await apass.optimize_all({"m": {"f": 1}}, Try)
    files = texts_without_times(tmp_path)
    assert "g: 5" in files["m/0_Try/0_Increment.input.txt"]
    assert "h: 7" in files["m/0_Try/1_Increment.input.txt"]
    assert "# module: 0_Try.input.json\n" in files["m/0_Try.txt"]
