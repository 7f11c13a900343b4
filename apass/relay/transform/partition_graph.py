"""PartitionGraph: lift the regions for other compilers to global functions.

The counterpart of TVM's `partition_graph.cc`. It has four steps, as in TVM:

- A mark on a tuple becomes a mark on each field, so that functions do not return nested tuples.
- The marks for `default` are removed.
- Every region becomes a function, and its results become calls of the function.
- The names of the functions get a prefix, `tvmgen_<name of the module>_`.

A mark that begins no closed region is removed. TVM leaves a free variable there, for example around the value of a Let.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from apass.core.context import PassContext
from apass.errors import PassDefinitionError
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.analysis.annotated_regions import AnnotatedRegion, AnnotatedRegionSet
from apass.relay.errors import AnnotationError
from apass.relay.ir.expr import Call, Constant, Expr, GlobalVar, Op, Tuple, TupleGetItem, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.annotation import COMPILER_BEGIN, COMPILER_END, compiler_end, compiler_of
from apass.relay.transform.annotate_target import DEFAULT_COMPILER
from apass.relay.transform.support.module_pass import module_pass
from apass.relay.type_inference.infer import infer_module
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function
from apass.relay.visitors.expr_rewriter import ExprRewriter, rewrite

__all__ = ["PartitionGraph", "partition_graph"]


def partition_graph(mod: IRModule, mod_name: str | None = "default", bind_constants: bool = True) -> IRModule:
    """Return the module with regions lifted to functions; the same if there are none.

    A function has the name `tvmgen_<mod_name>_<compiler>_<caller>_<number>`, in which other characters than letters and
    digits are replaced by `_`. Its attributes are `global_symbol` (that name), `Primitive`, `Compiler` (the name of the
    compiler) and `Inline`. If a region has several results, the function returns them as a tuple.

    The prefix is also put before the names of functions that have the attribute `Compiler` already, as in TVM.

    Parameters:
        mod: the module.
        mod_name: the name of the module; empty or None for the prefix `tvmgen_` alone.
        bind_constants: whether constants, and tuples of them, become part of the functions. Otherwise they are
            arguments.

    Raises:
        AnnotationError: if the marks do not form regions, a region depends on its own result, or two functions would
            have the same name.
        TypeInferenceError: if the module has marks and is ill-typed.
        ValueError: if `mod_name` has characters outside of ASCII.

    """
    prefix = _prefix(mod_name)
    marked = {gvar.name_hint: mod[gvar] for gvar in mod.get_global_vars() if _is_marked(mod[gvar])}
    if marked:
        plain = {name: _without_default(_with_flat_results(func)) for name, func in marked.items()}
        typed = infer_module(mod.with_functions(plain))
        lifted: dict[str, Function] = {}
        new = {name: _RegionLifter(typed, name, bind_constants, lifted).lift_all() for name in marked}
        mod = typed.with_functions({**new, **lifted})
    renamed = _with_prefix(mod, prefix)
    return renamed if renamed is mod else infer_module(renamed)


@provide_pass("PartitionGraph")
def PartitionGraph(mod_name: str = "default", bind_constants: bool = True) -> ModulePass[IRModule]:
    """Lift the regions for other compilers to functions, which they compile."""
    try:
        _prefix(mod_name)
    except ValueError as error:
        invalid = PassDefinitionError(str(error))
        invalid.option = "mod_name"
        raise invalid from None

    def partition(mod: IRModule, ctx: PassContext) -> IRModule:
        return partition_graph(mod, mod_name, bind_constants)

    return module_pass(partition, opt_level=0, name="PartitionGraph")


def _prefix(mod_name: str | None) -> str:
    if mod_name and not mod_name.isascii():
        raise ValueError(f"mod_name must have only ASCII characters, got {mod_name!r}")
    return f"tvmgen_{mod_name}_" if mod_name else "tvmgen_"


def _is_marked(func: Function) -> bool:
    return any(_is_mark(node) for node in post_order(func))


def _is_mark(node: Expr) -> bool:
    return compiler_of(node, COMPILER_BEGIN) is not None or compiler_of(node, COMPILER_END) is not None


def _with_flat_results(func: Function) -> Function:
    return _rewritten(func, _TupleFlattener())


def _without_default(func: Function) -> Function:
    return _rewritten(func, _DefaultRemover())


def _rewritten(func: Function, rewriter: ExprRewriter) -> Function:
    new = rewrite(func, rewriter)
    assert isinstance(new, Function), "a rewriter of calls returns a function for a function"
    return new


class _TupleFlattener(ExprRewriter):
    """Moves the mark on a tuple to its fields."""

    def rewrite_call(self, pre: Call, post: Expr) -> Expr:
        compiler = compiler_of(post, COMPILER_END)
        value = post.children[1] if compiler is not None else None
        if compiler is None or not isinstance(value, Tuple):
            return post
        return Tuple([compiler_end(field, compiler) for field in value.fields], span=value.span)


class _DefaultRemover(ExprRewriter):
    """Removes the marks for Relay's own compiler."""

    def rewrite_call(self, pre: Call, post: Expr) -> Expr:
        compilers = {compiler_of(post, COMPILER_BEGIN), compiler_of(post, COMPILER_END)}
        return post.children[1] if DEFAULT_COMPILER in compilers else post


