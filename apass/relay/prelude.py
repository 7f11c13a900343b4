"""`Prelude`: option, list and tree types, and functions on them, in Relay text."""

from typing import overload

from apass.errors import did_you_mean
from apass.relay.ir.adt import Constructor
from apass.relay.ir.expr import GlobalVar
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import GlobalTypeVar
from apass.relay.std import import_std
from apass.relay.std.tensor_array import add_tensor_arrays

__all__ = ["Prelude"]


class Prelude:
    """Access to the definitions of the prelude in a module.

    The constructor adds the prelude to the module. The functions are attributes: `id`, `compose`, `flip`, `iterate`,
    `hd`, `tl`, `nth`, `length`, `update`, `map`, `foldl`, `foldr`, `foldr1`, `sum`, `concat`, `filter`, `zip`, `rev`,
    `map_accuml`, `map_accumr`, `unfoldl`, `unfoldr`, `tmap`, `size`.

    TVM defines tensor arrays for each element type. Here, the definitions for an element type are added on the first
    request with that type: `get_global_var("tensor_array_read", "float32")`.

    >>> prelude = Prelude()
    >>> prelude.cons, prelude.map, prelude.mod.get_type("Option")[1:]
    (<relay.Constructor Cons>, <relay.GlobalVar @map>, (<relay.Constructor Some>, <relay.Constructor None>))
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        """Add the prelude to `mod` in place, or to a new module if `mod` is None."""
        self.mod: IRModule = IRModule() if mod is None else mod
        """The module."""
        import_std(self.mod, "prelude.rly")

    @property
    def l(self) -> GlobalTypeVar:  # noqa: E743 - TVM's name
        """The list type."""
        return self.mod.get_global_type_var("List")

    @property
    def cons(self) -> Constructor:
        """The constructor of a list from a head and a tail."""
        return self.get_ctor("List", "Cons")

    @property
    def nil(self) -> Constructor:
        """The constructor of the empty list."""
        return self.get_ctor("List", "Nil")

    @property
    def option(self) -> GlobalTypeVar:
        """The option type."""
        return self.mod.get_global_type_var("Option")

    @property
    def some(self) -> Constructor:
        """The constructor of an option with a value."""
        return self.get_ctor("Option", "Some")

    @property
    def none(self) -> Constructor:
        """The constructor of an option without a value."""
        return self.get_ctor("Option", "None")

    @property
    def tree(self) -> GlobalTypeVar:
        """The tree type."""
        return self.mod.get_global_type_var("Tree")

    @property
    def rose(self) -> Constructor:
        """The constructor of a tree from a value and a list of subtrees."""
        return self.get_ctor("Tree", "Rose")

    def get_name(self, canonical: str, dtype: str) -> str:
        """Return the name of a tensor array definition for an element type."""
        return f"tensor_{dtype}_t" if canonical == "tensor_t" else f"{canonical}_{dtype}"

    def get_ctor(self, ty_name: str, canonical: str, dtype: str | None = None) -> Constructor:
        """Return a constructor of a data type. Raise KeyError if it does not exist."""
        return self.mod.get_constructor(ty_name, self._name(canonical, dtype))

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Constructor:
        """Return a constructor of the tensor type in tensor arrays of an element type.

        The constructors are `tensor0` to `tensor6`, one for each rank.
        """
        return self.get_ctor(self.get_type("tensor_t", dtype).name_hint, canonical, dtype)

    @overload
    def get_type(self, canonical: str) -> tuple[GlobalTypeVar | Constructor, ...]: ...

    @overload
    def get_type(self, canonical: str, dtype: str) -> GlobalTypeVar: ...

    def get_type(
        self, canonical: str, dtype: str | None = None
    ) -> tuple[GlobalTypeVar | Constructor, ...] | GlobalTypeVar:
        """Return the name of a data type, then its constructors. Raise KeyError if absent.

        With `dtype`, return only the name of the tensor array data type for that element type, as in TVM.
        """
        if dtype is not None:
            return self.mod.get_global_type_var(self._name(canonical, dtype))
        return self.mod.get_type(canonical)

    def get_global_var(self, canonical: str, dtype: str | None = None) -> GlobalVar:
        """Return the variable of a function. Raise KeyError if it does not exist.

        With `dtype`, return the tensor array function for that element type.
        """
        return self.mod.get_global_var(self._name(canonical, dtype))

    def get_var(self, canonical: str, dtype: str | None = None) -> GlobalVar:
        """Return `get_global_var(canonical, dtype)`; the name is that of TVM 0.7."""
        return self.get_global_var(canonical, dtype)

    def _name(self, canonical: str, dtype: str | None) -> str:
        """Return the name of a definition. With `dtype`, add the tensor arrays first."""
        if dtype is None:
            return canonical
        add_tensor_arrays(self.mod, dtype)
        return self.get_name(canonical, dtype)

    def __getattr__(self, name: str) -> GlobalVar:
        """Return the variable of a function of the module.

        Raises:
            AttributeError: if it does not exist. The message suggests a similar name.

        """
        # `copy` and `pickle` look up attributes before `mod` is set; `self.mod` would recurse endlessly here.
        mod: IRModule | None = self.__dict__.get("mod")
        if mod is None or name not in mod:
            names = [] if mod is None else [gvar.name_hint for gvar in mod.get_global_vars()]
            raise AttributeError(f"the prelude has no function {name!r}{did_you_mean(name, names)}")
        return mod.get_global_var(name)
