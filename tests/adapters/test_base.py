"""`BaseAdapter`: the defaults of an adapter with two methods."""

import ast
import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import pytest

import apass
from apass.core.adapter import exact_fingerprint, text_parts
from tests.helpers.registering import message_of

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Func:
    name: str
    code: tuple[str, ...]
    attrs: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True)
class Program:
    funcs: tuple[Func, ...]


class ProgramAdapter(apass.plugins.BaseAdapter[Program, Func]):
    def functions(self, mod: Program) -> Iterable[tuple[str, Func]]:
        return [(func.name, func) for func in mod.funcs]

    def replace(self, mod: Program, updates: Mapping[str, Func]) -> Program:
        return replace(mod, funcs=tuple(updates.get(func.name, func) for func in mod.funcs))


class RemovingAdapter(ProgramAdapter):
    def remove(self, mod: Program, names: Iterable[str]) -> Program:
        removed = set(names)
        return Program(tuple(func for func in mod.funcs if func.name not in removed))


class TreeAdapter(apass.plugins.BaseAdapter[ast.Module, ast.FunctionDef]):
    """An adapter of an IR without dataclasses, which changes in place."""

    def functions(self, mod: ast.Module) -> Iterable[tuple[str, ast.FunctionDef]]:
        return [(node.name, node) for node in mod.body if isinstance(node, ast.FunctionDef)]

    def replace(self, mod: ast.Module, updates: Mapping[str, ast.FunctionDef]) -> ast.Module:
        body = [updates.get(node.name, node) if isinstance(node, ast.FunctionDef) else node for node in mod.body]
        return ast.Module(body, mod.type_ignores)

    def to_text(self, x: ast.AST) -> str:
        return ast.unparse(x)

    def from_text(self, text: str) -> ast.Module:
        return ast.parse(text)


NUMBER: Any = 3
ADAPTER, TREES = ProgramAdapter(), TreeAdapter()
apass.register_adapter(Program, RemovingAdapter())
apass.register_adapter(ast.Module, TREES)
MAIN, LEAF = Func("main", ("load", "nop", "add")), Func("leaf", ("ret",))
SKIPPED, PRIM = Func("asm", ("nop",), {"SkipOptimization": True}), Func("prim", (), {"kind": "prim_func"})
PROGRAM = Program((MAIN, LEAF, SKIPPED, PRIM))
SOURCE = "import os\n\ndef f(x):\n    return x + 0\n\ndef g(x):\n    return os.path.join(x)"


@apass.function_pass(opt_level=1)
async def DropNops(func: Func, mod: Program, ctx: apass.PassContext) -> Func:
    await anyio.lowlevel.checkpoint()
    code = tuple(word for word in func.code if word != "nop")
    return func if code == func.code else replace(func, code=code)


async def test_pass_runs_with_two_methods() -> None:
    assert await DropNops(PROGRAM) == Program((replace(MAIN, code=("load", "add")), LEAF, SKIPPED, PRIM))


def test_defaults_read_functions() -> None:
    assert (ADAPTER.get(PROGRAM, "leaf"), ADAPTER.extract(PROGRAM, ["main"])) == (LEAF, {"main": MAIN})
    assert [ADAPTER.kind(func) for func in PROGRAM.funcs] == ["function", "function", "function", "prim_func"]
    assert [ADAPTER.skips(func) for func in PROGRAM.funcs] == [False, False, True, False]
    with pytest.raises(KeyError):
        ADAPTER.get(PROGRAM, "none")


def test_dataclasses_are_compared_by_their_fields() -> None:
    same = Program((Func("main", ("load", "nop", "add")), LEAF, SKIPPED, PRIM))
    other = Program((Func("main", ("load", "nop", "sub")), LEAF, SKIPPED, PRIM))
    assert (ADAPTER.equal(PROGRAM, same), ADAPTER.equal(PROGRAM, other)) == (True, False)
    assert ADAPTER.fingerprint(PROGRAM) == ADAPTER.fingerprint(same) != ADAPTER.fingerprint(other)


def test_other_objects_are_compared_by_their_text() -> None:
    tree, same, other = ast.parse(SOURCE), ast.parse(SOURCE + " # a comment"), ast.parse(SOURCE.replace("0", "1"))
    assert (TREES.equal(tree, same), TREES.equal(tree, other)) == (True, False)
    assert exact_fingerprint(TREES, tree) == exact_fingerprint(TREES, same) != exact_fingerprint(TREES, other)


def test_bytes_restore_the_module() -> None:
    assert ADAPTER.loads(ADAPTER.dumps(PROGRAM)) == PROGRAM
    tree = ast.parse(SOURCE)
    assert (TREES.dumps(tree).decode(), TREES.equal(TREES.loads(TREES.dumps(tree)), tree)) == (SOURCE, True)


