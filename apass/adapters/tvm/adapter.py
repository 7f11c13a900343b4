"""`TVMAdapter`: the adapter of modules of TVM."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any, Final

from apass.adapters.nodes import Node
from apass.adapters.tvm.library import (
    FUNCTIONS,
    BaseFunc,
    IRModule,
    functions_of,
    relax,
    s_tir,
    short_reason,
    tirx,
    tvm,
    tvm_ffi,
)
from apass.core.adapter import FunctionKind
from apass.errors import AdapterError, VerifyError
from apass.util.delta_debugging import Shrinking

__all__ = ["ADAPTER", "TVMAdapter", "from_script", "to_script"]

SKIP: Final = "SkipOptimization"
"""The attribute of functions to skip. TVM 0.27 itself ignores it."""

SMALL_NODES: Final = 256
"""Maximum number of expressions and statements of a small module.

For a module of this size, a pass in C++ takes about 1 ms, and at most 4 ms (`ToNonDataflow`).
"""
SMALL_ELEMENTS: Final = 2**18
"""Maximum number of elements of the constants of a small module, which are compared in about 0.1 ms."""

_STOP: Final = tvm_ffi.VisitInterrupt()
_SKIP: Final = tvm_ffi.WalkResult.SKIP

# `tvm_ffi.structural_walk` looks up the types in each call, which takes longer than to visit a small module.
_walk: Final[Any] = tvm_ffi.get_global_func("ffi.StructuralWalk")
_WALKED: Final = tuple(
    kind.__tvm_ffi_type_info__.type_index
    for kind in (tvm.ir.Type, tvm.ir.Var, tvm.ir.GenericConst, tvm.ir.Expr, tvm.tirx.Stmt)
)
"""The types of nodes that `is_small` visits; the first one that fits counts."""


class TVMAdapter:
    """An IRAdapter for `tvm.IRModule`.

    The nodes of TVM are immutable, and a clone of a module shares its functions. A module itself is mutable
    (`mod["f"] = ...`): passes must not change their argument, as everywhere in apass.

    - Two modules are equal if TVM's `structural_equal` says so. It ignores the names of variables.
    - `dumps` writes the JSON of `tvm.ir.save_json`, with all constants.
    """

    thread_safe: bool = True
    """True: TVM counts references atomically, and its nodes are immutable."""
    suffix: str = ".relax"
    """The suffix of a file with the bytes that `dumps` returns."""

    def is_small(self, mod: IRModule) -> bool:
        """Return whether the module has few nodes, and few elements in its constants."""
        nodes = elements = 0

        def count(_node: object) -> Any:
            nonlocal nodes
            nodes += 1
            return _STOP if nodes > SMALL_NODES else None

        def skip(node: object) -> Any:
            return count(node) or _SKIP

        def add(constant: Any) -> Any:
            nonlocal elements
            elements += prod(getattr(constant.value, "shape", ()))
            return _STOP if elements > SMALL_ELEMENTS else count(constant)

        callbacks = zip(_WALKED, (skip, skip, add, count, count), strict=True)
        return _walk(mod, list(callbacks), [], int(tvm_ffi.WalkOrder.PREORDER)) is None

    def functions(self, mod: IRModule) -> Iterator[tuple[str, BaseFunc]]:
        """Iterate over the Relax and TIR functions, by name.

        The order of a module's own mapping depends on how it was made.
        """
        return functions_of(mod)

    def get(self, mod: IRModule, name: str) -> BaseFunc:
        """Return one function."""
        if name not in mod or not isinstance(func := mod[name], FUNCTIONS):
            raise KeyError(name)
        return func

    def kind(self, func: BaseFunc) -> FunctionKind:
        """Return `"prim_func"` for a TIR function, and `"function"` for one of Relax."""
        return "prim_func" if isinstance(func, tirx.PrimFunc) else "function"

    def replace(self, mod: IRModule, updates: Mapping[str, BaseFunc]) -> IRModule:
        """Return a clone of `mod` with the functions of `updates`.

        Raises:
            AdapterError: if an update is no function of TVM, or `mod` has no function of that name.

        """
        result = mod.clone()
        for name, func in updates.items():
            if not isinstance(func, FUNCTIONS):
                kind = type(func).__name__
                raise AdapterError(f"function {name!r} must be a relax.Function or a tirx.PrimFunc, got {kind}")
            if name not in mod:
                raise AdapterError(f"the module has no function {name!r}; a module pass can add one")
            result.update_func(mod.get_global_var(name), func)
        return result

    def skips(self, func: BaseFunc) -> bool:
        """Return whether the attribute `SkipOptimization` of the function is true."""
        mark = None if func.attrs is None else func.attrs.get(SKIP)
        return bool(getattr(mark, "value", mark))

    def fingerprint(self, x: IRModule | BaseFunc) -> str:
        """Return the `structural_hash`, which ignores the names of variables."""
        return f"{type(x).__name__}-{tvm_ffi.structural_hash(x, map_free_vars=not _is_module(x)):016x}"

    def exact_fingerprint(self, x: IRModule | BaseFunc) -> str:
        """Return a digest of everything in a module or a function, with names and spans.

        It does not depend on nodes that functions share: a function from a store shares none.
        """
        digest = hashlib.blake2b(digest_size=16)
        parts: list[Any] = [x]
        if _is_module(x):
            parts = [x.attrs, x.global_infos]
            for var, func in x.functions_items():
                parts += [var.name_hint, var.ty, func]
        for part in parts:
            digest.update(tvm.ir.save_json(part).encode())
        return digest.hexdigest()

    def equal(self, a: IRModule | BaseFunc, b: IRModule | BaseFunc) -> bool:
        """Return whether both are structurally equal, whatever the names of variables."""
        if type(a) is not type(b):
            return False
        if not _is_module(a):
            return is_equal(a, b)
        mine, others = a.functions_items(), b.functions_items()
        # Passes keep most functions. To compare two modules compares all constants.
        if len(mine) == len(others) and all(
            func.same_as(other) and var.name_hint == other_var.name_hint
            for (var, func), (other_var, other) in zip(mine, others, strict=True)
        ):
            return is_equal(a.attrs, b.attrs) and is_equal(a.global_infos, b.global_infos)
        return is_equal(a, b)

    def to_text(self, x: IRModule | BaseFunc) -> str:
        """Return the TVMScript, with digests in place of the data of constants."""
        text: str = x.script(show_meta=False)
        if "metadata[" not in text:
            return text
        values = hashlib.blake2b(tvm.ir.save_json(_constants(x)).encode(), digest_size=8).hexdigest()
        return f"{text.rstrip()}\n# constants: {values}\n"

    def text_parts(self, mod: IRModule, names: Iterable[str]) -> tuple[str, Mapping[str, str]]:
        """Return the text outside of functions, and that of each named function."""
        outside = mod.clone()
        for name, _ in self.functions(mod):
            del outside[name]
        return outside.script(show_meta=False), {name: self.to_text(mod[name]) for name in names}

    def verify(self, mod: IRModule) -> None:
        """Check the module with TVM's verifiers for Relax and TIR.

        Raises:
            VerifyError: if the module breaks a rule.

        """
        try:
            relax.analysis.well_formed(mod)
            for name, func in self.functions(mod):
                if isinstance(func, tirx.PrimFunc):
                    _verify_prim_func(name, func)
        except VerifyError:
            raise
        except Exception as error:  # TVM raises errors of many types
            raise VerifyError(f"not a valid module of TVM: {short_reason(error)}") from None

    def dumps(self, mod: IRModule) -> bytes:
        """Return TVM's JSON of the module."""
        text: str = tvm.ir.save_json(mod)
        return text.encode()

    def loads(self, data: bytes) -> IRModule:
        """Return the module that `dumps` wrote.

        Raises:
            AdapterError: if `data` is not such a text.

        """
        try:
            mod = tvm.ir.load_json(data.decode())
        except Exception as error:  # TVM raises errors of many types, and those of the json module
            raise AdapterError(
                f"not a module in TVM's JSON format ({short_reason(error)}); write one with tvm.ir.save_json(mod)"
            ) from None
        if not _is_module(mod):
            raise AdapterError(f"TVM's JSON contains a {type(mod).__name__}, expected an IRModule")
        return mod

    def isolate(self, mod: IRModule, names: Iterable[str]) -> IRModule:
        """Return a module with the named functions.

        Calls of other functions refer to the variables of `mod`, which have the types of these functions.
        """
        chosen = frozenset(names)
        result = mod.clone()
        for name, _ in self.functions(mod):
            if name not in chosen:
                del result[name]
        return result

    def commit(self, sub: IRModule) -> IRModule:
        """Return a clone, which shares all functions."""
        return sub.clone()

    def extract(self, sub: IRModule, names: Iterable[str]) -> Mapping[str, BaseFunc]:
        """Return the named functions of a module."""
        return {name: self.get(sub, name) for name in names}

    def adopt(self, sub: IRModule, mod: IRModule) -> IRModule:
        """Return `sub`, which was read from JSON, with the global variables of `mod`."""
        known = {var.name_hint: var for var in mod.get_global_vars()}
        result = tvm.IRModule({}, attrs=None, global_infos=sub.global_infos)

        def adopted(var: Any) -> Any:
            return known.get(var.name_hint, var)

        for var, func in sub.functions_items():
            result[adopted(var)] = tvm_ffi.structural_map(func, (tvm.ir.GlobalVar, adopted))
        return result if sub.attrs is None else result.with_attrs(sub.attrs)

    def nodes(self, func: BaseFunc) -> Iterator[Node]:
        """Iterate over the bindings of a Relax function, or the blocks of a TIR function.

        They are named after their variables or blocks. A location is the span of the bound value.
        """
        # Few runs follow nodes.
        from apass.adapters.tvm.nodes import function_nodes

        return function_nodes(func)

    def with_locations(self, mod: IRModule) -> IRModule:
        """Return a module in which each call of a Relax function has a span."""
        # Few runs follow nodes.
        from apass.adapters.tvm.nodes import with_spans

        return with_spans(mod)

    def shrinkings(self, mod: IRModule) -> Iterator[Shrinking[IRModule]]:
        """Iterate over the parts that can be removed: functions and parts of them."""
        # Few runs reduce a module.
        from apass.adapters.tvm.reductions import shrinkings

        return shrinkings(mod)


