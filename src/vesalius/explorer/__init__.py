"""The explorer: a page on one's own machine that takes a run of a model apart.

The server answers on the loopback alone. The page in ``frontend/`` computes nothing: every number
that it shows is one that the library gave.
"""
