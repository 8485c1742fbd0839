"""Compiled kernels: prefill, which reads prompts, and decode, which goes one token further.

All threads of a pool run each of them. A matrix is read once for all sequences, in float32 or in
int8 with one scale a row. Int8 weights are multiplied with activations of 16 bits where the
processor is quick at that.
"""
