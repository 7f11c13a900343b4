"""`CallGraph`: the references between the functions of a module, as in TVM."""

from apass.relay.ir.expr import GlobalVar
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order

__all__ = ["CallGraph"]


class CallGraph:
    """The global functions that each function of a module refers to.

    The number of references between two functions is 0 or 1, as in TVM. The methods take a global variable or its name.
    They raise KeyError if the module has no such function, and TypeError for any other value.

    >>> from apass.relay.expr import Call
    >>> from apass.relay.function import Function
    >>> f = GlobalVar("f")
    >>> graph = CallGraph(IRModule({"f": Function([], Call(f, [])), "main": Function([], Call(f, []))}))
    >>> graph.ref_count("f"), graph.is_recursive("f"), graph.global_call_count("main")
    (2, True, 1)
    """

    def __init__(self, module: IRModule) -> None:
        """Find the references in all functions.

        Raises:
            KeyError: if a function refers to one that the module lacks.

        """
        self._module = module
        self._called = {gvar.name_hint: _references(gvar, module) for gvar in module.get_global_vars()}
        self._ref_counts = dict.fromkeys(self._called, 0)
        for called in self._called.values():
            for name in called:
                self._ref_counts[name] += 1

    @property
    def module(self) -> IRModule:
        """The module."""
        return self._module

    def ref_count(self, var: str | GlobalVar) -> int:
        """Return the number of functions that refer to a function, itself included."""
        return self._ref_counts[self._name(var)]

    def global_call_count(self, var: str | GlobalVar) -> int:
        """Return the number of functions that a function refers to, itself included."""
        return len(self._called[self._name(var)])

    def is_recursive(self, var: str | GlobalVar) -> bool:
        """Return whether a function refers to itself; mutual recursion does not count."""
        name = self._name(var)
        return name in self._called[name]

    def print_var(self, var: str | GlobalVar) -> str:
        """Return TVM's text for one function: its references, each on a line."""
        name = self._name(var)
        lines = [f"Call graph node: {name} at: {id(self._called[name]):#x},  #refs = {self._ref_counts[name]}"]
        lines += [f"  call site: <{name}> calls {callee}" for callee in self._called[name]]
        return "\n".join(lines) + "\n\n"

    def __str__(self) -> str:
        """Return TVM's text for all functions, callers first."""
        return "".join(map(self.print_var, self._order()))

    def _name(self, var: object) -> str:
        if not isinstance(var, str | GlobalVar):
            raise TypeError(f"var must be a GlobalVar or the name of a function, got {var!r}")
        name = var if isinstance(var, str) else var.name_hint
        return self._module.get_global_var(name).name_hint

    def _order(self) -> list[str]:
        """Return the functions by breadth-first search from those without callers.

        As in TVM, the result for an entry comes before that for the entries before it. Functions that only call each
        other, for which TVM fails, come last.
        """
        order: list[str] = []
        seen: set[str] = set()
        for entry in self._called:
            if self._ref_counts[entry] == 0 or (self._ref_counts[entry] == 1 and entry in self._called[entry]):
                order = self._reached(entry, seen) + order
        for name in self._called:
            order += self._reached(name, seen)
        return order

    def _reached(self, entry: str, seen: set[str]) -> list[str]:
        """Return the functions reached from an entry that are not in `seen`; add them."""
        reached = [] if entry in seen else [entry]
        seen.add(entry)
        for name in reached:  # grows in the loop
            new = [callee for callee in self._called[name] if callee not in seen]
            seen.update(new)
            reached += new
        return reached


def _references(gvar: GlobalVar, module: IRModule) -> list[str]:
    nodes = post_order(module[gvar])
    names = list(dict.fromkeys(node.name_hint for node in nodes if isinstance(node, GlobalVar)))
    for name in names:
        module.get_global_var(name)  # raises KeyError with a suggestion
    return names
