"""Type visitors and mutators: the names of TVM's `relay.type_functor`."""

from apass.relay.visitors.type_functor import TypeFunctor, TypeMutator, TypeVisitor

__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor"]
