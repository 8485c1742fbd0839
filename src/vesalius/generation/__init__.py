"""Generation: sampling, engines for processors, and what drives the one with the other."""
