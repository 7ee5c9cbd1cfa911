"""Formulas as people write them, computed as people would compute them."""
