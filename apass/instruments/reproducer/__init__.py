"""Reproducers: failures of passes as folders, and the instrument that writes them."""
