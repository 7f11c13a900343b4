"""Passes in a real notebook: displays, cells executed again, and worker processes."""

from pathlib import Path

import pytest

from tests.helpers.html_pages import read_html
from tests.helpers.notebooks import outputs_of

pytestmark = [pytest.mark.process, pytest.mark.slow]

START = """
import apass
from apass import instruments
from apass.executors import ProcessExecutor

FACTOR = 3

class Thing:
    def __init__(self, size):
        self.size = size

class BadFunction(Exception):
    pass

def helper(n):
    return n * FACTOR

@apass.analysis
def size_of(func):
    return func + FACTOR

@apass.function_pass(opt_level=0)
def Triple(func, mod, ctx):
    if func == 13:
        raise BadFunction("13 is no number")
    return helper(func)

@apass.function_pass(opt_level=0)
def Wrap(func, mod, ctx):
    return Thing(helper(getattr(func, "size", func)))

@apass.function_pass(opt_level=0, required=[size_of])
def AddSize(func, mod, ctx):
    return func + ctx.got(size_of, func)

class Add(apass.FunctionPass):
    info = apass.PassInfo(0, "Add")
    def __init__(self, n):
        self.n = n
    def transform_function(self, func, mod, ctx):
        return func + self.n

@apass.function_pass(opt_level=0)
class Multiply:
    def __init__(self, n):
        self.n = n
    def transform_function(self, func, mod, ctx):
        return func * self.n

@apass.register_pass
@apass.function_pass(opt_level=0)
def Decrement(func, mod, ctx):
    return func - 1

class Power(apass.FunctionPass, opt_level=0, register=True):
    by: int = 2

    def transform_function(self, func, mod, ctx):
        return func ** self.by

@apass.module_pass(opt_level=0, executor=ProcessExecutor(workers=1))
def Sort(mod, ctx):
    return dict(sorted(mod.items(), key=lambda item: helper(item[1])))

executor = ProcessExecutor(workers=1)

@apass.function_pass(opt_level=0)
def Scale(func, mod, ctx):
    return func * ctx.config["Scale.by"]

async def scaled(tp, by):
    apass.register_config_option("Scale.by", tp, default=by)
    async with apass.PassContext(executor=executor, config={"Scale.by": by}):
        return await Scale({'f': 2})

async def run(pass_, mod):
    async with apass.PassContext(executor=executor):
        return await pass_(mod)
"""


def test_notebook_shows_objects_as_html(tmp_path: Path) -> None:
    _, *shown = outputs_of(
        tmp_path,
        "import apass\n"
        "from apass import instruments\n"
        "Halve = apass.function_pass(lambda func, mod, ctx: func // 2, opt_level=0, name='Halve')\n"
        "timing, report = instruments.PassTimingInstrument(), instruments.ReportInstrument()\n"
        "context = apass.PassContext(instruments=[timing, report])\n"
        "async with context:\n"
        "    outcomes = await apass.optimize_all({'a': {'f': 2}}, Halve, errors='collect')",
        "Halve",
        "apass.plan(Halve)",
        "context",
        "timing",
        "report",
        "outcomes['a']",
        "apass.view(outcomes)",
        "apass.diff({'f': 2}, {'f': 1})",
        "apass.relay.IRModule()",
        "apass.Diagnostic.error('bad')",
    )
    assert [set(output) for output in shown] == [{"text/html", "text/plain"}] * 10
    for output in shown:
        read_html(output["text/html"])


ADAPTERS = """
import apass

class Program: pass

class Adapter(apass.plugins.BaseAdapter[Program, str]):
    def functions(self, mod): return []
    def replace(self, mod, updates): return mod
"""