class _RegionLifter(ExprMutator):
    """Replaces the results of regions in one function by calls of new functions."""

    def __init__(self, mod: IRModule, name: str, bind_constants: bool, lifted: dict[str, Function]) -> None:
        super().__init__()
        self._mod = mod
        self._func = mod[name]
        self._bind_constants = bind_constants
        self._lifted = lifted
        self._regions = AnnotatedRegionSet(self._func, Op.get(COMPILER_BEGIN), Op.get(COMPILER_END), name)
        self._interiors: dict[AnnotatedRegion, _Interior] = {}
        self._results: dict[Expr, Expr] = {}

    def lift_all(self) -> Function:
        """Return the function without marks; add those of its regions to `lifted`."""
        for node in self._order():
            if compiler_of(node, COMPILER_END) is not None:
                self.memo_map[node] = self._result_of(node.children[1])
            elif compiler_of(node, COMPILER_BEGIN) is not None:
                self.memo_map[node] = self.memo_map[node.children[1]]
            else:
                self.visit(node)
        return rewrite_function(self, self._func)

    def _order(self) -> list[Expr]:
        """Return the nodes outside of closed regions, each after what it needs.

        Raises:
            AnnotationError: if a region depends on its own result.

        """
        order: list[Expr] = []
        done: set[Expr] = set()
        path: set[Expr] = set()
        stack: list[Expr] = [self._func]
        while stack:
            node = stack[-1]
            if node in done or node in path:
                stack.pop()
                if node not in done:
                    path.discard(node)
                    done.add(node)
                    order.append(node)
                continue
            path.add(node)
            for needed in reversed(self._needs(node)):
                if needed in path:
                    raise AnnotationError(
                        f"the region of {needed!r} in @{self._regions.name} depends on its own result; "
                        "put the nodes before and after that dependency in different regions"
                    )
                stack.append(needed)
        return order

    def _needs(self, node: Expr) -> Sequence[Expr]:
        if compiler_of(node, COMPILER_END) is None:
            return node.children
        return [begin.args[0] for begin in self._interior_of(node.children[1]).begins]

    def _interior_of(self, node: Expr) -> "_Interior":
        region = self._regions.get_region(node)
        assert region is not None, "an end without a region is an error of AnnotatedRegionSet"
        if region not in self._interiors:
            self._interiors[region] = _Interior(region)
        return self._interiors[region]

    def _result_of(self, node: Expr) -> Expr:
        """Return the value of a result of a region, after its function is added."""
        if node not in self._results:
            self._lift(self._interior_of(node))
        return self._results[node]

    def _lift(self, interior: "_Interior") -> None:
        """Add the function of a region, and the values of its results."""
        region = interior.region
        name = f"{region.target}_{region.name}_{region.id}"
        if name in self._mod or name in self._lifted:
            raise AnnotationError(f"the module has a function @{name} already; rename it, or mod_name")
        inputs = interior.inputs()
        values = {begin: self.memo_map[begin.args[0]] for begin in inputs.values()}
        bound = {begin: value for begin, value in values.items() if self._bind_constants and _is_constant(value)}
        params = {begin: Var(interior.name_of(begin), begin.checked_type_) for begin in values if begin not in bound}
        self._lifted[name] = interior.function(name, params, bound)
        call = Call(GlobalVar(name), [values[begin] for begin in params])
        fields = [call] if len(interior.results) == 1 else [TupleGetItem(call, i) for i in range(len(interior.results))]
        self._results.update(zip(interior.results, fields, strict=True))


