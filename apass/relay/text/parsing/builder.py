"""`Builder`: grammar actions for functions, patterns, data types and whole texts."""

from dataclasses import dataclass
from typing import NamedTuple

from apass.errors import did_you_mean
from apass.relay.ir.adt import (
    Clause,
    Constructor,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from apass.relay.ir.expr import Expr, GlobalVar
from apass.relay.ir.function import Function
from apass.relay.ir.ty import GlobalTypeVar, Type, TypeVar
from apass.relay.text.parsing.attrs import AttrEntry
from apass.relay.text.parsing.exprs import Bound, ExprBuilder, annotation
from apass.relay.text.parsing.source import TextError

__all__ = ["Builder", "Definitions"]


@dataclass(frozen=True, slots=True)
class Definitions:
    """The definitions in the text of a module."""

    functions: dict[GlobalVar, Function]
    """The functions."""
    types: dict[GlobalTypeVar, TypeData]
    """The data types."""
    version: str | None
    """The version of the format, if the text has one."""


class Parameters(NamedTuple):
    """The parameters and attributes in the parentheses of a function."""

    bound: list[Bound]
    attrs: list[AttrEntry]


class Signature(NamedTuple):
    """A function header: type parameters, parameters and result type."""

    type_params: list[TypeVar]
    params: Parameters
    result: Type | None


class TypeHead(NamedTuple):
    """The name and type parameters of a data type definition."""

    name: GlobalTypeVar
    params: list[TypeVar]


class Builder(ExprBuilder):
    """Builder of modules and expressions."""

    _functions: dict[GlobalVar, Function]
    _types: dict[GlobalTypeVar, TypeData]
    _type: GlobalTypeVar
    _in_patterns: list[Bound]

    # Whole texts.

    def no_version(self, picked: object, start: int, end: int) -> None:
        """Start a text without a version."""
        self._functions, self._types, self._in_patterns = {}, {}, []

    def version(self, picked: str, start: int, end: int) -> str:
        """Start a text with a version."""
        self.no_version(picked, start, end)
        version = picked.split('"')[1]
        if version != "0.0.5":
            raise TextError(f"unsupported text format version {version}", start, end, "the version must be 0.0.5")
        return version

    def no_definitions(self, picked: object, start: int, end: int) -> None:
        """Start a module."""

    def module(self, picked: tuple[str | None, object], start: int, end: int) -> Definitions:
        """Return the definitions. Raise TextError if a data type is used but not defined."""
        for name, (low, high) in self._mentions.items():
            if GlobalTypeVar(name) not in self._types:
                defined = [
                    "Tensor",
                    *(type_name for type_name in self._global_types if type_name not in self._mentions),
                ]
                raise TextError(f"there is no type `{name}`{did_you_mean(name, defined)}", low, high)
        return Definitions(self._functions, self._types, picked[0])

    def program(self, picked: tuple[str | None, Expr], start: int, end: int) -> Expr:
        """Return the expression of a text."""
        return picked[1]

    # Functions.

    def function_head(self, picked: str, start: int, end: int) -> GlobalVar:
        """Return the name in a function definition."""
        gvar = self.global_var(picked, end - len(picked), end)
        if gvar in self._functions:
            raise TextError(f"the function `{picked}` is already defined", end - len(picked), end)
        return gvar

    def define_function(self, picked: tuple[GlobalVar, Function], start: int, end: int) -> None:
        """Add a function to the module."""
        gvar, func = picked
        self._functions[gvar] = func

    def no_params(self, picked: object, start: int, end: int) -> Parameters:
        """Return an empty parameter list."""
        return Parameters([], [])

    def params(self, picked: list[Bound], start: int, end: int) -> Parameters:
        """Return a parameter list without attributes."""
        return self.params_attrs((picked, []), start, end)

    def only_attrs(self, picked: list[AttrEntry], start: int, end: int) -> Parameters:
        """Return a parameter list with attributes only."""
        return self.params_attrs(([], picked), start, end)

    def params_attrs(self, picked: tuple[list[Bound], list[AttrEntry]], start: int, end: int) -> Parameters:
        """Return a parameter list with attributes."""
        words: set[str] = set()
        for bound in picked[0]:
            if bound.word in words:
                raise TextError(f"duplicate parameter `{bound.word}`", bound.start, bound.start + len(bound.word))
            words.add(bound.word)
        return Parameters(*picked)

    def signature(self, picked: tuple[Parameters, Type | None], start: int, end: int) -> Signature:
        """Return the header of a function."""
        return Signature([], *picked)

    def generic_signature(
        self, picked: tuple[list[TypeVar], Parameters, Type | None], start: int, end: int
    ) -> Signature:
        """Return the header of a function with type parameters."""
        self._check_params(picked[0], start, end)
        return Signature(*picked)

    def function(self, picked: tuple[Signature, Expr], start: int, end: int) -> Function:
        """Return a function, and close the scope of its parameters."""
        signature, body = picked
        for bound in reversed(signature.params.bound):
            self._unbind(bound)
        self._release(signature.type_params)
        params = [bound.var for bound in signature.params.bound]
        attrs = self._entries(signature.params.attrs)
        result = annotation(signature.result)
        return Function(params, body, result, signature.type_params, attrs, span=self._span(start, end))

    # Patterns.

    def clause(self, picked: tuple[Pattern, Expr], start: int, end: int) -> Clause:
        """Return a clause of a match, and close the scope of its pattern variables."""
        pattern, result = picked
        for _ in pattern.bound:
            self._unbind(self._in_patterns.pop())
        return Clause(pattern, result)

    def wildcard(self, picked: object, start: int, end: int) -> PatternWildcard:
        """Return a wildcard pattern."""
        return PatternWildcard()

    def pattern_var(self, picked: str, start: int, end: int) -> PatternVar:
        """Return a variable pattern."""
        return self.pattern_var_of_type((picked, None), start, end)

    def pattern_var_of_type(self, picked: tuple[str, Type | None], start: int, end: int) -> PatternVar:
        """Return a variable pattern with a type annotation."""
        bound = self._bind(*picked, start)
        self._in_patterns.append(bound)
        return PatternVar(bound.var)

    def pattern_name(self, picked: str, start: int, end: int) -> PatternConstructor:
        """Return a constructor pattern without arguments."""
        return self.pattern_constructor((picked, []), start, end)

    def pattern_of_names(self, picked: str, start: int, end: int) -> PatternConstructor:
        """Return a constructor pattern whose arguments are variables."""
        name, _, names = picked[:-1].partition("(")
        patterns: list[Pattern] = []
        offset = start + len(name) + 1
        for word in names.split(", "):
            if word[1:2].isdigit():
                raise TextError(f"expected a pattern, found a graph variable `{word}`", offset, offset + len(word))
            patterns.append(self.pattern_var(word, offset, offset + len(word)))
            offset += len(word) + 2
        return self.pattern_constructor((name, patterns), start, end)

    def pattern_constructor(self, picked: tuple[str, list[Pattern]], start: int, end: int) -> PatternConstructor:
        """Return a constructor pattern."""
        name, patterns = picked
        if name not in self._constructors:
            hint = did_you_mean(name, self._constructors, listing="there are: ")
            advice = f"write `%{name}` if it is meant to be a variable"
            raise TextError(f"there is no constructor `{name}`{hint}", start, start + len(name), advice)
        return PatternConstructor(self._constructors[name], patterns)

    def pattern_unit(self, picked: object, start: int, end: int) -> PatternTuple:
        """Return the pattern of the empty tuple."""
        return PatternTuple(())

    def pattern_tuple(self, picked: list[Pattern], start: int, end: int) -> PatternTuple:
        """Return a tuple pattern."""
        return PatternTuple(picked)

    # Data types.

    def type_head(self, picked: str, start: int, end: int) -> TypeHead:
        """Start the definition of a data type."""
        return self._type_head(picked, [], end - len(picked))

    def generic_type_head(self, picked: tuple[str, list[TypeVar]], start: int, end: int) -> TypeHead:
        """Start the definition of a data type with type parameters."""
        name, params = picked
        self._check_params(params, start, end)
        return self._type_head(name, params, self._source.text.index(name, start + len("type")))

    def _type_head(self, name: str, params: list[TypeVar], start: int) -> TypeHead:
        if name in self._global_types and name not in self._mentions:
            raise TextError(f"the type `{name}` is already defined", start, start + len(name))
        self._type = self._data_type(name, start, start + len(name))
        self._mentions.pop(name, None)
        return TypeHead(self._type, params)

    def type_name(self, picked: TypeHead, start: int, end: int) -> TypeData:
        """Return a data type without constructors."""
        return self.type_definition((picked, []), start, end)

    def type_definition(self, picked: tuple[TypeHead, list[Constructor]], start: int, end: int) -> TypeData:
        """Return a data type, and close the scope of its type parameters."""
        head, constructors = picked
        self._release(head.params)
        return TypeData(head.name, head.params, constructors)

    def define_type(self, picked: TypeData, start: int, end: int) -> None:
        """Add a data type to the module."""
        self._types[picked.header] = picked

    def define_extern_type(self, picked: TypeData, start: int, end: int) -> None:
        """Add an external data type to the module."""
        if picked.constructors:
            raise TextError(f"the external type `{picked.header}` must not have constructors", start, end)
        self.define_type(picked, start, end)

    def constructor(self, picked: str, start: int, end: int) -> Constructor:
        """Return a constructor without arguments."""
        return self.constructor_of((picked, []), start, end)

    def constructor_of(self, picked: tuple[str, list[Type]], start: int, end: int) -> Constructor:
        """Return a constructor with arguments."""
        name, inputs = picked
        if name in self._constructors:
            raise TextError(f"the constructor `{name}` is already defined", start, start + len(name))
        result = Constructor(name, inputs, self._type, span=self._span(start, end))
        self._constructors[name] = result
        return result
