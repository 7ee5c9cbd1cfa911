"""Differentiation: from programs in the IR to programs for their derivatives."""