class _Interior:
    """The nodes of a region between its marks."""

    def __init__(self, region: AnnotatedRegion) -> None:
        self.region: AnnotatedRegion = region
        """The region."""
        self.results: list[Expr] = list(dict.fromkeys(end.args[0] for end in region.rets))
        """The results, each once."""
        self.begins: list[Call] = []
        """The marks on inputs that the results need, in order of first use."""
        self._functions: list[Function] = []
        for node in post_order(Tuple(self.results), _is_border):
            if compiler_of(node, COMPILER_END) is not None:
                raise AnnotationError(
                    f"a node in a region for {region.target!r} uses {node!r} of another region; "
                    f"put {COMPILER_BEGIN} on it"
                )
            if isinstance(node, Function):
                self._functions.append(node)
            elif isinstance(node, Call) and compiler_of(node, COMPILER_BEGIN) is not None:
                self.begins.append(node)

    def inputs(self) -> dict[Expr, Call]:
        """Return the values that the region needs, each with the first mark on it."""
        inputs: dict[Expr, Call] = {}
        for begin in self.begins:
            inputs.setdefault(_unmarked(begin), begin)
        return inputs

    def name_of(self, begin: Call) -> str:
        """Return the name of the parameter for an input, with its number in the region."""
        return f"{self.region.target}_{self.region.id}_i{self._numbers[begin]}"

    @cached_property
    def _numbers(self) -> dict[Call, int]:
        return {begin: number for number, begin in enumerate(self.region.args)}

    def function(self, name: str, params: Mapping[Call, Var], bound: Mapping[Call, Expr]) -> Function:
        """Return the function of the region. Inputs are parameters, or bound to values."""
        inputs, replaced = self.inputs(), {**params, **bound}
        mutator = ExprMutator()
        mutator.memo_map.update((func, func) for func in self._functions)
        mutator.memo_map.update((begin, replaced[inputs[_unmarked(begin)]]) for begin in self.begins)
        fields = [mutator.visit(result) for result in self.results]
        is_single = len(fields) == 1
        ret_type = self.results[0].checked_type_ if is_single else None
        attrs = {"global_symbol": name, "Primitive": 1, "Compiler": self.region.target, "Inline": 1}
        return Function(params.values(), fields[0] if is_single else Tuple(fields), ret_type, None, attrs)


def _is_border(node: Expr) -> bool:
    """Return whether a node begins a region, or is a function, which has no marks."""
    return isinstance(node, Function) or compiler_of(node, COMPILER_BEGIN) is not None


def _unmarked(expr: Expr) -> Expr:
    while _is_mark(expr):
        expr = expr.children[1]
    return expr


def _is_constant(expr: Expr) -> bool:
    """Return whether an expression is a constant, or a tuple of constants."""
    fields = expr.fields if isinstance(expr, Tuple) else (expr,)
    return all(isinstance(field, Constant) for field in fields)


def _with_prefix(mod: IRModule, prefix: str) -> IRModule:
    """Return the module with a prefix before the names of functions for compilers."""
    compiled = [gvar.name_hint for gvar in mod.get_global_vars() if "Compiler" in mod[gvar].attrs]
    names = {name: re.sub("[^0-9A-Za-z_]", "_", prefix + name) for name in compiled}
    if not names:
        return mod
    result = mod.without_functions(gvar.name_hint for gvar in mod.get_global_vars())
    renamer = _Renamer(names)
    for gvar in mod.get_global_vars():
        name = names.get(gvar.name_hint, gvar.name_hint)
        if name in result:
            raise AnnotationError(f"two functions of the module would have the name @{name}; rename one of them")
        func = rewrite_function(renamer, mod[gvar])
        result[name] = func.with_attr("global_symbol", name) if gvar.name_hint in names else func
    return result


class _Renamer(ExprMutator):
    """Replaces references to global functions."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self._names = names

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        name = self._names.get(gvar.name_hint)
        return gvar if name is None else GlobalVar(name, span=gvar.span)
