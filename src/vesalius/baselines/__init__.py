"""Simple methods that a network has to beat, fitted and measured in the same run."""
