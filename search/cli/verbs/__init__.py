"""What `python -m search` can be told to do: one file a verb, found by its name.

Each has a docstring, whose first line is its help, ``run(desk, options)`` and, if it has
any, ``add_options(parser)``.
"""
