"""The board of searches for an order of LLVM's passes."""
