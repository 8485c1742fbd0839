"""Checkpoints: files, our layout, and the tables to and from other libraries' layouts.

The names of our own tensors are in ``layout``. Those of other libraries are in ``libraries`` and,
a module for each model_type, in ``huggingface``; ``tables`` reads and writes by them. The other
modules know files and folders.
"""
