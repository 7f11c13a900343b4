"""Proofs that two Relay modules are equivalent, by the SMT solver z3."""
