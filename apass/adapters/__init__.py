"""Adapters to IRs.

An adapter is imported when the first module of its type is used.
"""
