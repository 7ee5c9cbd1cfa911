"""The intermediate representation: its nodes, how they are interned, shown, changed and evaluated."""
