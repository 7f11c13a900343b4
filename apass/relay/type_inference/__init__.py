"""Type inference: constraints, unification, and checks of kinds and patterns."""
