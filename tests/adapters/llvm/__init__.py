"""The LLVM adapter."""