def test_cell_executed_again_replaces_definitions(tmp_path: Path) -> None:
    cell = """
import apass

@apass.register_pass
@apass.module_pass(opt_level=0)
def Fold(mod, ctx):
    return {"fold": VALUE}

@apass.register_pass("Built")
def build():
    return Fold

class Tune(apass.ModulePass, opt_level=1, register=True):
    size: int = VALUE

    def transform_module(self, mod, ctx):
        return {**mod, "size": self.size}

apass.register_pass("Both", apass.Sequential([Fold]))

@apass.register_callable
def is_small(mod):
    return VALUE

apass.register_config_option("Fold.depth", int, default=VALUE)
apass.register_adapter(Program, Adapter())
pipeline = apass.parse_pipeline("Fold,Built,Both,If{predicate=is_small}(Fold),Tune")
await pipeline({}), apass.PassContext().config["Fold.depth"]
"""
    outputs = outputs_of(
        tmp_path,
        ADAPTERS,
        cell.replace("VALUE", "1"),
        cell.replace("VALUE", "2"),
        cell.replace("VALUE", "3")
        .replace("def Fold", "def Other")
        .replace("register_pass\n", "register_pass('Fold')\n"),
        "class Another(Adapter): pass\napass.register_adapter(Program, Another())",
        cell.replace("VALUE", "4"),
        "apass.run(Fold, {})",
        "await Fold({})",
    )
    taken = "a pass named 'Fold' is already registered; call unregister_pass('Fold') first, or choose another name"
    assert outputs[1:4] == [
        {"text/plain": "({'fold': 1, 'size': 1}, 1)"},
        {"text/plain": "({'fold': 2, 'size': 2}, 2)"},
        {"error": f"PassRegistrationError: {taken}"},
    ]
    assert outputs[4]["error"].startswith("AdapterError: modules of type Program already have the adapter")
    assert outputs[5] == {"text/plain": "({'fold': 4, 'size': 4}, 4)"}
    assert outputs[6]["error"].endswith(
        "but one is already running, as in a notebook; write `await pass_(mod)` instead"
    )
    assert outputs[7] == {"text/plain": "{'fold': 4}"}


def test_passes_of_cells_run_in_processes(tmp_path: Path) -> None:
    _, *outputs = outputs_of(
        tmp_path,
        START,
        "await run(apass.Sequential([Triple, Add(2), Multiply(5), Decrement, apass.get_pass('Decrement')]), {'f': 2})",
        "await run(apass.Sequential([AddSize, apass.function_pass(lambda f, m, c: -f, opt_level=0, name='Negate')]), "
        "{'f': 2})",
        "await Sort({'b': 2, 'a': 1}), await executor.call(helper, 5)",
        "things = await run(Wrap, await run(Wrap, {'f': 2}))\nthings['f'].size, type(things['f']) is Thing",
        "await apass.optimize_all([{'f': 2}], apass.Sequential([Triple, Add(1)]), executor=executor)",
        "try:\n    await run(Triple, {'f': 13})\nexcept BadFunction as error:\n    print(error)",
        "FACTOR = 100\ndef helper(n): return n + FACTOR\nawait run(Triple, {'f': 2})",
        "await run(apass.parse_pipeline('Power{by=3},Power'), {'f': 2}), Power(by=3)",
        "await scaled(int, 3), await scaled(float, 0.5)",
        "class Thing:\n    def __init__(self, size): self.size = -size\n(await run(Wrap, {'f': 2}))['f'].size",
    )
    assert outputs == [
        {"text/plain": "{'f': 38}"},
        {"text/plain": "{'f': -7}"},
        {"text/plain": "({'a': 1, 'b': 2}, 15)"},
        {"text/plain": "(18, True)"},
        {"text/plain": "[{'f': 7}]"},
        {"text/plain": "13 is no number\n"},
        {"text/plain": "{'f': 102}"},
        {"text/plain": "({'f': 64}, <Power Power opt_level=0 by=3>)"},
        {"text/plain": "({'f': 6}, {'f': 1.0})"},
        {"text/plain": "-102"},
    ]


def test_missing_cloudpickle_error_names_the_extra(tmp_path: Path) -> None:
    _, *outputs = outputs_of(
        tmp_path,
        f"import sys\nsys.modules['cloudpickle'] = None\n{START}",
        "await run(Triple, {'f': 2})",
        "await run(Add(2), {'f': 2})",
        "await executor.call(abs, -2)",
        "await apass.optimize_all([{'f': Thing(2)}], apass.PrintIR(), executor=executor)",
    )
    advice = "which other processes cannot import; pip install 'apass[notebook]', or define it in a module"
    sent = "MissingExtraError: pass '{0}' cannot be sent to another process: this session defines {0}, {1}"
    assert outputs[:3] == [
        {"error": sent.format("Triple", advice)},
        {"error": sent.format("Add", advice)},
        {"text/plain": "2"},
    ]
    assert outputs[3]["error"].endswith(f"this session defines Thing, {advice}")
