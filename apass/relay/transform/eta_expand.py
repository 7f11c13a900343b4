"""EtaExpand: wrap constructors and global functions that are used as values.

The counterpart of TVM's `eta_expand.cc`.

The wrapper is a function that calls the value. TVM also wraps a global function that is called directly. This pass
wraps it only where it is used as a value, as with constructors.
"""

from collections.abc import Iterable

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.ir.adt import Constructor
from apass.relay.ir.expr import Call, Expr, GlobalVar, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import Type, TypeCall, TypeVar
from apass.relay.transform.support.module_pass import module_pass
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function
from apass.relay.visitors.type_functor import TypeMutator

__all__ = ["EtaExpand", "eta_expand"]


def eta_expand(
    func: Function, mod: IRModule, expand_constructor: bool = True, expand_global_var: bool = False
) -> Function:
    """Return a function in which constructors are only called, never used as values.

    With `expand_global_var`, the same holds for global functions.

    >>> from apass.relay.ir.expr import var
    >>> x = var("x", "int32")
    >>> mod = IRModule({GlobalVar("f"): Function([x], x)})
    >>> eta_expand(Function([], GlobalVar("f")), mod, expand_global_var=True).body.body
    <relay.Call of <relay.GlobalVar @f>>
    """
    return rewrite_function(_EtaExpander(mod, expand_constructor, expand_global_var), func)


@provide_pass("EtaExpand")
def EtaExpand(expand_constructor: bool = False, expand_global_var: bool = False) -> ModulePass[IRModule]:
    """Wrap constructors and global functions used as values, if asked for.

    As in TVM, both options are off by default. The pass then changes nothing.
    """

    def expand(mod: IRModule, ctx: PassContext) -> IRModule:
        expanded = {
            gvar.name_hint: eta_expand(mod[gvar], mod, expand_constructor, expand_global_var)
            for gvar in mod.get_global_vars()
        }
        changed = {name: func for name, func in expanded.items() if func is not mod[name]}
        return mod.with_functions(changed) if changed else mod

    return module_pass(expand, opt_level=1, name="EtaExpand")


class _EtaExpander(ExprMutator):
    def __init__(self, mod: IRModule, expand_constructor: bool, expand_global_var: bool) -> None:
        super().__init__()
        self._mod = mod
        self._expand_constructor = expand_constructor
        self._expand_global_var = expand_global_var

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if not isinstance(call.op, Constructor | GlobalVar) or not isinstance(new, Call) or new.op is call.op:
            return new
        # A called constructor or global function needs no wrapper, but the arguments may have changed.
        if all(arg is old for arg, old in zip(new.args, call.args, strict=True)):
            return call
        return Call(call.op, new.args, call.attrs, call.type_args, span=call.span)

    def visit_constructor(self, con: Constructor) -> Expr:
        if not self._expand_constructor:
            return con
        data = self._mod.get_type_data(con.belong_to)
        fresh = _Renamer(data.type_vars)
        params = [Var("eta_expand_param", fresh.renamed(ty)) for ty in con.inputs]
        type_params = list(fresh.names.values())
        return Function(params, Call(con, params), TypeCall(con.belong_to, type_params), type_params, span=con.span)

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        if not self._expand_global_var:
            return gvar
        func = self._mod[gvar]
        params = [Var("eta_expand_param", param.type_annotation) for param in func.params]
        return Function(params, Call(gvar, params), func.ret_type, func.type_params, span=gvar.span)


class _Renamer(TypeMutator):
    """Replaces type variables by fresh ones."""

    def __init__(self, variables: Iterable[TypeVar]) -> None:
        super().__init__()
        self.names = {variable: TypeVar(variable.name_hint, variable.kind) for variable in variables}

    def visit_type_var(self, tv: TypeVar) -> Type:
        return self.names.get(tv, tv)

    def renamed(self, ty: Type) -> Type:
        new = self.visit(ty)
        assert isinstance(new, Type), "a TypeMutator returns a type for a type"
        return new
