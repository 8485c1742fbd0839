"""What models learn from: corpora by name, token files, and the batches that training reads.

Everything here is NumPy; batches are functions of a seed and a step, so a run can go on anywhere.
"""
