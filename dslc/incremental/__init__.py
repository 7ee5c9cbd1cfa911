"""A model one position of its sequence at a time: what may be remembered, and the program of one step."""