ADAPTER: Final = TVMAdapter()
"""The shared adapter; it has no state."""

_IMPORT: Final = re.compile(r"^(?=(?:from|import) tvm\b)", re.MULTILINE)


def to_script(mod: IRModule) -> str:
    """Return the TVMScript of a module with all its constants, for `from_script`."""
    text: str = mod.script(show_meta=True)
    return text


def from_script(text: str) -> IRModule:
    """Return the module of a TVMScript.

    TVMScript is Python: its expressions are evaluated. Do not read texts that you do not trust.

    Raises:
        AdapterError: if the text is no module.

    """
    try:
        # The parser knows the names that these lines import, and rejects the lines.
        mod = tvm.script.from_source(_IMPORT.sub("# ", text))
    except Exception as error:  # the parser of TVM raises errors of many types
        raise AdapterError(f"not a TVMScript of a module: {short_reason(error)}") from None
    if not _is_module(mod):
        raise AdapterError(f"the TVMScript is a {type(mod).__name__}, expected a class with @I.ir_module")
    return mod


def is_equal(a: object, b: object) -> bool:
    """Return whether two nodes are structurally equal."""
    return bool(tvm_ffi.structural_equal(a, b, map_free_vars=True))


def _is_module(x: object) -> bool:
    return isinstance(x, tvm.IRModule)


def _verify_prim_func(name: str, func: BaseFunc) -> None:
    try:
        has_blocks = s_tir.analysis.verify_well_formed(func, assert_mode=False)
        if not has_blocks:
            tirx.analysis.verify_well_formed(func, assert_mode=True)
    except Exception as error:  # TVM raises errors of many types
        raise VerifyError(f"TIR function {name!r} is not valid: {short_reason(error)}") from None


def _constants(x: IRModule | BaseFunc) -> list[Any]:
    """Return the constants of the Relax functions, in order."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.ir.Constant):
            found.append(node)

    for func in [func for _, func in x.functions_items()] if _is_module(x) else [x]:
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return found
