"""Display of objects in notebooks and terminals.

An object describes itself as blocks, which know nothing about HTML or terminals (see `apass.core.view`). Three
renderers turn blocks into HTML, into renderables of rich, and into plain text.
"""
