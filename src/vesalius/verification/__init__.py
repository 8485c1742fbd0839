"""Whether equations, networks and other libraries agree: agreement, taps into networks, peers."""
