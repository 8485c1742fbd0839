"""Compiled kernels that take every sequence one token further, at the speed of memory.

Each is run by all threads of a team, every one with a member's number and room of its own. A matrix
is read once for all sequences, in float32 or as bytes with a scale for each of its rows; bytes meet
vectors of 16-bit integers where the processor is quick at that.
"""
