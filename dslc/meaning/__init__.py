"""What formulas of the IR come to: their values, and what is certain of them whatever the data."""
