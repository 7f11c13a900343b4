"""`run_pass`, `assert_rewrites` and `assert_unchanged`: one pass on one module."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from apass.core.adapter import IRAdapter, ModT, adapter_by_suffix, adapter_for
from apass.core.config import ConfigValues
from apass.core.context import PassContext
from apass.core.ir_plugin import file_suffix, known_suffixes, plugin_for_suffix
from apass.core.module_diff import ModuleDiff
from apass.core.tracebacks import hidden_assertion
from apass.errors import AdapterError, PassContextError
from apass.passes.base import Pass
from apass.pipelines.parser import as_pass
from apass.sync import awaited_call, in_event_loop, run
from apass.util.delta_debugging import Shrinking

__all__ = [
    "assert_rewrites",
    "assert_unchanged",
    "load_model",
    "named_modules",
    "parse_module",
    "run_pass",
    "show_difference",
    "shrinkings_of",
]

__tracebackhide__ = hidden_assertion


def run_pass(
    pass_: Pass[ModT] | str,
    mod: ModT,
    *,
    backend: str = "asyncio",
    opt_level: int = 2,
    instruments: Iterable[object] = (),
    config: ConfigValues | None = None,
) -> ModT:
    """Run a pass on a module from a plain test, and return the new module.

    In an async test, write `await pass_(mod)`.

    Parameters:
        pass_: the pass, or the text of a pipeline, as `parse_pipeline` takes it. The passes of a pipeline run if their
            level is at most `opt_level`.
        mod: the module.
        backend: `"asyncio"` or `"trio"`.
        opt_level: the level of the context.
        instruments: the instruments of the context.
        config: the config options of the context.

    Raises:
        PassContextError: if the caller is an async test.
        Exception: any error of the pass.

    >>> import apass
    >>> Double = apass.function_pass(lambda func, mod, ctx: func * 2, opt_level=0, name="Double")
    >>> run_pass(Double, {"f": 1})
    {'f': 2}

    """
    if in_event_loop():
        raise PassContextError(
            f"run_pass starts an event loop; in an async test, write `{awaited_call(pass_)}` instead"
        )
    context = PassContext(opt_level, instruments=instruments, config=config)
    parsed: Pass[ModT] = as_pass("run_pass(pass_, mod)", pass_)
    return run(parsed, mod, backend=backend, context=context)


def assert_rewrites(
    pass_: Pass[ModT] | str,
    before: ModT | str,
    after: ModT | str,
    *,
    suffix: str | None = None,
    opt_level: int = 2,
    config: ConfigValues | None = None,
) -> None:
    """Assert that a pass turns one module into another.

    The modules are compared by `equal` of their adapter, so names that do not matter may differ.

    Parameters:
        pass_: the pass, or the text of a pipeline.
        before: the module before the pass, or its text.
        after: the module after it, or its text. If nothing is to change, use `assert_unchanged`.
        suffix: the file name extension of the texts, such as `".relay"`, or `".json"` for a dict. It is needed if
            `before` is a text.
        opt_level: the level of the context.
        config: the config options of the context.

    Raises:
        AssertionError: if the result is another module; the message is a diff of the texts, by function.
        Exception: any error of the pass, or of the reader of the texts.

    >>> import apass
    >>> Double = apass.function_pass(lambda func, mod, ctx: func * 2, opt_level=0, name="Double")
    >>> assert_rewrites(Double, {"f": 1}, {"f": 2})
    >>> assert_rewrites(Double, '{"f": 1, "g": 2}', '{"f": 2, "g": 5}', suffix=".json")
    Traceback (most recent call last):
        ...
    AssertionError: pass 'Double' returned another module than expected
    --- expected
    +++ actual
    @@ -1 +1 @@ g
    -g: 5
    +g: 4

    """
    if isinstance(before, str) and suffix is None:
        raise TypeError("assert_rewrites got a text as the module; add suffix=, such as suffix='.relay'")
    mod: Any = parse_module(before, suffix) if isinstance(before, str) and suffix is not None else before
    expected = after
    if isinstance(after, str):
        expected = parse_module(after, suffix) if suffix else adapter_for(mod).loads(after.encode())
    actual = run_pass(pass_, mod, opt_level=opt_level, config=config)
    if type(actual) is not type(expected) or not adapter_for(actual).equal(actual, expected):
        difference = show_difference(expected, actual)
        raise AssertionError(f"{_title(pass_)} returned another module than expected\n{difference}")


def assert_unchanged(
    pass_: Pass[ModT] | str, mod: ModT, *, opt_level: int = 2, config: ConfigValues | None = None
) -> None:
    """Assert that a pass changes nothing: it returns the module itself.

    Parameters:
        pass_: the pass, or the text of a pipeline.
        mod: the module.
        opt_level: the level of the context.
        config: the config options of the context.

    Raises:
        AssertionError: if it returns another object. The message is a diff, or states that it is an equal copy.

    >>> import apass
    >>> Copy = apass.module_pass(lambda mod, ctx: dict(mod), opt_level=0, name="Copy")
    >>> assert_unchanged(Copy, {"f": 1})
    Traceback (most recent call last):
        ...
    AssertionError: pass 'Copy' returned an equal copy; return the module itself, so that later passes do no work

    """
    actual = run_pass(pass_, mod, opt_level=opt_level, config=config)
    if actual is mod:
        return
    if adapter_for(actual).equal(actual, mod):
        message = "returned an equal copy; return the module itself, so that later passes do no work"
        raise AssertionError(f"{_title(pass_)} {message}")
    raise AssertionError(f"{_title(pass_)} changed the module\n{show_difference(mod, actual)}")


def show_difference(expected: Any, actual: Any) -> str:
    """Return a unified diff of two modules, function by function."""
    if type(expected) is not type(actual):
        return f"expected a module of type {type(expected).__qualname__}, got {type(actual).__qualname__}: {actual!r}"
    diff = ModuleDiff.of(expected, actual).text()
    names = [[name for name, _ in adapter_for(mod).functions(mod)] for mod in (expected, actual)]
    if not diff and names[0] != names[1]:
        diff = f"the functions are in another order: expected {names[0]}, got {names[1]}"
    text = adapter_for(actual).to_text(actual)
    diff = diff or f"the texts are equal, but not the modules; the text leaves something out:\n{text}"
    return f"--- expected\n+++ actual\n{diff}"


def parse_module(text: str, suffix: str) -> Any:
    """Return the module of a text.

    The text is read like a model file of that suffix, or else by `loads` of the adapter with that suffix.

    Parameters:
        text: the text.
        suffix: the file name extension of the format, such as `".relay"`, or `".json"` for a dict.

    Raises:
        AdapterError: if no plug-in has the suffix.
        Exception: the error of the reader.

    >>> parse_module('{"f": "x + 0"}', ".json")
    {'f': 'x + 0'}

    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"module{suffix}"
        path.write_text(text, encoding="utf-8")
        return load_model(path)


