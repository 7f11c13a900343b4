"""Convolutions: plain, transposed, deformable and packed."""
