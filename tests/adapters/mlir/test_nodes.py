"""The operations of MLIR functions as nodes."""

import pytest

import apass
from apass.adapters.mlir import MLIRModule
from apass.adapters.nodes import Node, nodes_of
from tests.helpers.mlir_modules import NEEDS_MLIR, RESOURCES

LOOPS = """\
#map = affine_map<(d0) -> (d0)>
func.func @f(%n: index, %x: memref<4xf32>, %c: i1) -> (f32, f32) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %pair:2 = scf.if %c -> (f32, f32) {
    %a = "test.source"() {text = "} // no end {", loc} : () -> f32
    scf.yield %a, %zero : f32, f32
  } else {
    scf.yield %zero, %zero : f32, f32
  }
  scf.for %i = %c0 to %n step %c1 {
    memref.store %pair#1, %x[%i] : memref<4xf32>
  }
  linalg.generic {indexing_maps = [#map], iterator_types = ["parallel"]} outs(%x : memref<4xf32>) {
  ^bb0(%old: f32):
    %new = arith.addf %old, %pair#0 : f32
    linalg.yield %new : f32
  }
  cf.switch %c : i1, [
    default: ^end(%zero : f32),
    1: ^end(%pair#0 : f32)
  ]
^end(%last: f32):
  return %last, %pair#1 : f32, f32
}
"""
OPERATIONS = [
    "arith.constant",
    "arith.constant",
    "arith.constant",
    "scf.if",
    "test.source",
    "scf.yield",
    "scf.yield",
    "scf.for",
    "memref.store",
    "linalg.generic",
    "arith.addf",
    "linalg.yield",
    "cf.switch",
    "return",
]


def nodes(mod: MLIRModule, name: str = "f") -> list[Node]:
    return list(nodes_of(apass.adapter_for(mod), mod.functions[name]))


def test_operations_in_regions_are_nodes() -> None:
    found = nodes(MLIRModule(LOOPS))
    assert [node.name.partition("#")[0] for node in found] == OPERATIONS
    condition, store, add = found[3], found[8], found[10]
    assert (condition.results, condition.operands) == (("scf.if#0", "scf.if#0:1"), ("%arg2",))
    assert (store.operands, store.text) == (("scf.if#0:1", "%arg1"), "memref.store %, %[%] : memref<4xf32>")
    assert (add.operands, str(add)) == (("scf.if#0",), "arith.addf#0 = arith.addf %, scf.if#0 : f32")
    assert {node.is_named for node in found} == {False}


@NEEDS_MLIR
@pytest.mark.process
def test_printed_operations_have_the_names_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APASS_MLIR_ARGS", "--allow-unregistered-dialect")
    written = MLIRModule(LOOPS.replace(", loc}", "}"), "loops.mlir")
    found = nodes(apass.plugins.with_names(written))
    names = [node.name for node in found if node.is_named]
    assert names == ["%zero", "%c0", "%c1", "%pair", "%a", "%new"]
    assert [node.text.split("(")[0].split(" ")[0].strip('"') for node in found] == OPERATIONS
    assert [node.location for node in found][:4] == [
        f"loops.mlir:{line}:{at}" for line, at in zip((3, 4, 5, 6), (11, 9, 9, 13), strict=True)
    ]
    assert found[3].results == ("%pair", "%pair:1")
    assert found[8].operands == ("%pair:1", "%arg1")


@NEEDS_MLIR
@pytest.mark.process
def test_aliases_are_resolved() -> None:
    located = apass.plugins.with_names(MLIRModule(RESOURCES, "r.mlir"))
    assert "#loc" in located.text
    first, *_, weights, last = nodes(located, "weights")
    assert (first.name, first.location) == ("%x", "r.mlir:9:8")
    assert first.text == "affine.apply affine_map<(d0) -> (d0 + 1)>(%)"
    assert (weights.name, last.location) == ("%w", "r.mlir:13:3")


@NEEDS_MLIR
@pytest.mark.process
def test_locations_of_the_text_are_kept() -> None:
    text = (
        'func.func @f(%x: i32) -> i32 {\n  %y = arith.addi %x, %x : i32 loc("mine"("a.c":7:8))\n  return %y : i32\n}\n'
    )
    add, end = nodes(apass.plugins.with_names(MLIRModule(text, "m.mlir")))
    assert (add.name, add.location, end.location) == ("%mine", "a.c:7:8", "m.mlir:3:3")
    unknown = text.replace('"mine"("a.c":7:8)', "unknown")
    assert [node.location for node in nodes(apass.plugins.with_locations(MLIRModule(unknown)))] == ["", "<module>:3:3"]


@NEEDS_MLIR
@pytest.mark.process
def test_invalid_module_names_its_line() -> None:
    with pytest.raises(apass.errors.AdapterError, match=r"at m\.mlir:2:3"):
        apass.plugins.with_names(MLIRModule("func.func @f() {\n  oops\n}", "m.mlir"))
