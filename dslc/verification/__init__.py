"""Is a compiled spec right? Its modules against the reference interpreter, and gradients against differences."""
