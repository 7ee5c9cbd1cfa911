"""The intermediate representation: its nodes, how they are built, checked, shown, changed and evaluated."""
