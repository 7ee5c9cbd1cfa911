"""The intermediate representation: its nodes, how they are interned, shown and changed."""
