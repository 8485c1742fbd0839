"""A forward pass and its record: dissection, trace, steps, graph, and edits."""
