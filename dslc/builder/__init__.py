"""From the checked program to the IR: the program of a model or of a training, with the tables of its parameters."""
