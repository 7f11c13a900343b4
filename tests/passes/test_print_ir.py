"""`PrintIR`: its exact output, and its use as a registered pass."""

import io
from contextlib import redirect_stdout
from textwrap import dedent
from typing import Any

import pytest

import apass
from apass.passes.print_ir import PrintIR
from apass.pipelines.parser import parse_pipeline

Module = dict[str, int]


@apass.module_pass(opt_level=0)
def Double(mod: Module, ctx: apass.PassContext) -> Module:
    return {name: 2 * value for name, value in mod.items()}


class Writes(io.StringIO):
    """A file that remembers what each write was given."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def write(self, text: str, /) -> int:
        self.pieces.append(text)
        return super().write(text)


@pytest.mark.anyio
async def test_print_ir_prints_and_returns_the_module() -> None:
    mod = {"f": 1, "g": 2}
    with redirect_stdout(io.StringIO()) as out:
        assert await PrintIR("as given")(mod) is mod
        assert await apass.Sequential([PrintIR(), Double, PrintIR("doubled")])(mod) == {"f": 2, "g": 4}
    assert out.getvalue() == dedent(
        """\
        PrintIR(as given):
        f: 1
        g: 2
        PrintIR():
        f: 1
        g: 2
        PrintIR(doubled):
        f: 2
        g: 4
        """
    )


@pytest.mark.anyio
async def test_print_ir_runs_at_level_0() -> None:
    with redirect_stdout(io.StringIO()) as out:
        async with apass.PassContext(opt_level=0):
            await apass.Sequential([PrintIR("here")])({"f": 1})
    assert out.getvalue() == "PrintIR(here):\nf: 1\n"


@pytest.mark.anyio
async def test_concurrent_prints_are_named_single_writes() -> None:
    modules: dict[str, Module] = {f"m{n}": {"f": n, "g": n} for n in range(100)}
    with redirect_stdout(Writes()) as out:
        await apass.optimize_all(modules, PrintIR("at once"), limit=None)
    assert isinstance(out, Writes)
    expected = [f"PrintIR(at once) (module 'm{n}'):\nf: {n}\ng: {n}\n" for n in range(100)]
    assert sorted(out.pieces) == sorted(expected)


def test_print_ir_is_registered_with_its_option() -> None:
    pass_ = apass.get_pass("PrintIR", header="after folding")
    assert pass_ == PrintIR("after folding") != PrintIR()
    assert str(pass_) == 'PrintIR{header="after folding"}'
    assert str(apass.get_pass("PrintIR")) == str(PrintIR()) == "PrintIR"
    assert parse_pipeline(f"PrintIR,{pass_}").passes == (PrintIR(), pass_)
    assert pass_.info == apass.PassInfo(opt_level=0, name="PrintIR")


@pytest.mark.parametrize("header", [None, 3, ["x"]])
def test_print_ir_header_must_be_a_string(header: Any) -> None:
    with pytest.raises(apass.errors.PassDefinitionError, match=r"^the header of PrintIR must be a string, got "):
        PrintIR(header)
    with pytest.raises(
        apass.errors.PassDefinitionError, match=r"^option 'header' of pass 'PrintIR': expected str, got "
    ):
        apass.get_pass("PrintIR", header=header)
