"""What `view`, `diff`, `rich.print` and notebooks show of each object."""

import io
from importlib import import_module
from typing import Any

import onnx
import onnx_ir
import pytest
from rich.console import Console

import apass
from apass import instruments
from apass.debugging.bisect import bisect
from apass.instruments.memory import PassMemory
from apass.instruments.timing.tables import FunctionTiming, PassTiming
from tests.helpers.html_pages import html_of, read_html

Module = dict[str, Any]


@apass.function_pass(opt_level=2, required=["PrintIR"])
def Halve(func: int, mod: Module, ctx: apass.PassContext) -> int:
    """Halve every function.

    The rest of the text is not shown.
    """
    ctx.statistic("halved", 1)
    ctx.remark(apass.Remark.passed("Halved", f"{func} is even", apass.Span("a.txt", 3, 3, 5, 6)))
    if func == 9:
        ctx.diag_ctx.warning("nine is odd", apass.Span("a.txt", 1, 1, 1, 5))
        raise ValueError("nine")
    return func // 2


Once = apass.Sequential([Halve], name="once")


def is_large(mod: Module) -> bool:
    return len(mod) > 1


PIPELINE = apass.Sequential(
    [
        Halve,
        apass.Repeat([apass.PrintIR("round")], times=3),
        apass.If(is_large, [Halve], [apass.Race([Halve, apass.Sequential([], opt_level=4, name="slow")])]),
    ],
    name="main",
)


def shown(obj: object) -> str:
    """Return the display of an object as text, which its HTML must contain, too."""
    text = str(apass.view(obj))
    html = "".join("".join(read_html(html_of(apass.view(obj))).texts).split())
    words = [word for word in text.split() if not set(word) & set("█░")]
    assert [word for word in words if word not in html] == []
    return text


def in_terminal(obj: object) -> str:
    """Return what rich prints of an object."""
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(obj)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_view_shows_pipeline_as_tree() -> None:
    assert shown(PIPELINE) == (
        "main  Sequential  level 0\n"
        "  Halve  FunctionPass  level 2  requires PrintIR  Halve every function.\n"
        "  Repeat  level 0  times=3\n"
        "    PrintIR  level 0  header=round  Prints the module to the current `sys.stdout` and returns it; "
        "TVM's `PrintIR`.\n"
        "  If  level 0  predicate=is_large\n"
        "    Halve  FunctionPass  level 2  requires PrintIR  Halve every function.\n"
        "    otherwise\n"
        "      Race  level 0\n"
        "        Halve  FunctionPass  level 2  requires PrintIR  Halve every function.\n"
        "        slow  Sequential  level 4"
    )


def test_rich_prints_pipeline_as_tree() -> None:
    assert in_terminal(apass.Sequential([Halve, apass.Repeat([Halve], times=2)], name="main")) == (
        "main  Sequential  level 0\n"
        "├── Halve  FunctionPass  level 2  requires PrintIR  Halve every function.\n"
        "└── Repeat  level 0  times=2\n"
        "    └── Halve  FunctionPass  level 2  requires PrintIR  Halve every function."
    )


def test_view_shows_plan_with_reasons() -> None:
    assert shown(apass.plan(PIPELINE, apass.PassContext(disabled_pass=["If"]))) == (
        "run   main  level 0\n"
        "  run   PrintIR  level 0  required by Halve\n"
        "  run   Halve  level 2\n"
        "  run   Repeat  level 0  after the first round, until one changes nothing, decided at run time; "
        "at most 3 rounds\n"
        "    run   PrintIR  level 0\n"
        "  skip  If  level 0  disabled\n"
        "    skip  Halve  level 2  If is skipped\n"
        "    skip  Race  level 0  If is skipped\n"
        "      skip  Halve  level 2  Race is skipped\n"
        "      skip  slow  level 4  Race is skipped"
    )


def test_view_shows_context_and_pending_diagnostics() -> None:
    diag_ctx = apass.DiagnosticContext({"a.txt": "nine"})
    diag_ctx.error("bad", apass.Span("a.txt", 1, 1, 1, 5))
    context = apass.PassContext(
        3, disabled_pass=["B", "A"], instruments=[instruments.StatisticsInstrument()], deadline=2, diag_ctx=diag_ctx
    )
    assert shown(context) == (
        "PassContext\n"
        "  setting          value\n"
        "  opt_level        3\n"
        "  disabled_pass    A, B\n"
        "  instruments      StatisticsInstrument\n"
        "  max_concurrency  256\n"
        "  deadline         2 s\n"
        "1 pending diagnostic\n"
        "  error: bad\n"
        "   --> a.txt:1:1\n"
        "    |\n"
        "  1 | nine\n"
        "    | ^^^^"
    )


