"""Differentiation: from programs in the IR to programs for their derivatives."""

from dslc.autodiff import rules as rules  # whoever differentiates has the rules of all nodes
