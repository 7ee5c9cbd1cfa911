"""C modules: one file without libraries, a header, and a Python module that calls it."""
