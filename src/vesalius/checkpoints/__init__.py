"""Checkpoints: files, our layout, and the tables to and from other libraries' layouts."""
