"""`Prelude`: the data types option, list and tree, and the functions on them, written in Relay's text."""

from typing import overload

from apass.errors import did_you_mean
from apass.relay.adt import Constructor
from apass.relay.expr import GlobalVar
from apass.relay.ir.module import IRModule
from apass.relay.std import import_std
from apass.relay.std.tensor_array import add_tensor_arrays
from apass.relay.ty import GlobalTypeVar

__all__ = ["Prelude"]


class Prelude:
    """Adds the prelude to a module, and gives access to it.

    Its functions are attributes: `id`, `compose`, `flip`, `iterate`, `hd`, `tl`, `nth`, `length`, `update`, `map`,
    `foldl`, `foldr`, `foldr1`, `sum`, `concat`, `filter`, `zip`, `rev`, `map_accuml`, `map_accumr`, `unfoldl`,
    `unfoldr`, `tmap`, `size`.

    What TVM has for tensor arrays of each element type is added when it is asked for with the type:
    `get_global_var("tensor_array_read", "float32")`.

    >>> prelude = Prelude()
    >>> prelude.cons, prelude.map, prelude.mod.get_type("Option")[1:]
    (<relay.Constructor Cons>, <relay.GlobalVar @map>, (<relay.Constructor Some>, <relay.Constructor None>))
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        """Add the prelude to `mod`, which is changed; to a new module without it."""
        self.mod = IRModule() if mod is None else mod
        """The module."""
        import_std(self.mod, "prelude.rly")

    @property
    def l(self) -> GlobalTypeVar:  # noqa: E743 - TVM's name
        """The list type."""
        return self.mod.get_global_type_var("List")

    @property
    def cons(self) -> Constructor:
        """The constructor of a list of an element and a rest."""
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
        """The constructor of an option that has a value."""
        return self.get_ctor("Option", "Some")

    @property
    def none(self) -> Constructor:
        """The constructor of an option that has none."""
        return self.get_ctor("Option", "None")

    @property
    def tree(self) -> GlobalTypeVar:
        """The tree type."""
        return self.mod.get_global_type_var("Tree")

    @property
    def rose(self) -> Constructor:
        """The constructor of a tree of a value and a list of trees."""
        return self.get_ctor("Tree", "Rose")

    def get_name(self, canonical: str, dtype: str) -> str:
        """Return the name of a definition for tensor arrays of an element type."""
        return f"tensor_{dtype}_t" if canonical == "tensor_t" else f"{canonical}_{dtype}"

    def get_ctor(self, ty_name: str, canonical: str, dtype: str | None = None) -> Constructor:
        """Return a constructor of a data type; KeyError if there is none."""
        return self.mod.get_constructor(ty_name, self._name(canonical, dtype))

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Constructor:
        """Return a constructor of the tensors in tensor arrays of an element type: `tensor0` to `tensor6`."""
        return self.get_ctor(self.get_type("tensor_t", dtype).name_hint, canonical, dtype)

    @overload
    def get_type(self, name: str) -> tuple[GlobalTypeVar | Constructor, ...]: ...

    @overload
    def get_type(self, name: str, dtype: str) -> GlobalTypeVar: ...

    def get_type(self, name: str, dtype: str | None = None) -> tuple[GlobalTypeVar | Constructor, ...] | GlobalTypeVar:
        """Return the name of a data type, followed by its constructors; KeyError if there is none.

        With an element type, the name of what tensor arrays of it are made of, by itself, as in TVM.
        """
        if dtype is not None:
            return self.mod.get_global_type_var(self._name(name, dtype))
        return self.mod.get_type(name)

    def get_global_var(self, canonical: str, dtype: str | None = None) -> GlobalVar:
        """Return the variable of a function, of one on tensor arrays of an element type; KeyError if there is none."""
        return self.mod.get_global_var(self._name(canonical, dtype))

    def _name(self, canonical: str, dtype: str | None) -> str:
        """Return the name of a definition, after seeing to it that there are tensor arrays of the element type."""
        if dtype is None:
            return canonical
        add_tensor_arrays(self.mod, dtype)
        return self.get_name(canonical, dtype)

    def __getattr__(self, name: str) -> GlobalVar:
        """Return the variable of a function of the module.

        Raises:
            AttributeError: if there is none; the message suggests the nearest one.

        """
        mod: IRModule | None = self.__dict__.get("mod")
        if mod is None or name not in mod:
            known = [] if mod is None else [gvar.name_hint for gvar in mod.get_global_vars()]
            raise AttributeError(f"the prelude has no function {name!r}{did_you_mean(name, known)}")
        return mod.get_global_var(name)
