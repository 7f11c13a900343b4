"""`IRModule`: functions and data types by name."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain, count
from typing import overload

from apass.errors import did_you_mean
from apass.relay.adt import Constructor, TypeData
from apass.relay.expr import Annotate, Expr, GlobalVar
from apass.relay.function import Function
from apass.relay.ir.variables import free_type_vars, free_vars
from apass.relay.text.printing.printer import astext, pretty_print
from apass.relay.ty import GlobalTypeVar

__all__ = ["IRModule", "set_std_importer"]

_std_importer: list[Callable[["IRModule", str], None]] = []


def set_std_importer(import_std: Callable[["IRModule", str], None]) -> None:
    """Use `import_std` for `import_from_std`: how the standard library, a layer above, makes itself known."""
    _std_importer[:] = [import_std]


class IRModule:
    """A program: functions by global name, and the definitions of algebraic data types.

    Functions are added while it is built (`mod["main"] = func`); a pass changes no module but makes another, with
    `mod.with_functions(...)` or from `mod.copy()`, which share all that is not changed.

    >>> from apass.relay.expr import Var
    >>> x = Var("x")
    >>> IRModule.from_expr(Function([x], x))["main"].body is x
    True
    """

    def __init__(
        self,
        functions: Mapping[GlobalVar, Expr] | Mapping[str, Expr] | None = None,
        type_definitions: Mapping[GlobalTypeVar, TypeData] | Mapping[str, TypeData] | None = None,
    ) -> None:
        """Take functions and data types by their variables, or by their names."""
        self._functions: dict[str, tuple[GlobalVar, Expr]] = {}
        self._types: dict[str, TypeData] = {}
        self.source_map: dict[str, str] = {}
        """The texts that it was parsed from, by the names in the spans of its nodes: what diagnostics show."""
        for gvar, func in (functions or {}).items():
            self[gvar] = func
        for header, data in (type_definitions or {}).items():
            self[header] = data

    @classmethod
    def from_expr(
        cls,
        expr: Expr,
        functions: Mapping[GlobalVar, Expr] | Mapping[str, Expr] | None = None,
        type_defs: Mapping[GlobalTypeVar, TypeData] | Mapping[str, TypeData] | None = None,
    ) -> "IRModule":
        """Return a module with a function, or with one of an expression and its free variables.

        It is named after its attribute `global_symbol`, `main` without one; `main_1` and so on if there is a `main`.
        """
        mod = cls(functions, type_defs)
        func = expr if isinstance(expr, Function) else Function(free_vars(expr), expr, None, free_type_vars(expr))
        symbol = None if func.attrs is None else func.attrs.get("global_symbol")
        mod[symbol if isinstance(symbol, str) else mod._unique_name("main")] = func
        return mod

    def _unique_name(self, name: str) -> str:
        names = chain([name], (f"{name}_{number}" for number in count(1)))
        return next(one for one in names if one not in self._functions)

    @property
    def functions(self) -> dict[GlobalVar, Expr]:
        """The functions by global variable, in the order in which they were added; a new dict."""
        return dict(self._functions.values())

    @property
    def type_definitions(self) -> dict[GlobalTypeVar, TypeData]:
        """The data types by their names; a new dict."""
        return {data.header: data for data in self._types.values()}

    @overload
    def __getitem__(self, var: str | GlobalVar) -> Function: ...

    @overload
    def __getitem__(self, var: GlobalTypeVar) -> TypeData: ...

    def __getitem__(self, var: str | GlobalVar | GlobalTypeVar) -> Function | TypeData:
        """Return a function by its name, or the definition of a data type by its variable.

        Raises:
            KeyError: if there is none; the message suggests the nearest one.

        """
        if isinstance(var, GlobalTypeVar):
            return self.get_type_data(var)
        name = _name(var)
        if name not in self._functions:
            hint = did_you_mean(name, self._functions, listing="the module has: ")
            raise KeyError(f"the module has no function named {name!r}{hint}")
        func = self._functions[name][1]
        if not isinstance(func, Function):
            raise KeyError(f"@{name} is no function, but {func!r}")
        return func

    def __setitem__(self, var: str | GlobalVar | GlobalTypeVar, val: Expr | TypeData) -> None:
        """Add a function or the definition of a data type, or put it in the place of the one of that name.

        Raises:
            TypeError: if it is neither.

        """
        name = _name(var)
        if isinstance(val, TypeData):
            self.add_type(val)
            return
        if isinstance(var, GlobalTypeVar) or not isinstance(val, Expr):
            raise TypeError(f"{name} must be a function, or the definition of a data type; not {val!r}")
        known = self._functions.get(name)
        gvar = var if isinstance(var, GlobalVar) else known[0] if known else GlobalVar(name)
        func = val if isinstance(val, Function) else Function(free_vars(val), val, None, free_type_vars(val))
        self._functions[name] = (gvar, func)

    def __contains__(self, var: object) -> bool:
        """Tell whether there is a function of that name."""
        return isinstance(var, str | GlobalVar) and _name(var) in self._functions

    def __len__(self) -> int:
        """Return the number of functions."""
        return len(self._functions)

    def __bool__(self) -> bool:
        """Be true, even without a function."""
        return True

    def copy(self) -> "IRModule":
        """Return a module that shares everything with this one until either is changed."""
        made = IRModule()
        made._functions, made._types = self._functions.copy(), self._types.copy()
        made.source_map = self.source_map.copy()
        return made

    def with_functions(self, updates: Mapping[str, Expr]) -> "IRModule":
        """Return a module with `updates` in the places of the functions of those names."""
        made = self.copy()
        for name, func in updates.items():
            made[name] = func
        return made

    def without_functions(self, names: Iterable[str]) -> "IRModule":
        """Return a module that has all functions but those of the names."""
        made = self.copy()
        for name in names:
            made._functions.pop(name, None)
        return made

    def update(self, other: "IRModule | Mapping[GlobalVar, Expr] | Mapping[str, Expr]") -> None:
        """Add all functions and data types of another module, over those of the same names."""
        if isinstance(other, IRModule):
            self._types |= other._types
            self.source_map |= other.source_map
        for gvar, func in (other.functions if isinstance(other, IRModule) else other).items():
            self[gvar] = func

    def import_from_std(self, file_path: str) -> None:
        """Add what a file of Relay's standard library defines, such as `prelude.rly`, unless all of it is there.

        Raises:
            FileNotFoundError: if there is no such file.
            RuntimeError: if `apass.relay.std` has not been imported, which reads the files.

        """
        if not _std_importer:
            raise RuntimeError(f"nothing is known yet that could read {file_path}: import apass.relay.std first")
        _std_importer[0](self, file_path)

    def update_func(self, var: GlobalVar, func: Expr) -> None:
        """Do as `mod[var] = func`."""
        self[var] = func

    def add_type(self, data: TypeData) -> None:
        """Add the definition of a data type, or put it in the place of the one of that name."""
        self._types[data.header.name_hint] = data

    def get_global_var(self, name: str) -> GlobalVar:
        """Return the variable of a function; KeyError if there is none of that name."""
        self[name]
        return self._functions[name][0]

    def get_global_vars(self) -> list[GlobalVar]:
        """Return the variables of all functions."""
        return [gvar for gvar, _ in self._functions.values()]

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """Return the name of a data type; KeyError if there is none."""
        return self.get_type_data(name).header

    def get_global_type_vars(self) -> list[GlobalTypeVar]:
        """Return the names of all data types."""
        return [data.header for data in self._types.values()]

    def get_type_data(self, name: str | GlobalTypeVar) -> TypeData:
        """Return the definition of a data type; KeyError if there is none."""
        wanted = _name(name)
        if wanted not in self._types:
            hint = did_you_mean(wanted, self._types, listing="the module has: ")
            raise KeyError(f"the module has no data type named {wanted!r}{hint}")
        return self._types[wanted]

    def get_type(self, name: str) -> tuple[GlobalTypeVar | Constructor, ...]:
        """Return the name of a data type, followed by its constructors; KeyError if there is none."""
        data = self.get_type_data(name)
        return (data.header, *data.constructors)

    @overload
    def get_constructor(self, tag: int, /) -> Constructor: ...

    @overload
    def get_constructor(self, type_name: str, name: str) -> Constructor: ...

    def get_constructor(self, type_name: str | int, name: str | None = None) -> Constructor:
        """Return a constructor by its data type and its name, or by its tag; KeyError if there is none."""
        if isinstance(type_name, int):
            found = [one for data in self._types.values() for one in data.constructors if one.tag == type_name]
            wanted = f"the module has no constructor with the tag {type_name}"
        else:
            found = [one for one in self.get_type_data(type_name).constructors if one.name_hint == name]
            wanted = f"the data type {type_name} has no constructor {name!r}"
        if not found:
            raise KeyError(wanted)
        return found[0]

    def astext(self, show_meta_data: bool = True, annotate: Annotate | None = None) -> str:
        """Return Relay's text, which `apass.relay.parser` reads back; see `apass.relay.text.printing.printer.astext`."""
        return astext(self, show_meta_data, annotate)

    def __str__(self) -> str:
        """Return Relay's text without its version and its metadata."""
        return pretty_print(self)

    def __repr__(self) -> str:
        """Return the names of the functions."""
        return f"<relay.IRModule of {', '.join(f'@{name}' for name in self._functions)}>"


def _name(var: str | GlobalVar | GlobalTypeVar) -> str:
    return var if isinstance(var, str) else var.name_hint
