"""Maps from the names and layouts of a checkpoint to those of a spec: one rule a line.

prefix model.                                   take this away from the beginning of all names
drop *.num_batches_tracked                      leave these out
fc*.weight -> dense$1.W: transpose              `*` is any text without dots and slashes, `$1` the first of them
h.*.c_attn.w -> b.$1.Wq, b.$1.Wk, b.$1.Wv: split 1, reshape
expert.*.w -> experts.W: stack                  all that match, in the order of their numbers
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dslc.arrays import Array, Arrays
from dslc.resolve.files import did_you_mean

#: what may be done to an array on its way: how it is written
STEPS = {
    "transpose": "transpose, or transpose and the old axes in their new order",
    "reshape": "reshape, or reshape and the new sizes",
    "split": "split and an axis",
    "stack": "stack, or stack and an axis",
}
#: no map has more lines, no line more characters, no pattern more stars
MAX_RULES, MAX_LINE, MAX_STARS = 10_000, 2_000, 6


class MapError(Exception):
    """A rule that cannot be meant, or that does not fit: the message has its line."""


@dataclass(frozen=True)
class Step:
    word: str
    numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.word, *map(str, self.numbers)])


@dataclass(frozen=True)
class Rule:
    """One line: which names it is about, what they become (nothing: they are dropped), what is done to the arrays."""

    pattern: str
    targets: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    line: int = 0

    def __str__(self) -> str:
        if not self.targets:
            return f"drop {self.pattern}"
        after = f": {', '.join(map(str, self.steps))}" if self.steps else ""
        return f"{self.pattern} -> {', '.join(self.targets)}{after}"

    def match(self, name: str) -> tuple[str, ...] | None:
        """What the stars stand for in a name.

        >>> Rule("h.*.fc*.w").match("h.3.fc1.w")
        ('3', '1')
        """
        found = re.fullmatch(r"([^./]+)".join(map(re.escape, self.pattern.split("*"))), name)
        return found.groups() if found else None

    @staticmethod
    def named(target: str, stars: Sequence[str]) -> str:
        """A name with what the stars stood for.

        >>> Rule.named("block.$1.W", ["3"])
        'block.3.W'
        """
        return re.sub(r"\$(\d+)", lambda m: stars[int(m[1]) - 1], target)


@dataclass
class WeightMap:
    prefixes: list[str] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in (*(f"prefix {x}" for x in self.prefixes), *self.rules))


def parse_map(text: str, name: str = "map") -> WeightMap:
    """The rules of a text.

    >>> print(parse_map("fc*.weight -> dense$1.W: transpose  # as torch keeps it"), end="")
    fc*.weight -> dense$1.W: transpose
    """
    found = WeightMap()
    lines = text.splitlines()
    if len(lines) > MAX_RULES:
        raise MapError(f"{name}: expected at most {MAX_RULES} lines, found {len(lines)}")
    for number, whole in enumerate(lines, 1):
        line = re.sub(r"(^|\s)#.*", "", whole).strip()
        if not line:
            continue
        try:
            if len(line) > MAX_LINE:
                raise MapError(f"expected at most {MAX_LINE} characters in a line")
            if match := re.fullmatch(r"prefix\s+(\S+)", line):
                found.prefixes.append(match[1])
            elif match := re.fullmatch(r"drop\s+(\S+)", line):
                found.rules.append(Rule(match[1], line=number))
            else:
                found.rules.append(_rule(line, number))
        except MapError as error:
            raise MapError(f"{name}:{number}: {error}") from error
    return found


def _rule(line: str, number: int) -> Rule:
    pattern, arrow, after = (x.strip() for x in line.partition("->"))
    if not arrow or not pattern or re.search(r"\s", pattern):
        raise MapError(f"expected `prefix NAME`, `drop PATTERN` or `PATTERN -> NAME`, found `{line}`")
    if "**" in pattern or pattern.count("*") > MAX_STARS:
        raise MapError(f"expected at most {MAX_STARS} stars, none beside another, found `{pattern}`")
    match = re.fullmatch(r"([^\s,:]+(?:\s*,\s*[^\s,:]+)*)\s*(?::(?:\s+|$)(.*))?", after)
    if match is None:
        raise MapError(f"expected names of parameters after `->`, and behind them `: STEP, ...`, found `{after}`")
    targets = tuple(x.strip() for x in match[1].split(","))
    steps = tuple(_step(x) for x in (match[2] or "").split(",") if x.strip())
    splits = sum(step.word == "split" for step in steps)
    if splits > 1 or (len(targets) > 1) != (splits == 1):
        raise MapError(f"expected `split AXIS` with several names and only with them, found {len(targets)}")
    stars = pattern.count("*")
    for target in targets:
        if any(not 1 <= int(n) <= stars for n in re.findall(r"\$(\d{1,3})", target)):
            raise MapError(f"`{pattern}` has {stars} stars, found `{target}`")
    return Rule(pattern, targets, steps, number)


def _step(text: str) -> Step:
    word, *numbers = text.split()
    good = word in STEPS and all(re.fullmatch(r"-?[0-9]{1,12}", n) for n in numbers)
    if not good or (word == "split" and len(numbers) != 1) or (word == "stack" and len(numbers) > 1):
        near = difflib.get_close_matches(word, STEPS, 1)
        expected = STEPS[near[0]] if near else ", ".join(STEPS)
        raise MapError(f"expected {expected}, found `{text.strip()}`")
    return Step(word, tuple(map(int, numbers)))


# ---- a map put to use ------------------------------------------------------------------------------


@dataclass
class Mapped:
    """What a map makes of a checkpoint: arrays by parameter with the names they come from, and what is left over."""

    arrays: Arrays = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    #: lines of rules that were about nothing
    idle: list[Rule] = field(default_factory=list)


def apply_map(found: Mapping[str, Array], rules: WeightMap, wanted: Mapping[str, tuple[int, ...]]) -> Mapped:
    """The arrays of a checkpoint under the names of parameters; the first rule that is about a name counts."""
    made = Mapped()
    stacks: dict[tuple[Rule, str], list[tuple[tuple[str, ...], str, Array]]] = {}
    used: set[Rule] = set()
    for name, value in found.items():
        short = next((name.removeprefix(x) for x in rules.prefixes if name.startswith(x)), name)
        hit = next(((r, stars) for r in rules.rules if (stars := r.match(short)) is not None), None)
        if hit is None:
            if short in wanted:
                _put(made, short, value, name, "")
            else:
                made.left.append(name)
            continue
        rule, stars = hit
        used.add(rule)
        targets = [rule.named(target, stars) for target in rule.targets]
        for target in targets:
            if target not in wanted:
                near = did_you_mean(target, wanted)
                raise MapError(f"line {rule.line}: there is no parameter `{target}`{f'; {near}' if near else ''}")
        if not targets:
            made.dropped.append(name)
        elif any(step.word == "stack" for step in rule.steps):
            stacks.setdefault((rule, targets[0]), []).append((stars, name, value))
        else:
            for target, part in zip(targets, _done(rule, name, value, targets, wanted), strict=True):
                _put(made, target, part, name, f"line {rule.line}: ")
    for (rule, target), members in stacks.items():
        members.sort(key=lambda member: [(int(x) if x.isdecimal() else -1, x) for x in member[0]])
        (value,) = _done(rule, target, [x for _, _, x in members], [target], wanted)
        _put(made, target, value, f"{members[0][1]} and {len(members) - 1} more", f"line {rule.line}: ")
    made.idle = [rule for rule in rules.rules if rule not in used]
    return made


def _put(made: Mapped, target: str, value: Array, origin: str, place: str) -> None:
    if target in made.arrays:
        raise MapError(f"{place}`{target}` comes from `{made.origins[target]}` and from `{origin}`")
    made.arrays[target], made.origins[target] = value, origin


def _done(
    rule: Rule, name: str, value: Array | list[Array], targets: Sequence[str], wanted: Mapping[str, tuple[int, ...]]
) -> list[Array]:
    """The arrays that the steps of a rule make of one array, or of those that are stacked: one for each name."""
    parts = value if isinstance(value, list) else [value]
    for step in rule.steps:
        try:
            match step.word:
                case "stack":
                    parts = [np.stack(parts, step.numbers[0] if step.numbers else 0)]
                case "split":
                    parts = [y for x in parts for y in np.split(x, len(targets), step.numbers[0])]
                case "transpose":
                    parts = [x.transpose(step.numbers or None) for x in parts]
                case "reshape":
                    one = [wanted[t] for t in targets] if len(parts) == len(targets) else [step.numbers] * len(parts)
                    parts = [x.reshape(step.numbers or shape) for x, shape in zip(parts, one, strict=True)]
        except (ValueError, TypeError, IndexError, MemoryError) as error:
            shape = parts[0].shape
            raise MapError(f"line {rule.line}: cannot `{step}` `{name}` of shape {shape}: {error}") from error
    return parts
