"""The passes `FuseOps` and `DefuseOps`."""
