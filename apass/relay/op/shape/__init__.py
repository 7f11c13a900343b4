"""Operators that create, join, slice and rearrange tensors."""
