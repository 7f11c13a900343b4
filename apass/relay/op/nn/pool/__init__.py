"""Pooling: sliding windows, adaptive and global."""
