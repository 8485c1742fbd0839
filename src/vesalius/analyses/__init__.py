"""What one asks of a model at work: how a number was made, what it is owed to, what it depends on.

Each module is one question and its result. All of them read the steps of a trace or edit them on
the way; none computes a forward pass of its own.
"""