def test_view_shows_timings_with_bars() -> None:
    inner = PassTiming(name="In", module="a", calls=3, failed=1, unfinished=0, wall=0.02, busy=0.02, children=())
    outer = PassTiming(
        name="Out",
        module="a",
        calls=1,
        failed=0,
        unfinished=0,
        wall=0.04,
        busy=0.01,
        hooks_wall=0.01,
        children=(inner,),
    )
    assert shown([outer]) == (
        "wall ms  busy ms  waiting ms  busy, waiting         pass\n"
        " 40.000   10.000      30.000  █████░░░░░░░░░░░░░░░  Out  module 'a'\n"
        " 20.000   20.000       0.000  ██████████              In  3 calls, 1 failed\n"
        " 10.000    0.000      10.000  ░░░░░                   (hooks of instruments)"
    )
    slow = FunctionTiming(module="a", function="f", path="Out/In", failed=True, wall=0.5, busy=0.25)
    assert in_terminal(apass.view([slow])) == (
        "wall ms  busy ms  waiting ms  busy, waiting         function\n"
        "500.000  250.000     250.000  ██████████░░░░░░░░░░  a:f  Out/In  failed"
    )


def test_view_shows_memory_statistics_and_remarks() -> None:
    memory = PassMemory(name="Fill", calls=2, grown=2**20, peak=2**21, module=None)
    assert shown([memory]) == (
        "peak MiB  grown MiB  calls  peak                  pass\n   2.000      1.000      2  ████████████████████  Fill"
    )
    statistics = instruments.StatisticsInstrument()
    remarks = instruments.RemarksInstrument(limit=1)
    apass.run(Halve, {"f": 8, "g": 4}, context=apass.PassContext(instruments=[statistics, remarks]))
    assert shown(statistics) == "amount  statistic\n        Halve\n     2    halved"
    assert shown(remarks) == (
        "kind    remark  pass   function  message\n"
        "passed  Halved  Halve  f         8 is even  a.txt:3:5\n"
        "1 more exceeded the limit"
    )


@pytest.mark.anyio
async def test_view_shows_outcomes_with_errors() -> None:
    async with apass.PassContext() as ctx:
        outcomes = await apass.optimize_all({"good": {"f": 8}, "bad": {"f": 9}}, Once, errors="collect")
    table = shown(outcomes).splitlines()
    assert (table[0], [line.split(None, 2)[-1] for line in table[2:]]) == (
        "2 modules  1 failed",
        ["failed bad  ValueError: nine", "done good"],
    )
    good, bad = (shown(outcomes[name]).splitlines() for name in ("good", "bad"))
    assert (good[0].split("  ")[0], good[1:]) == ("done good", ["  dict  1 function", "    f: 4"])
    assert (bad[0].rpartition("  ")[0], bad[1:]) == (
        "failed bad  ValueError: nine",
        ["  in pass 'once > Halve', function 'f', module 'bad'"],
    )
    origin = "  = in pass Halve, function f, module bad"
    assert shown(ctx.diag_ctx) == f"warning: nine is odd\n --> a.txt:1:1\n{origin}"
    assert shown(ctx.diag_ctx.diagnostics[0]) == shown([*ctx.diag_ctx.diagnostics]) == shown(ctx.diag_ctx)


def test_view_folds_functions_of_module() -> None:
    assert shown({"one": 1, "two": 2, "long": ["x" * 60, "y" * 60], "last": 3}) == (
        "dict  4 functions\n"
        "  one: 1\n"
        "  two: 2\n"
        "  long  2 lines\n"
        f"    long: ['{'x' * 60}',\n"
        f"     '{'y' * 60}']\n"
        "  last: 3"
    )
    small, large = ("<details open>", "<details>")
    assert html_of(apass.view({"f": list(range(30))})).count(small) == 2
    assert html_of(apass.view({"f": list(range(300))})).count(large) == 1


def test_view_limits_functions_lines_and_columns() -> None:
    many = shown({f"f{number}": number for number in range(150)}).splitlines()
    assert (len(many), many[-1]) == (102, "  ... and 50 more functions")
    long = shown({"f": list(range(2000))}).splitlines()
    assert (len(long), long[-1]) == (1003, "    ... and 1000 more lines")
    assert len(shown({"f": "x" * 10**6})) < 600
    large = {f"f{number}": list(range(1000)) for number in range(100)}
    assert len(str(apass.view(large)).splitlines()) == len(str(apass.diff({}, large)).splitlines()) + 1 == 5201
    assert len(html_of(apass.view([apass.Remark.passed("A", "b")] * 5000))) < 500_000
    noisy = shown([apass.Diagnostic.warning("x")] * 5000).splitlines()
    assert (len(noisy), noisy[-1]) == (1001, "... and 8999 more lines")


