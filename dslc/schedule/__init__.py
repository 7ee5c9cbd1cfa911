"""What runs together, as data: regions of loops, loops of the host, and operations that are calls."""
