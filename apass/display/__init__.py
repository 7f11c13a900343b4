"""Display of passes, plans, modules and results in notebooks and terminals.

An object is described as blocks, which know nothing about HTML or terminals. Three renderers turn blocks into HTML,
into renderables of rich, and into plain text.
"""
