"""Measurements of compiled modules beside those of peers, in one run: `python -m bench`."""
