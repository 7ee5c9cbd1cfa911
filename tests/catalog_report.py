"""Which rows of the catalogue are shown by tests: `python tests/catalog_report.py [--chapter 4 ...]`.

A row is required if the book has its formula (level full) or enough to build it (brief). It is covered when a test
names it, `@rows("L27")`, and waived when `tests/rows/waivers.tsv` gives a reason why no test could show it. Exits with
1 if a test or a waiver names no row, or if a row is both covered and waived.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
INDEX = TESTS / "rows" / "index.tsv"
WAIVERS = TESTS / "rows" / "waivers.tsv"
REQUIRED = ("full", "brief")


@dataclass(frozen=True)
class Row:
    id: str
    name: str
    chapter: str
    level: str
    kind: str

    @property
    def required(self) -> bool:
        return self.level in REQUIRED


def table(file: Path) -> list[list[str]]:
    """The lines below the head of a file of columns with tabs between them."""
    return [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]]


def index() -> dict[str, Row]:
    return {x[0]: Row(*x) for x in table(INDEX)}


def waivers() -> dict[str, str]:
    return {x[0]: x[1] for x in table(WAIVERS)}


@dataclass
class Collected:
    """What pytest finds: the tests that name a row, and those of them that run by default."""

    tests: dict[str, list[str]] = field(default_factory=dict)
    by_default: set[str] = field(default_factory=set)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for mark in item.iter_markers("rows"):
                for id in mark.args:
                    self.tests.setdefault(str(id), []).append(item.nodeid)
                    if item.get_closest_marker("long") is None:
                        self.by_default.add(str(id))


def collect() -> Collected:
    """The marks of all tests, the long ones too; nothing is run."""
    found = Collected()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["--collect-only", "-q", "-m", "", "-p", "no:cacheprovider", str(TESTS)], plugins=[found])
    if code != pytest.ExitCode.OK:
        sys.exit(said.getvalue())
    return found


def faults(known: Mapping[str, Row], tests: Mapping[str, list[str]], waived: Mapping[str, str]) -> list[str]:
    """What is wrong with the marks and the waivers themselves."""
    found = [f"{id} is no row; named by {tests[id][0]}" for id in tests if id not in known]
    found += [f"{id} is no row; waived" for id in waived if id not in known]
    found += [f"{id} is waived without a reason" for id, reason in waived.items() if not reason.strip()]
    found += [f"{id} is waived, yet shown by {tests[id][0]}" for id in waived if id in tests]
    return found


def lines(chosen: Iterable[Row], tests: Mapping[str, list[str]], waived: Mapping[str, str]) -> list[str]:
    """Each required row that no test shows, with the reason; a line for each chapter; the sum."""
    chosen = list(chosen)
    required = [x for x in chosen if x.required]
    report = [
        f"{x.id:6} {x.chapter:>2}  {x.name}: {'waived, ' + waived[x.id] if x.id in waived else 'no test names it'}"
        for x in required
        if x.id not in tests
    ]
    report += ["", "chapter  required  covered  waived  open  mentioned, shown"]
    for chapter in dict.fromkeys(x.chapter for x in sorted(chosen, key=lambda x: order(x.chapter))):
        here = [x for x in required if x.chapter == chapter]
        extra = [x for x in chosen if x.chapter == chapter and not x.required]
        covered, excused = (sum(x.id in names for x in here) for names in (tests, waived))
        shown = f"{sum(x.id in tests for x in extra)} of {len(extra)}"
        report += [f"{chapter:7}{len(here):10}{covered:9}{excused:8}{len(here) - covered - excused:6}  {shown:>16}"]
    covered, excused = (sum(x.id in names for x in required) for names in (tests, waived))
    return [*report, "", f"catalogue: {covered} of {len(required)} required rows covered, {excused} waived"]


def order(chapter: str) -> tuple[int, str]:
    """Chapters by number, then the appendices."""
    return (int(chapter), "") if chapter.isdigit() else (100, chapter)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Which rows of the catalogue are shown by tests.")
    parser.add_argument("--chapter", nargs="+", metavar="C", help="only these chapters: 1 to 13, A, B")
    parser.add_argument("--row", nargs="+", metavar="ID", help="the tests that name these rows")
    chosen = parser.parse_args(arguments)
    known, waived, found = index(), waivers(), collect()
    wrong = faults(known, found.tests, waived)
    if chosen.row:
        for id in chosen.row:
            print(f"{id}: {known[id].name if id in known else 'no row'}")
            print(*(f"    {x}" for x in found.tests.get(id, ["no test names it"])), sep="\n")
        return bool(wrong)
    if chosen.chapter and (strange := set(chosen.chapter) - {x.chapter for x in known.values()}):
        parser.error(f"no chapter {', '.join(sorted(strange))}")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    rows = [x for x in known.values() if not chosen.chapter or x.chapter in chosen.chapter]
    late = [x.id for x in rows if x.required and x.id in found.tests and x.id not in found.by_default]
    if late:
        print(f"shown by long tests alone: {' '.join(late)}")
    print(*lines(rows, found.tests, waived), sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
