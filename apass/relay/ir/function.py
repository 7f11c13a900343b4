"""`Function`: a first-class function, or a function of a module."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apass.core.diagnostics import Span
from apass.relay.ir.attrs import DictAttrs
from apass.relay.ir.expr import Expr, Var, set_field
from apass.relay.ir.ty import Type, TypeVar

__all__ = ["Function"]


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Function(Expr):
    """A function with typed parameters and attributes.

    >>> x = Var("x")
    >>> Function([x], x).with_attr("Primitive", 1).attrs["Primitive"]
    1
    """

    params: tuple[Var, ...]
    """The parameters."""
    body: Expr
    """The expression that a call evaluates."""
    ret_type: Type | None
    """The annotated type of the body, if any."""
    type_params: tuple[TypeVar, ...]
    """The type variables that each call instantiates."""
    attrs: DictAttrs
    """Attributes that passes read: `Primitive`, `Compiler`, `SkipOptimization`, ..."""

    def __init__(
        self,
        params: Iterable[Var],
        body: Expr,
        ret_type: Type | None = None,
        type_params: Iterable[TypeVar] | None = None,
        attrs: DictAttrs | Mapping[str, object] | None = None,
        span: Span | None = None,
        *,
        checked_type_: Type | None = None,
    ) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", checked_type_)
        set_field(self, "params", tuple(params))
        set_field(self, "body", body)
        set_field(self, "ret_type", ret_type)
        set_field(self, "type_params", tuple(type_params or ()))
        set_field(self, "attrs", attrs if isinstance(attrs, DictAttrs) else DictAttrs(attrs or {}))

    @property
    def children(self) -> tuple[Expr, ...]:
        """The parameters, then the body."""
        return (*self.params, self.body)

    def with_attr(self, attr_key_or_dict: str | Mapping[str, object], attr_value: object = None) -> "Function":
        """Return the function with an attribute, or the entries of a mapping, added."""
        added = {attr_key_or_dict: attr_value} if isinstance(attr_key_or_dict, str) else attr_key_or_dict
        return self._with_attrs(self.attrs.updated(added))

    def without_attr(self, attr_key: str) -> "Function":
        """Return the function without an attribute."""
        return self._with_attrs(DictAttrs({key: value for key, value in self.attrs.items() if key != attr_key}))

    def _with_attrs(self, attrs: DictAttrs) -> "Function":
        fields = (self.params, self.body, self.ret_type, self.type_params)
        return Function(*fields, attrs, span=self.span, checked_type_=self.checked_type_)
