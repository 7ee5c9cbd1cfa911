"""What the condition of a select says about indices: in `x[t-1] if t > 0 else 0` the read is inside where it counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dslc.check.frame import Frame
from dslc.check.positions import affine, difference, interval_affine
from dslc.check.program import Affine, Apply, Expr, Read
from dslc.sizes import quotient, tidy

if TYPE_CHECKING:
    from dslc.check.indices import PendingRead

#: a < b as what is not negative, and what it is when it fails
NEGATED = {"<": ">=", ">=": "<", "<=": ">", ">": "<=", "==": "!=", "!=": "=="}


@dataclass(frozen=True)
class Known:
    """`form` is not negative; where `nonzero`, it is only known not to be 0, with a `modulus` what it leaves."""

    form: Affine
    nonzero: bool = False
    modulus: int = 0
    remainder: int = 0


@dataclass(eq=False)
class Guarded:
    """A read in a branch of a select, which stands for 0 outside of its tensor while that may be needed."""

    read: Read
    known: tuple[Known, ...]
    #: positions that are not proved inside without the condition
    open: set[PendingRead] = field(default_factory=set)

    def proved(self, position: PendingRead) -> None:
        """A position is inside whatever the condition says."""
        self.open.discard(position)
        if not self.open:
            self.read.outside = None


def known_where(test: Expr | None, holds: bool) -> Iterator[Known]:
    """What holds of indices where a condition does, or where it does not."""
    if not isinstance(test, Apply):
        return
    if test.op == "not":
        yield from known_where(test.args[0], not holds)
    elif test.op == ("and" if holds else "or"):
        for part in test.args:
            yield from known_where(part, holds)
    elif test.op in NEGATED:
        op = test.op if holds else NEGATED[test.op]
        a, b = affine(test.args[0]), affine(test.args[1])
        if a is None or b is None:
            yield from _remainder(test.args[0], op, b)
            return
        if op == "!=":
            yield Known(difference(a, b), nonzero=True)
        if op in ("<=", "<", "=="):
            yield Known(difference(b, a, 1 if op == "<" else 0))
        if op in (">=", ">", "=="):
            yield Known(difference(a, b, 1 if op == ">" else 0))


#: remainders by more than this are not looked at
MOST_MODULUS = 64


def _remainder(remainder: Expr, op: str, b: Affine | None) -> Iterator[Known]:
    """What leaves a remainder, as s where `s % 2 == 1` or `s % 2 != 0`, is not 0 and leaves it at its bounds too."""
    if not isinstance(remainder, Apply) or remainder.op != "%" or b is None or b.terms or not isinstance(b.offset, int):
        return
    dividend, divisor = (affine(x) for x in remainder.args)
    if dividend is None or op not in ("==", "!="):
        return
    if (op == "!=") == (b.offset == 0):
        yield Known(dividend, nonzero=True)
    modulus = divisor.offset if divisor is not None and not divisor.terms else 0
    if not isinstance(modulus, int) or not 1 < modulus <= MOST_MODULUS or not 0 <= b.offset < modulus:
        return
    if op == "==" or modulus == 2:
        yield Known(dividend, modulus=modulus, remainder=b.offset if op == "==" else 1 - b.offset)


def not_negative(frame: Frame, claim: Affine, known: Iterable[Known]) -> bool:
    """Does one of the known facts make an affine form not negative, over the ranges of its indices?"""
    return any(_least_is_not_negative(frame, difference(claim, form)) for form in _forms(frame, list(known)))


def _forms(frame: Frame, known: list[Known]) -> list[Affine]:
    """What is not negative. What is not 0 and not negative is at least 1: for `t != 0` that is t - 1, for `t != T-1`
    it is T - 2 - t, and for `t != 0` and `t != 1` both t - 1 and t - 2.
    """
    forms = [x.form for x in known if not x.nonzero and not x.modulus]
    forms += [form for x in known if x.modulus for form in _between(frame, x)]
    open_ = [x.form for x in known if x.nonzero]
    for _ in known:
        for form in tuple(open_):
            for side in (form, difference(Affine((), 0), form)):
                if any(_least_is_not_negative(frame, difference(side, x)) for x in (Affine((), 0), *forms)):
                    forms.append(difference(side, Affine((), 1)))
                    open_.remove(form)
                    break
    return forms


def _between(frame: Frame, known: Known) -> Iterator[Affine]:
    """The first and the last value that leaves a remainder: up to 2 L, what leaves 1 by 2 goes up to 2 L - 1."""
    low, high = interval_affine(frame, known.form.terms, tidy(known.form.offset))
    for k in range(known.modulus):
        if low is not None and frame.facts.whole(quotient(tidy(low + k - known.remainder), known.modulus)):
            yield difference(known.form, Affine((), tidy(low + k)))
        if high is not None and frame.facts.whole(quotient(tidy(high - k - known.remainder), known.modulus)):
            yield difference(Affine((), tidy(high - k)), known.form)


def _least_is_not_negative(frame: Frame, form: Affine) -> bool:
    low, _ = interval_affine(frame, form.terms, tidy(form.offset))
    return low is not None and frame.facts.nonnegative(low)
