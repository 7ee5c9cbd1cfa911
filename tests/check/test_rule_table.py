"""Every kind of expression and of statement has a rule."""

from __future__ import annotations

from typing import get_args

from dslc.check import rule_table as rule_table
from dslc.check.rules import EXPRESSIONS, STATEMENTS
from dslc.syntax import tree as t


def test_every_expression_has_a_rule() -> None:
    assert EXPRESSIONS.keys() == set(get_args(t.Expr))


def test_every_statement_has_a_rule() -> None:
    assert STATEMENTS.keys() == set(get_args(t.Statement))
