"""`IRModule`: functions and data types by name."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain, count
from typing import TypeAlias, overload

from apass.core.displayed import Displayed
from apass.errors import did_you_mean
from apass.relay.ir.adt import Constructor, TypeData
from apass.relay.ir.attrs import DictAttrs
from apass.relay.ir.base import Node
from apass.relay.ir.expr import Annotate, Expr, GlobalVar
from apass.relay.ir.function import Function
from apass.relay.ir.json_format import Reduced, reduced
from apass.relay.ir.map import Map
from apass.relay.ir.text_format import astext, pretty_print
from apass.relay.ir.ty import GlobalTypeVar
from apass.relay.ir.variables import free_type_vars, free_vars

__all__ = ["IRModule", "set_std_importer"]

Functions: TypeAlias = Map[GlobalVar, Expr] | Mapping[GlobalVar, Expr] | Mapping[str, Expr]
"""Functions by global variable or by name."""
TypeDefinitions: TypeAlias = Map[GlobalTypeVar, TypeData] | Mapping[GlobalTypeVar, TypeData] | Mapping[str, TypeData]
"""Data types by global type variable or by name."""

_std_importer: list[Callable[["IRModule", str], None]] = []


def set_std_importer(import_std: Callable[["IRModule", str], None]) -> None:
    """Set the function that implements `import_from_std`.

    The standard library is a layer above modules, so it registers itself here.
    """
    _std_importer[:] = [import_std]


class IRModule(Displayed, Node):
    """A program: functions by global name, and definitions of algebraic data types.

    Build a module by adding functions: `mod["main"] = func`. A pass must not change its input. It returns a new module,
    made with `mod.with_functions(...)` or `mod.copy()`. Unchanged functions are shared.

    >>> from apass.relay.expr import Var
    >>> x = Var("x")
    >>> IRModule.from_expr(Function([x], x))["main"].body is x
    True
    """

    def __init__(
        self,
        functions: Functions | None = None,
        type_definitions: TypeDefinitions | None = None,
    ) -> None:
        """Add functions and data types, keyed by variable or by name."""
        self._functions: dict[str, tuple[GlobalVar, Expr]] = {}
        self._types: dict[str, TypeData] = {}
        self.source_map: dict[str, str] = {}
        """The source texts by source name, for diagnostics. Spans of nodes contain the names."""
        self.is_typed: bool = False
        """Whether type inference has checked all functions since the last change."""
        self._attrs = DictAttrs()
        for gvar, func in (functions or {}).items():
            self[gvar] = func
        for header, data in (type_definitions or {}).items():
            self[header] = data

    @classmethod
    def from_expr(
        cls,
        expr: Expr,
        functions: Functions | None = None,
        type_defs: TypeDefinitions | None = None,
    ) -> "IRModule":
        """Return a module with a function, or with an expression made a function.

        The parameters of the new function are the free variables of the expression. The name is the function's
        attribute `global_symbol`, or `main`, or the first unused of `main_1`, `main_2` and so on.
        """
        mod = cls(functions, type_defs)
        func = expr if isinstance(expr, Function) else Function(free_vars(expr), expr, None, free_type_vars(expr))
        symbol = None if func.attrs is None else func.attrs.get("global_symbol")
        mod[symbol if isinstance(symbol, str) else mod._unique_name("main")] = func
        return mod

    def _unique_name(self, name: str) -> str:
        names = chain([name], (f"{name}_{number}" for number in count(1)))
        return next(unused for unused in names if unused not in self._functions)

    @property
    def functions(self) -> Map[GlobalVar, Expr]:
        """The functions by global variable in insertion order, as a new map."""
        return Map(dict(self._functions.values()))

    @property
    def attrs(self) -> DictAttrs:
        """The attributes of the module."""
        return self._attrs

    def get_attr(self, attr_key: str) -> object:
        """Return an attribute of the module, or None if it does not exist."""
        return self._attrs.get(attr_key)

    def with_attr(self, attr_key: str | Mapping[str, object], attr_value: object = None) -> "IRModule":
        """Return a copy with an attribute, or the entries of a mapping, added or replaced.

        >>> mod = IRModule()
        >>> mod.with_attr("runtime", "cpp").get_attr("runtime"), mod.get_attr("runtime")
        ('cpp', None)
        """
        result = self.copy()
        result._attrs = self._attrs.updated({attr_key: attr_value} if isinstance(attr_key, str) else attr_key)
        return result

    @property
    def type_definitions(self) -> Map[GlobalTypeVar, TypeData]:
        """The data type definitions by global type variable, as a new map."""
        return Map({data.header: data for data in self._types.values()})

    @overload
    def __getitem__(self, var: str | GlobalVar) -> Function: ...

    @overload
    def __getitem__(self, var: GlobalTypeVar) -> TypeData: ...

    def __getitem__(self, var: str | GlobalVar | GlobalTypeVar) -> Function | TypeData:
        """Return a function by name or variable, or a data type by its variable.

        Raises:
            KeyError: if it does not exist. The message suggests a similar name.

        """
        if isinstance(var, GlobalTypeVar):
            return self.get_type_data(var)
        name = _name(var)
        if name not in self._functions:
            hint = did_you_mean(name, self._functions, listing="the module has: ")
            raise KeyError(f"the module has no function named {name!r}{hint}")
        func = self._functions[name][1]
        if not isinstance(func, Function):
            raise KeyError(f"@{name} must be a function, got {func!r}")
        return func

    def __setitem__(self, var: str | GlobalVar | GlobalTypeVar, val: Expr | TypeData) -> None:
        """Add or replace a function or a data type.

        An expression that is not a function becomes one, with its free variables as parameters.

        Raises:
            TypeError: if the value is neither an expression nor a data type.

        """
        name = _name(var)
        if isinstance(val, TypeData):
            self.add_type(val)
            return
        if isinstance(var, GlobalTypeVar) or not isinstance(val, Expr):
            raise TypeError(f"{name} must be a function or a TypeData, got {val!r}")
        existing = self._functions.get(name)
        gvar = var if isinstance(var, GlobalVar) else existing[0] if existing else GlobalVar(name)
        func = val if isinstance(val, Function) else Function(free_vars(val), val, None, free_type_vars(val))
        self._functions[name] = (gvar, func)
        self.is_typed = False

    def _add(self, var: str | GlobalVar | GlobalTypeVar, val: Expr | TypeData, update: bool = False) -> None:
        """Add a function or a data type; TVM's internal name of `mod[var] = val`.

        Raises:
            TypeError: if the value is neither an expression nor a data type.
            ValueError: if the name exists already and `update` is false.

        """
        name = _name(var)
        is_type = isinstance(val, TypeData)
        if not update and name in (self._types if is_type else self._functions):
            kind = "data type" if is_type else "function"
            raise ValueError(f"the module already has a {kind} named {name!r}; pass update=True to replace it")
        self[var] = val

    def __contains__(self, var: object) -> bool:
        """Return whether a function with this name exists."""
        return isinstance(var, str | GlobalVar) and _name(var) in self._functions

    def __len__(self) -> int:
        """Return the number of functions."""
        return len(self._functions)

    def __bool__(self) -> bool:
        """Return True, even for a module without functions."""
        return True

    def copy(self) -> "IRModule":
        """Return a shallow copy: functions and data types are shared."""
        result = IRModule()
        result._functions, result._types = self._functions.copy(), self._types.copy()
        result.source_map = self.source_map.copy()
        result._attrs = self._attrs
        return result

    __copy__ = copy

    def __reduce__(self) -> Reduced:
        """Return the JSON of the module, which has no depth limit."""
        return reduced(self)

    def with_functions(self, updates: Mapping[str, Expr]) -> "IRModule":
        """Return a copy with the functions in `updates` added or replaced."""
        result = self.copy()
        for name, func in updates.items():
            result[name] = func
        return result

    def without_functions(self, names: Iterable[str]) -> "IRModule":
        """Return a copy without the functions with these names."""
        result = self.copy()
        for name in names:
            result._functions.pop(name, None)
        return result

    def update(self, other: "IRModule | Functions") -> None:
        """Add the functions and data types of `other`; equal names are replaced."""
        if isinstance(other, IRModule):
            self._types |= other._types
            self.source_map |= other.source_map
        for gvar, func in (other.functions if isinstance(other, IRModule) else other).items():
            self[gvar] = func

    def import_from_std(self, file_path: str) -> None:
        """Add the definitions of a standard library file, such as `prelude.rly`.

        If all definitions exist already, nothing changes.

        Raises:
            FileNotFoundError: if the file does not exist.
            RuntimeError: if `apass.relay.std`, which reads the files, has not been imported.

        """
        if not _std_importer:
            raise RuntimeError(f"cannot read {file_path} without an importer; import apass.relay.std first")
        _std_importer[0](self, file_path)

    def update_func(self, var: GlobalVar, func: Expr) -> None:
        """Add or replace a function, like `mod[var] = func`."""
        self[var] = func

    def add_type(self, data: TypeData) -> None:
        """Add or replace the definition of a data type."""
        self._types[data.header.name_hint] = data
        self.is_typed = False

    def get_global_var(self, name: str) -> GlobalVar:
        """Return the variable of a function. Raise KeyError if it does not exist."""
        self[name]  # raises KeyError with a suggestion
        return self._functions[name][0]

    def get_global_vars(self) -> list[GlobalVar]:
        """Return the variables of all functions."""
        return [gvar for gvar, _ in self._functions.values()]

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """Return the variable of a data type. Raise KeyError if it does not exist."""
        return self.get_type_data(name).header

    def get_global_type_vars(self) -> list[GlobalTypeVar]:
        """Return the variables of all data types."""
        return [data.header for data in self._types.values()]

    def get_type_data(self, var: str | GlobalTypeVar) -> TypeData:
        """Return the definition of a data type. Raise KeyError if it does not exist."""
        name = _name(var)
        if name not in self._types:
            hint = did_you_mean(name, self._types, listing="the module has: ")
            raise KeyError(f"the module has no data type named {name!r}{hint}")
        return self._types[name]

    def get_type(self, name: str) -> tuple[GlobalTypeVar | Constructor, ...]:
        """Return the variable of a data type and its constructors; KeyError if absent."""
        data = self.get_type_data(name)
        return (data.header, *data.constructors)

    @overload
    def get_constructor(self, tag: int, /) -> Constructor: ...

    @overload
    def get_constructor(self, type_name: str, name: str) -> Constructor: ...

    def get_constructor(self, type_name: str | int, name: str | None = None) -> Constructor:
        """Return a constructor by data type and name, or by tag. Raise KeyError if absent."""
        if isinstance(type_name, int):
            all_constructors = (constructor for data in self._types.values() for constructor in data.constructors)
            matches = [constructor for constructor in all_constructors if constructor.tag == type_name]
            message = f"the module has no constructor with the tag {type_name}"
        else:
            constructors = self.get_type_data(type_name).constructors
            matches = [constructor for constructor in constructors if constructor.name_hint == name]
            message = f"the data type {type_name} has no constructor {name!r}"
        if not matches:
            raise KeyError(message)
        return matches[0]

    def astext(self, show_meta_data: bool = True, annotate: Annotate | None = None) -> str:
        """Return Relay's text with a version line; see `apass.relay.astext`."""
        return astext(self, show_meta_data, annotate)

    def __str__(self) -> str:
        """Return Relay's text without version and metadata."""
        return pretty_print(self)

    def __repr__(self) -> str:
        """Return the names of the functions."""
        return f"<relay.IRModule of {', '.join(f'@{name}' for name in self._functions)}>"


def _name(var: str | GlobalVar | GlobalTypeVar) -> str:
    return var if isinstance(var, str) else var.name_hint
