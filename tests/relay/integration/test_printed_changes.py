"""Texts and diffs of Relay modules, function by function."""

import io

import pytest

import apass
from apass import relay
from apass.core.module_diff import ModuleDiff
from apass.instruments import PrintChanged, VerifyInstrument
from apass.relay.integration.adapter import ADAPTER
from apass.relay.ir.module import IRModule
from apass.relay.prelude import Prelude
from apass.relay.text.parsing.reader import read_module

pytestmark = pytest.mark.anyio

CHANGE = """\
@@ -1,5 +1,4 @@ f
 def @f(%x: Tensor[(3), float32]) {
-  %0 = add(%x, meta[relay.Constant][0]);
-  %1 = add(%x, %x);
-  add(%0, %1)
+  %0 = add(%x, %x);
+  tanh(%0)
 }"""


def function_of(body: str, constant: float = 1.0) -> relay.Function:
    """Return a function of `x`; `meta` in its body is a constant of its own."""
    meta = {"relay.Constant": [relay.const([constant] * 3)]}
    text = f"def @main(%x: Tensor[(3), float32]) {{ {body} }}".replace("meta", "meta[relay.Constant][0]")
    return read_module(text, init_meta_table=meta)["main"]


@pytest.fixture
def mod() -> IRModule:
    """Return a module of two functions with graph variables and metadata."""
    first, second = function_of("add(add(%x, meta), add(%x, %x))"), function_of("add(nn.relu(tanh(%x)), meta)", 2.0)
    return IRModule({"f": first, "g": second})


@apass.module_pass(opt_level=0)
def Shorten(mod: IRModule, ctx: apass.PassContext) -> IRModule:
    return mod.with_functions({"f": function_of("tanh(add(%x, %x))")})


@apass.module_pass(opt_level=0)
def Break(mod: IRModule, ctx: apass.PassContext) -> IRModule:
    return mod.with_functions({"f": relay.Function([], relay.Var("y"))})


def test_text_of_a_function_ignores_others(mod: IRModule) -> None:
    before, after = ADAPTER.to_text(mod), ADAPTER.to_text(mod.without_functions(["f"]))
    assert before[before.index("def @g") :] == after[after.index("def @g") :]
    assert after.startswith('#[version = "0.0.5"]\ndef @g(%x: ')


def test_text_of_a_module_consists_of_its_parts() -> None:
    mod = Prelude().mod
    outside, functions = ADAPTER.text_parts(mod, [name for name, _ in ADAPTER.functions(mod)])
    assert "\n".join([outside, *functions.values()]) == ADAPTER.to_text(mod)
    assert relay.structural_equal(read_module(ADAPTER.to_text(mod)), read_module(mod.astext(False)))


async def test_print_changed_shows_only_changed_functions(mod: IRModule) -> None:
    file = io.StringIO()
    async with apass.PassContext(instruments=[PrintChanged(file=file)]):
        await Shorten(mod)
    assert file.getvalue() == f"IR changed by Shorten\n{CHANGE}\n\n"


async def test_verify_error_shows_only_changed_functions(mod: IRModule) -> None:
    async with apass.PassContext(instruments=[VerifyInstrument()]):
        with pytest.raises(apass.errors.VerifyError) as caught:
            await Break(mod)
    assert "@@ -1,5 +1,4 @@ f\n" in str(caught.value)
    assert "def @g" not in str(caught.value)


async def test_bisect_shows_only_changed_functions(mod: IRModule) -> None:
    result = await apass.bisect(mod, apass.Sequential([Shorten]), lambda mod: "meta" in str(mod["f"]))
    assert result.diff == CHANGE


def test_changed_data_type_is_shown_once(mod: IRModule) -> None:
    before, after = (
        read_module(f"type Pair {{ {name}(int32), }} def @f() {{ 1 }} def @g() {{ {body} }}")
        for name, body in (("A", "1"), ("B", "2"))
    )
    expected = "@@ -3 +3 @@\n-  A(int32),\n+  B(int32),\n@@ -2 +2 @@ g\n-  1\n+  2"
    assert ModuleDiff.of(before, after).text(context=0) == expected
