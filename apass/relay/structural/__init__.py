"""Structural equality, hash and fingerprint of programs."""