def test_class_defined_later_is_written() -> None:
    class Traced(Func):
        """A function defined after the first module was written."""

    traced = Program((Traced("t", ()),))
    ADAPTER.dumps(PROGRAM)
    assert type(ADAPTER.loads(ADAPTER.dumps(traced)).funcs[0]) is Traced


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"!": ["os:system", "ls"]}'])
def test_damaged_bytes_are_an_adapter_error(data: bytes) -> None:
    with pytest.raises(apass.errors.AdapterError, match="the bytes of a module cannot be read: "):
        ADAPTER.loads(data)


def test_value_without_format_is_an_error() -> None:
    message = (
        "this module cannot be written: a value of type object cannot be written; add its dataclass to node_types of "
        "ProgramAdapter, or override dumps and loads, or from_text"
    )
    mod = Program((Func("f", (), {"x": object()}),))
    assert message_of(apass.errors.AdapterError, lambda: ADAPTER.dumps(mod)) == message


def test_copy_is_private() -> None:
    tree = ast.parse(SOURCE)
    private = TREES.isolate(tree, ["f"])
    TREES.get(private, "f").name = "h"
    assert [name for name, _ in TREES.functions(tree)] == ["f", "g"]


def test_text_has_parts() -> None:
    outside, parts = text_parts(TREES, ast.parse(SOURCE), ["f"])
    assert (outside, parts) == (
        "import os\n\n\n\ndef g(x):\n    return os.path.join(x)",
        {"f": "def f(x):\n    return x + 0"},
    )


def test_object_without_text_is_an_error() -> None:
    class Opaque:
        pass

    message = "objects of type test_object_without_text_is_an_error.<locals>.Opaque have no text; "
    adapter: Any = ADAPTER
    assert message_of(apass.errors.AdapterError, lambda: adapter.to_text(Opaque())).startswith(message)


@pytest.mark.parametrize(
    ("funcs", "message"),
    [
        ((MAIN, MAIN), "two functions have the name 'main'"),
        ((Func(NUMBER, ()),), "a function has the name 3; names must be strings"),
    ],
)
def test_verify_checks_names(funcs: Any, message: str) -> None:
    assert message_of(apass.errors.VerifyError, lambda: ADAPTER.verify(Program(funcs))) == message


async def test_removable_functions_can_be_reduced() -> None:
    shrinking = next(RemovingAdapter().shrinkings(PROGRAM))
    assert (shrinking.what, shrinking.count, shrinking.without(frozenset({0, 2}))) == (
        "functions",
        4,
        Program((LEAF, PRIM)),
    )
    message = "ProgramAdapter does not remove functions, so modules cannot be reduced; override its remove"
    assert message_of(apass.errors.AdapterError, lambda: list(ADAPTER.shrinkings(PROGRAM))) == message


async def test_pass_runs_in_processes() -> None:
    async with apass.PassContext(executor=apass.executors.ProcessExecutor(1)):
        assert (await Shout(PROGRAM)).funcs[0].code == ("LOAD", "NOP", "ADD")


@apass.function_pass(opt_level=1)
def Shout(func: Func, mod: Program, ctx: apass.PassContext) -> Func:
    return replace(func, code=tuple(word.upper() for word in func.code))


def test_incomplete_adapter_is_rejected() -> None:
    class Incomplete:
        thread_safe = True

        def functions(self, mod: Any) -> Any:
            return []

        def __repr__(self) -> str:
            return "Incomplete()"

    class Module:
        pass

    incomplete: Any = Incomplete
    name = "test_incomplete_adapter_is_rejected.<locals>"
    assert message_of(apass.errors.AdapterError, lambda: apass.register_adapter(Module, incomplete())) == (
        f"the adapter Incomplete() for modules of type {name}.Module lacks get, kind, replace, skips, fingerprint, "
        "equal, to_text, verify, dumps, loads, isolate, extract; derive it from "
        "apass.plugins.BaseAdapter, which needs only functions and replace"
    )
    assert message_of(apass.errors.AdapterError, lambda: apass.register_adapter(Module, incomplete)) == (
        f"register_adapter takes an adapter object, but {name}.Incomplete is a class; write {name}.Incomplete()"
    )
    wrong: Any = ADAPTER
    assert message_of(apass.errors.AdapterError, lambda: apass.register_adapter(wrong, wrong)).startswith(
        "register_adapter takes the type of modules first, got <"
    )


def test_copy_of_adapter_is_usable() -> None:
    assert copy.deepcopy(ADAPTER).loads(ADAPTER.dumps(PROGRAM)) == PROGRAM
