"""`run_pass`, `assert_rewrites`, `assert_unchanged` and `parse_module`."""

from typing import Any

import pytest

import apass
from apass.relay.ir.module import IRModule
from apass.testing import assert_rewrites, assert_unchanged, parse_module, run_pass

Module = dict[str, Any]
BEFORE = "def @main(%x: Tensor[(2), float32]) { add(%x, multiply(2f, 3f)) }"
AFTER = "def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { add(%x, 6f) }"


@apass.function_pass(opt_level=3)
async def DropZero(func: str, mod: Module, ctx: apass.PassContext) -> str:
    """Remove an added zero."""
    return func.removesuffix(" + 0")


@apass.module_pass(opt_level=0)
def Copy(mod: Module, ctx: apass.PassContext) -> Module:
    """Return a copy."""
    return dict(mod)


@apass.module_pass(opt_level=0)
def Reverse(mod: Module, ctx: apass.PassContext) -> Module:
    """Return the functions in reverse order."""
    return dict(reversed(mod.items()))


def test_run_pass_runs_on_each_backend(anyio_backend: str) -> None:
    assert run_pass(DropZero, {"f": "x + 0"}, backend=anyio_backend) == {"f": "x"}


def test_pipeline_text_runs_at_its_level() -> None:
    mod = parse_module(BEFORE, ".relay")
    results = [run_pass("FoldConstant", mod, opt_level=level) for level in (1, 2)]
    assert [result is mod for result in results] == [True, False]


def test_config_reaches_the_pass() -> None:
    depths: list[object] = []

    def read(mod: Module, ctx: apass.PassContext) -> Module:
        depths.append(ctx.config["relay.FuseOps.max_depth"])
        return mod

    run_pass(apass.module_pass(read, opt_level=0, name="Read"), {}, config={"relay.FuseOps.max_depth": 7})
    assert depths == [7]


@pytest.mark.anyio
async def test_run_pass_refuses_async_tests() -> None:
    with pytest.raises(
        apass.errors.PassContextError, match=r"write `await apass.parse_pipeline\(text\)\(mod\)` instead"
    ):
        run_pass("Sequential", {"f": "x"})
    with pytest.raises(apass.errors.PassContextError, match="write `await pass_"):
        run_pass(DropZero, {})


def test_rewrite_of_objects_and_texts_is_accepted() -> None:
    assert_rewrites(DropZero, {"f": "x + 0"}, {"f": "x"})
    assert_rewrites(DropZero, '{"f": "x + 0"}', '{"f": "x"}', suffix=".json")
    assert_rewrites("FoldConstant", BEFORE, AFTER, suffix=".relay")
    mod: Any = parse_module(BEFORE, ".relay")
    assert_rewrites("FoldConstant", mod, "#[version = '0.0.5']\n".replace("'", '"') + AFTER)


def test_wrong_rewrite_is_shown_by_function() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_rewrites(DropZero, {"f": "x + 0", "g": "y"}, {"f": "x + 0", "g": "y", "h": "z"})
    assert str(caught.value).splitlines() == [
        "pass 'DropZero' returned another module than expected",
        "--- expected",
        "+++ actual",
        "@@ -1 +1 @@ f",
        "-f: x + 0",
        "+f: x",
        "@@ -1 +0,0 @@ h",
        "-h: z",
    ]


def test_text_without_suffix_is_rejected() -> None:
    with pytest.raises(TypeError, match=r"suffix='\.relay'"):
        assert_rewrites(DropZero, "{}", {})


def test_result_of_another_type_is_reported() -> None:
    with pytest.raises(AssertionError, match="expected a module of type IRModule, got dict"):
        assert_rewrites(Copy, {}, IRModule())  # type: ignore[misc]


def test_unchanged_module_is_the_same_object() -> None:
    assert_unchanged(DropZero, {"f": "x"})
    with pytest.raises(AssertionError, match=r"^pass 'Copy' returned an equal copy; return the module itself"):
        assert_unchanged(Copy, {"f": "x"})
    with pytest.raises(AssertionError, match=r"^pass 'DropZero' changed the module\n--- expected\n"):
        assert_unchanged(DropZero, {"f": "x + 0"})


def test_changed_order_of_functions_is_named() -> None:
    expected: Any = apass.relay.parse("def @a() { 1 }\ndef @b() { 2 }")
    actual = apass.relay.parse("def @b() { 2 }\ndef @a() { 3 }")
    with pytest.raises(AssertionError, match="@@ a"):
        assert_rewrites(apass.module_pass(lambda mod, ctx: actual, opt_level=0, name="P"), expected, expected)


def test_unknown_suffix_lists_the_known_ones() -> None:
    with pytest.raises(apass.errors.AdapterError, match=r"no plug-in reads '\.txt' files; expected one of .*\.relay"):
        parse_module("", ".txt")


def test_syntax_error_names_the_position() -> None:
    with pytest.raises(apass.ApassError, match=r"module\.relay:1:5"):
        parse_module("def main() {}", ".relay")