def load_model(path: Path) -> Any:
    """Return the module in a file: read by its model format, or else by an adapter.

    Raises:
        AdapterError: if no plug-in has the suffix of the file.
        Exception: the error of the reader.

    """
    known, suffix = tuple(known_suffixes()), file_suffix(path)
    if suffix in known:
        return plugin_for_suffix(suffix).read(path)
    adapter = adapter_by_suffix(suffix)
    if adapter is None:
        raise AdapterError(
            f"no plug-in reads {path.suffix!r} files; expected one of {', '.join(known)}, or the `suffix` of "
            "a registered adapter"
        )
    return adapter.loads(path.read_bytes())


def named_modules(modules: Mapping[str, ModT] | Iterable[ModT]) -> list[tuple[str, ModT]]:
    """Return modules with their names; without names, they are numbered.

    Raises:
        ValueError: if there are none.

    """
    source: Any = modules
    pairs: list[tuple[object, Any]] = [*(source.items() if isinstance(modules, Mapping) else enumerate(modules))]
    if not pairs:
        raise ValueError("there are no modules to check; give at least one")
    return [(str(name), mod) for name, mod in pairs]


def shrinkings_of(adapter: IRAdapter[ModT, Any], mod: ModT) -> list[Shrinking[ModT]]:
    """Return the shrinkings of a module; none if its adapter has none."""
    shrinkings = getattr(adapter, "shrinkings", None)
    try:
        return [] if shrinkings is None else list(shrinkings(mod))
    except AdapterError:  # a BaseAdapter without `remove`
        return []


def _title(pass_: Pass[Any] | str) -> str:
    return f"pass {pass_!r}" if isinstance(pass_, str) else f"pass {pass_.info.name!r}"
