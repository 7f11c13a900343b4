"""EtaExpand: a constructor or global function that is a value becomes a function that calls it; TVM's `eta_expand.cc`.

TVM expands a global function where it is called, too; here only where it is a value, as with constructors.
"""

from collections.abc import Iterable

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.adt import Constructor
from apass.relay.expr import Call, Expr, GlobalVar, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.support.decorators import module_pass
from apass.relay.ty import Type, TypeCall, TypeVar
from apass.relay.type_functor import TypeMutator

__all__ = ["EtaExpand", "eta_expand"]


def eta_expand(
    func: Function, mod: IRModule, expand_constructor: bool = True, expand_global_var: bool = False
) -> Function:
    """Return a function in which constructors, and global functions if asked for, are called wherever they stand.

    >>> from apass.relay.make import var
    >>> x = var("x", "int32")
    >>> mod = IRModule({GlobalVar("f"): Function([x], x)})
    >>> eta_expand(Function([], GlobalVar("f")), mod, expand_global_var=True).body.body
    <relay.Call of <relay.GlobalVar @f>>
    """
    return rewrite_function(_EtaExpander(mod, expand_constructor, expand_global_var), func)


@provide_pass("EtaExpand")
def EtaExpand(expand_constructor: bool = False, expand_global_var: bool = False) -> ModulePass[IRModule]:
    """Make functions of constructors and of global functions, if asked for, that are not called where they stand.

    As in TVM, neither is by default, and then the pass changes nothing.
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
        # What is called needs no function around it; the arguments may have changed.
        if all(one is old for one, old in zip(new.args, call.args, strict=True)):
            return call
        return Call(call.op, new.args, call.attrs, call.type_args, span=call.span)

    def visit_constructor(self, con: Constructor) -> Expr:
        if not self._expand_constructor:
            return con
        data = self._mod.get_type_data(con.belong_to)
        fresh = _Renamer(data.type_vars)
        params = [Var("eta_expand_param", fresh.renamed(one)) for one in con.inputs]
        type_params = list(fresh.names.values())
        return Function(params, Call(con, params), TypeCall(con.belong_to, type_params), type_params, span=con.span)

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        if not self._expand_global_var:
            return gvar
        func = self._mod[gvar]
        params = [Var("eta_expand_param", one.type_annotation) for one in func.params]
        return Function(params, Call(gvar, params), func.ret_type, func.type_params, span=gvar.span)


class _Renamer(TypeMutator):
    """Gives type variables new ones in their places."""

    def __init__(self, variables: Iterable[TypeVar]) -> None:
        super().__init__()
        self.names = {one: TypeVar(one.name_hint, one.kind) for one in variables}

    def visit_type_var(self, tv: TypeVar) -> Type:
        return self.names.get(tv, tv)

    def renamed(self, ty: Type) -> Type:
        new = self.visit(ty)
        assert isinstance(new, Type), "what a TypeMutator makes of a type is one"
        return new