def test_relay_module_shows_itself() -> None:
    mod = apass.relay.fromtext('#[version = "0.0.5"]\ndef @main(%x: int32) -> int32 {\n  add(%x, 2)\n}\n')
    assert shown(mod) == (
        "IRModule  1 function\n"
        '  #[version = "0.0.5"]\n'
        "  main  3 lines\n"
        "    def @main(%x: int32) -> int32 {\n"
        "      add(%x, 2 /* ty=int32 */) /* ty=int32 */\n"
        "    }"
    )
    html = html_of(mod)
    assert '<span class="variable">@main</span>' in html
    assert '<span class="keyword">int32</span>' in html
    assert in_terminal(mod).splitlines()[0] == "IRModule  1 function"


def test_diff_shows_changed_functions() -> None:
    before, after = {"f": 8, "g": 1, "h": 0}, {"f": 4, "g": 1, "i": 0}
    assert str(apass.diff(before, after)) == (
        "f  +1 -1\n  @@ -1 +1 @@\n  -f: 8\n  +f: 4\n"
        "h  +0 -1\n  @@ -1 +0,0 @@\n  -h: 0\n"
        "i  +1 -0\n  @@ -0,0 +1 @@\n  +i: 0"
    )
    assert '<span class="bad">-f: 8</span>' in html_of(apass.diff(before, after))
    assert str(apass.diff(before, before)) == "the texts of the modules are equal"


@pytest.mark.anyio
async def test_view_shows_bisected_pass_and_report() -> None:
    found = await bisect({"f": 8}, Once, lambda mod: mod["f"] > 4)
    assert shown(found) == f"{found}\nf  +1 -1\n  @@ -1 +1 @@\n  -f: 8\n  +f: 4"
    report = instruments.ReportInstrument("halves")
    async with apass.PassContext(instruments=[report]):
        await Once({"f": 8})
    assert str(apass.view(report)) == (
        'halves  3 runs of passes on 1 module  write the page with `await report.write("report.html")`'
    )
    (frame,) = read_html(html_of(report)).frames
    assert frame.startswith("<!doctype html>")


NOTHING: list[tuple[object, str]] = [
    ([], ""),
    (instruments.PassTimingInstrument(), "no pass was timed"),
    (instruments.FunctionTimingInstrument(), "no function was timed"),
    (instruments.StatisticsInstrument(), "no pass counted anything"),
    (instruments.RemarksInstrument(), "no pass made a remark"),
    (apass.DiagnosticContext(), "no diagnostics are pending"),
    (apass.Sequential[Module]([]), "sequential  level 0"),
    ([apass.Sequential[Module]([]), {"f": 1}], "sequential  level 0\ndict  1 function\n  f: 1"),
]


@pytest.mark.parametrize(("obj", "text"), NOTHING, ids=lambda value: type(value).__name__)
def test_view_of_nothing_states_it(obj: object, text: str) -> None:
    assert str(apass.view(obj)) == text


def test_view_of_unknown_object_names_the_choices() -> None:
    with pytest.raises(TypeError, match=r"view shows passes.*got 5; if it is a module, register an adapter"):
        apass.view(5)


def test_foreign_module_inherits_a_display() -> None:
    class Program(apass.plugins.Displayed):
        def __str__(self) -> str:
            return "a program\nof two lines"

    assert shown(Program()) == "a program\nof two lines"
    assert "a program" in html_of(Program())


def test_ipython_prompt_shows_text_not_address() -> None:
    prompt: Any = import_module("IPython.lib.pretty")
    assert prompt.pretty(instruments.PassTimingInstrument()) == "no pass was timed"
    assert prompt.pretty([Once]) == "[<Sequential once opt_level=0>]"


def test_view_shows_onnx_model() -> None:
    model = onnx_ir.from_onnx_text(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { y = Relu(x) }'
    )
    text = shown(model)
    assert text.startswith("Model  1 function\n")
    assert "Relu" in text


def test_view_of_model_proto_suggests_conversion() -> None:
    with pytest.raises(TypeError, match=r"convert it with onnx_ir\.from_proto\(model\)$"):
        apass.view(onnx.ModelProto())
