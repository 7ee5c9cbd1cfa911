"""Pictures of runs: curves in the terminal, and figures drawn with matplotlib."""
