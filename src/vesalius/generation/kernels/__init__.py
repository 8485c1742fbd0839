"""Compiled kernels that take sequences one token further, or through their prompts.

Each is run by all threads of a team. A matrix is read once for all vectors, in float32 or as bytes
with a scale for each of its rows; bytes meet vectors of 16-bit integers, where the processor is
quick at that.
"""
