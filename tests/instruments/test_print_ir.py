"""The printing instruments: exact output, output files, and single writes."""

import io
import pickle
import sys
from collections import Counter
from contextlib import redirect_stdout
from textwrap import dedent
from typing import Any

import anyio.lowlevel
import pytest

import apass
from apass.instruments import (
    PassPrintingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    PrintIRAfter,
    PrintIRBefore,
    PrintIRFailed,
)

Module = dict[str, int]


@apass.module_pass(opt_level=0)
def Double(mod: Module, ctx: apass.PassContext) -> Module:
    return {name: 2 * value for name, value in mod.items()}


@apass.function_pass(opt_level=1)
async def Increment(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await anyio.lowlevel.checkpoint()
    return func + 1


@apass.module_pass(opt_level=0)
def Fail(mod: Module, ctx: apass.PassContext) -> Module:
    raise ValueError("no")


class Writes(io.StringIO):
    """A file that records each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str, /) -> int:
        self.writes.append(text)
        return super().write(text)


async def printed(*instruments: object) -> str:
    """Return the text that a run of two passes prints to `sys.stdout`."""
    with redirect_stdout(io.StringIO()) as out:
        async with apass.PassContext(instruments=instruments):
            await apass.Sequential([Double, Increment])({"f": 1, "g": 2})
    return out.getvalue()


@pytest.mark.anyio
async def test_selected_passes_are_printed_before_and_after() -> None:
    assert await printed(PrintIRBefore({"Double"}), PrintIRAfter(["Double", "Increment"])) == dedent(
        """\
        Print IR before: Double
        f: 1
        g: 2

        Print IR after: Double
        f: 2
        g: 4

        Print IR after: Increment
        f: 3
        g: 5

        """
    )


class Scale(apass.ModulePass[Module], opt_level=0):
    """A pass with options."""

    factor: int = 1
    words: tuple[str, ...] = ()
    key: Any = None

    def transform_module(self, mod: Module, ctx: apass.PassContext) -> Module:
        return {name: self.factor * value for name, value in mod.items()}


@pytest.mark.anyio
async def test_heading_shows_options_of_the_pass() -> None:
    file = io.StringIO()
    passes: list[apass.Pass[Module]] = [
        Scale(factor=3),
        Scale(),
        apass.Repeat([Double], times=2, name="twice"),
        Scale(key=object()),
        Scale(words=("long\n",) * 100),
    ]
    async with apass.PassContext(instruments=[PrintIRAfter(file=file), PrintIRBefore(["Scale"], file)]):
        await apass.optimize_all({"m": {"f": 1}}, apass.Sequential(passes, name="all"))
    headings = [line for line in file.getvalue().splitlines() if line.startswith("Print IR after")]
    words = "words=[" + '"long\\n",' * 13
    assert headings == [
        "Print IR after: Scale{factor=3} (module 'm')",
        "Print IR after: Scale (module 'm')",
        "Print IR after: Double (module 'm')",
        "Print IR after: Double (module 'm')",
        "Print IR after: twice{times=2} (module 'm')",
        "Print IR after: Scale{key=...} (module 'm')",
        f"Print IR after: Scale{{{words[:120]}...}} (module 'm')",
        "Print IR after: all (module 'm')",
    ]
    assert "Print IR before: Scale{factor=3} (module 'm')\nf: 1\n" in file.getvalue()


@pytest.mark.anyio
async def test_every_pass_is_printed_without_names() -> None:
    assert await printed(PrintIRBefore(), PrintIRAfter(None)) == dedent(
        """\
        Print IR before: sequential
        f: 1
        g: 2

        Print IR before: Double
        f: 1
        g: 2

        Print IR after: Double
        f: 2
        g: 4

        Print IR before: Increment
        f: 2
        g: 4

        Print IR after: Increment
        f: 3
        g: 5

        Print IR after: sequential
        f: 3
        g: 5

        """
    )


@pytest.mark.anyio
async def test_module_without_selected_functions_is_not_printed() -> None:
    assert await printed(PrintIRBefore(functions=["h*"]), PrintIRAfter(["Double"], functions=["h"])) == ""
    assert await printed(PrintIRAfter(["Double"], functions=["g", "h"])) == "Print IR after: Double\ng:\n4\n\n"


@pytest.mark.anyio
async def test_nothing_is_printed_with_empty_names() -> None:
    assert await printed(PrintIRBefore([]), PrintIRAfter(()), PassPrintingInstrument()) == ""


@pytest.mark.anyio
async def test_pass_printing_instrument_accepts_names_like_tvm() -> None:
    assert await printed(PassPrintingInstrument(["Increment"], print_after_pass_names=["Double"])) == dedent(
        """\
        Print IR after: Double
        f: 2
        g: 4

        Print IR before: Increment
        f: 2
        g: 4

        """
    )


@pytest.mark.anyio
async def test_print_all_instruments_print_pass_metadata() -> None:
    assert await printed(PrintBeforeAll(), PrintAfterAll()) == dedent(
        """\
        Before Running Pass: PassInfo(opt_level=0, name='sequential', required=())
        f: 1
        g: 2

        Before Running Pass: PassInfo(opt_level=0, name='Double', required=())
        f: 1
        g: 2

        After Running Pass: PassInfo(opt_level=0, name='Double', required=())
        f: 2
        g: 4

        Before Running Pass: PassInfo(opt_level=1, name='Increment', required=())
        f: 2
        g: 4

        After Running Pass: PassInfo(opt_level=1, name='Increment', required=())
        f: 3
        g: 5

        After Running Pass: PassInfo(opt_level=0, name='sequential', required=())
        f: 3
        g: 5

        """
    )


@pytest.mark.anyio
async def test_failed_pass_is_printed_before_only() -> None:
    file = io.StringIO()
    async with apass.PassContext(instruments=[PrintIRBefore(file=file), PrintIRAfter(file=file)]):
        with pytest.raises(ValueError, match="no"):
            await Fail({"f": 1})
    assert file.getvalue() == "Print IR before: Fail\nf: 1\n\n"


@pytest.mark.anyio
async def test_each_print_is_a_single_named_write() -> None:
    file = Writes()
    instruments = [
        PrintIRBefore(["Increment"], file),
        PrintIRAfter(["Increment"], file),
        PassPrintingInstrument([], ["Double"], file),
        PrintBeforeAll(file),
        PrintAfterAll(file),
    ]
    modules: dict[str, Module] = {f"m{n}": {"f": n, "g": n} for n in range(100)}
    async with apass.PassContext(instruments=instruments):
        await apass.optimize_all(modules, apass.Sequential([Double, Increment]), limit=None)

    def piece(heading: str, name: str, value: int) -> str:
        return f"{heading} (module {name!r})\nf: {value}\ng: {value}\n\n"

    expected: Counter[str] = Counter()
    for n, name in enumerate(modules):
        values = {"sequential": (n, 2 * n + 1), "Double": (n, 2 * n), "Increment": (2 * n, 2 * n + 1)}
        for pass_, (before, after) in values.items():
            info = f"PassInfo(opt_level={int(pass_ == 'Increment')}, name={pass_!r}, required=())"
            expected[piece(f"Before Running Pass: {info}", name, before)] += 1
            expected[piece(f"After Running Pass: {info}", name, after)] += 1
        expected[piece("Print IR before: Increment", name, 2 * n)] += 1
        expected[piece("Print IR after: Increment", name, 2 * n + 1)] += 1
        expected[piece("Print IR after: Double", name, 2 * n)] += 1
    assert Counter(file.writes) == expected


@pytest.mark.anyio
async def test_module_without_adapter_raises_adapter_error() -> None:
    pass_: apass.Pass[Any] = apass.module_pass(lambda mod, ctx: mod, opt_level=0, name="Keep")
    async with apass.PassContext(instruments=[PrintIRBefore()]):
        with pytest.raises(apass.errors.AdapterError, match=r"no IR adapter for modules of type builtins\.object"):
            await pass_(object())


@pytest.mark.parametrize("names", ["Double", 3, ["Double", 3]])
def test_invalid_names_raise_type_error(names: Any) -> None:
    for make in (PrintIRBefore, PrintIRAfter):
        with pytest.raises(
            TypeError, match=r"^names must (be a list or set of pass names|contain names of passes), got "
        ):
            make(names)
    with pytest.raises(TypeError, match=r"^print_before_pass_names must "):
        PassPrintingInstrument(names, [])
    with pytest.raises(TypeError, match=r"^print_after_pass_names must "):
        PassPrintingInstrument([], names)


def test_current_stdout_is_the_default_file(capsys: pytest.CaptureFixture[str]) -> None:
    context = apass.PassContext(instruments=[PrintIRBefore()])
    apass.run(Double, {"f": 1}, context=context)
    with redirect_stdout(sys.stderr):
        apass.run(Double, {"f": 2}, context=context)
    assert capsys.readouterr() == ("Print IR before: Double\nf: 1\n\n", "Print IR before: Double\nf: 2\n\n")


def test_text_of_worker_is_escaped_for_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for file, shown in ((Terminal(), "a\\x1b[2Jb"), (io.StringIO(), "a\x1b[2Jb")):
        original = PrintAfterAll(file)
        twin = pickle.loads(pickle.dumps(original.for_worker()))()
        twin.run_after_pass({"f": "a\x1b[2Jb"}, apass.PassInfo(0, "P"))
        original.merge_records(twin.worker_records())
        assert shown in file.getvalue()


@pytest.mark.anyio
async def test_failed_pass_is_printed_with_its_input() -> None:
    @apass.module_pass(opt_level=0)
    async def Fail(mod: dict[str, int], ctx: apass.PassContext) -> dict[str, int]:
        raise ValueError("too hard")

    file = io.StringIO()
    pipeline = apass.Sequential([apass.Sequential([Double, Fail], name="inner")])
    with pytest.raises(ValueError, match="too hard"):
        await pipeline.run({"f": 1}, name="a", ctx=apass.PassContext(instruments=[PrintIRFailed(file=file)]))
    assert file.getvalue() == "Print IR of failed pass: Fail (module 'a')\nf: 2\n\n"
