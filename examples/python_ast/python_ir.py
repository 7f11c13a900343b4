"""Python's own syntax trees as an IR: an adapter, two passes and a plug-in.

The command line then optimizes Python files:

    apass --load examples/python_ast/python_ir.py opt program.py -o smaller.py
"""

import ast
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import apass


class PythonAdapter(apass.plugins.BaseAdapter[ast.Module, ast.FunctionDef]):
    """The functions of a module are its top-level `def` statements."""

    thread_safe = True

    def functions(self, mod: ast.Module) -> Iterable[tuple[str, ast.FunctionDef]]:
        """Iterate over the functions."""
        return [(node.name, node) for node in mod.body if isinstance(node, ast.FunctionDef)]

    def replace(self, mod: ast.Module, updates: Mapping[str, ast.FunctionDef]) -> ast.Module:
        """Return a module with new functions and the same other statements."""
        body = [updates.get(node.name, node) if isinstance(node, ast.FunctionDef) else node for node in mod.body]
        return ast.Module(body, mod.type_ignores)

    def to_text(self, x: ast.Module | ast.FunctionDef) -> str:
        """Return the source code, without comments."""
        return ast.unparse(x)

    def from_text(self, text: str) -> ast.Module:
        """Return the syntax tree of source code."""
        return ast.parse(text)

    def remove(self, mod: ast.Module, names: Iterable[str]) -> ast.Module:
        """Return a module without some functions, so that `apass reduce` works."""
        removed = set(names)
        keep = [node for node in mod.body if not (isinstance(node, ast.FunctionDef) and node.name in removed)]
        return ast.Module(keep, mod.type_ignores)


class _Folder(ast.NodeTransformer):
    """Evaluates sums and products of integers."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = self.visit(node.left), self.visit(node.right)
        values = [side.value for side in (left, right) if isinstance(side, ast.Constant) and type(side.value) is int]
        if len(values) == 2 and isinstance(node.op, ast.Add | ast.Mult):
            value = values[0] + values[1] if isinstance(node.op, ast.Add) else values[0] * values[1]
            return ast.Constant(value)
        return ast.BinOp(left, node.op, right)


class FoldConstants(apass.FunctionPass[ast.Module, ast.FunctionDef], opt_level=1, name="python.FoldConstants"):
    """Evaluate sums and products of integers."""

    def transform_function(self, func: ast.FunctionDef, mod: ast.Module, ctx: apass.PassContext) -> ast.FunctionDef:
        """Return a new function, or the same if nothing changed."""
        # A transformer changes the tree, so it works on a copy.
        result = ast.parse(ast.unparse(func)).body[0]
        _Folder().visit(result)
        return func if ast.unparse(result) == ast.unparse(func) or not isinstance(result, ast.FunctionDef) else result


class RemoveAsserts(apass.FunctionPass[ast.Module, ast.FunctionDef], opt_level=2, name="python.RemoveAsserts"):
    """Remove the assert statements, as `python -O` does."""

    keep: tuple[str, ...] = ()

    def transform_function(self, func: ast.FunctionDef, mod: ast.Module, ctx: apass.PassContext) -> ast.FunctionDef:
        """Return a function without asserts at its top level."""
        body = [node for node in func.body if not isinstance(node, ast.Assert)]
        if func.name in self.keep or len(body) == len(func.body):
            return func
        result = ast.parse(ast.unparse(func)).body[0]
        assert isinstance(result, ast.FunctionDef)
        result.body = [node for node in result.body if not isinstance(node, ast.Assert)] or [ast.Pass()]
        return result


def compare_outputs(before: ast.Module, after: ast.Module) -> apass.plugins.Comparison:
    """Run both programs, and compare what they print."""
    outputs = [
        subprocess.run([sys.executable, "-c", ast.unparse(mod)], capture_output=True, text=True, check=False).stdout
        for mod in (before, after)
    ]
    if outputs[0] != outputs[1]:
        return apass.plugins.Comparison.different(str(outputs))
    return apass.plugins.Comparison.same()


def _load(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _save(mod: ast.Module, path: Path) -> None:
    path.write_text(ast.unparse(mod) + "\n", encoding="utf-8")


def _size(mod: ast.Module) -> int:
    return sum(1 for _ in ast.walk(mod))


PLUGIN = apass.register_plugin(
    apass.IRPlugin(
        adapter=PythonAdapter(),
        module_type=ast.Module,
        suffixes=(".py",),
        load=_load,
        save=_save,
        default_pipeline="python.FoldConstants,python.RemoveAsserts",
        size=_size,
        compare_outputs=compare_outputs,
    )
)
