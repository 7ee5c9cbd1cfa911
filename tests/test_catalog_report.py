"""The report on the catalogue: marks and waivers name rows, and it counts what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import catalog_report as report
from catalog_report import Row

KNOWN = {
    "P01": Row("P01", "tensors", "2", "full", "concept"),
    "P02": Row("P02", "slices", "2", "brief", "op"),
    "P25": Row("P25", "fast products", "2", "mention", "comp"),
    "Q11": Row("Q11", "statistics", "A", "brief", "prob"),
}


def test_marks_and_waivers_of_this_repository_name_rows_and_no_covered_row_is_waived() -> None:
    command = [sys.executable, str(Path(report.__file__)), "--chapter", "1"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=Path(report.__file__).parents[1])
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.splitlines()[-1].startswith("catalogue: ")


def test_rows_that_do_not_exist_and_waivers_of_covered_rows_are_faults() -> None:
    assert report.faults(KNOWN, {"P01": ["t"]}, {"Q11": "words"}) == []
    assert report.faults(KNOWN, {"P99": ["t"]}, {}) == ["P99 is no row; named by t"]
    assert report.faults(KNOWN, {}, {"P99": "words"}) == ["P99 is no row; waived"]
    assert report.faults(KNOWN, {}, {"Q11": " "}) == ["Q11 is waived without a reason"]
    assert report.faults(KNOWN, {"Q11": ["t"]}, {"Q11": "words"}) == ["Q11 is waived, yet shown by t"]


def test_a_row_that_is_only_mentioned_is_not_required() -> None:
    said = report.lines(KNOWN.values(), {"P01": ["t"], "P25": ["t"]}, {"Q11": "words"})
    assert said[:2] == ["P02     2  slices: no test names it", "Q11     A  statistics: waived, words"]
    assert said[-1] == "catalogue: 1 of 3 required rows covered, 1 waived"
    assert said[4].split() == ["2", "2", "1", "0", "1", "1", "of", "1"]


def test_the_index_has_each_row_once_with_a_level_that_is_known() -> None:
    rows = report.table(report.INDEX)
    assert len({x[0] for x in rows}) == len(rows) == 752
    assert {x[3] for x in rows} == {"full", "brief", "mention"}
    assert sum(x.required for x in report.index().values()) == 642
