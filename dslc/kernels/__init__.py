"""From the IR to kernels that any backend can print: which nodes run together, over which tiles, in which order."""
