"""Checkpoints: files, our layout, and the tables to and from other libraries' layouts.

The names of our own tensors are in ``layout``. Those of other libraries are in ``libraries``, in
``huggingface`` (a module for each model_type) and in ``bare`` (files that hold weights alone);
``tables`` reads and writes by them. The other modules know files and folders.
"""
