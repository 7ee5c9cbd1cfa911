"""Weights in files: those of modules, and those of other frameworks brought in."""
