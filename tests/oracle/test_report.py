"""The tables, the JSON lines and the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.oracle.__main__ import configurations, main
from tests.oracle.campaign import Finding, Result
from tests.oracle.compare import Tally, Wrong
from tests.oracle.compilers import BuildError, Configuration, Toolchain
from tests.oracle.report import json_lines, percent, report, table

GCC = Toolchain("gcc", "gcc", "gcc")
WRONG = Wrong(0x1234, "f", "", (7, 3), "a", "rdi", "", "01", "02", 5)


def result() -> Result:
    total = Result(runs=1, stops=200)
    for reader, wrong in (("ours", 1), ("plain", 20)):
        tally = Tally()
        tally.values.update({("inlined", "shown"): 100, ("inlined", "unavailable: no-location"): 100})
        tally.wrong["inlined", "shown"] = wrong
        tally.counts.update({"calls": 50, "missing predicted": 5})
        total.tallies["gcc", "-O2", False, reader] = tally
    total.findings.append(Finding(9, Configuration(GCC, "-O2", 5), "ours", WRONG, 1))
    return total


def test_small_rates_keep_their_digits() -> None:
    assert [percent(1, 3), percent(5, 10000), percent(0, 7), percent(0, 0)] == ["33.3 %", "0.050 %", "0.000 %", "-"]


def test_columns_are_aligned() -> None:
    assert table(("", "n"), [("long name", 1), ("x", 1000)]).splitlines() == [
        "              n",
        "---------  ----",
        "long name     1",
        "x          1000",
    ]


def test_the_report_sets_both_rules_side_by_side() -> None:
    text = report(result())
    row = next(line for line in text.splitlines() if line.startswith("gcc -O2"))
    assert " ".join(row.split()) == "gcc -O2 200 50.0 % 1 1.0 % 0.000 % - 50.0 % 20.0 %"
    assert "ours, unavailable: no-location" in text
    assert "10.0 %" in text[text.index("Hits and calls") :]


def test_a_finding_can_be_seen_again() -> None:
    (line,) = json_lines(result())
    finding = json.loads(line)
    assert finding["address"] == "0x1234"
    assert finding["lines"] == [7, 3]
    assert finding["command"] == 'python -m tests.oracle --seed 9 --compiler gcc --flags="-O2 -gdwarf-5" --explain'


def test_results_add_up() -> None:
    total = result()
    total.add(result())
    assert total.runs == 2
    assert total.shown("gcc") == 200
    assert total.tally("plain").wrong == {("inlined", "shown"): 40}
    assert total.tally("plain", "clang-19").values == {}


@pytest.mark.compiled
def test_flags_restrict_the_matrix() -> None:
    ((only,),) = configurations(["gcc"], ["-O2", "-gdwarf-4"], False)
    assert only.flags[1:4] == ("-O2", "-g", "-gdwarf-4")
    assert len(configurations(["gcc"], [], False)[0]) == 16
    assert len(configurations(["gcc"], [], True)[0]) == 8
    with pytest.raises(BuildError, match="-O9"):
        configurations(["gcc"], ["-O9"], False)
    with pytest.raises(BuildError, match="clang-1 is not installed"):
        configurations(["clang-1"], [], False)


@pytest.mark.compiled
def test_explain_shows_source_dwarf_and_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ["--seed", "2", "--compiler", "gcc", "--flags=-O2 -gdwarf-5", "--explain", "--reader", "plain"]
    assert main([*options, "--keep", str(tmp_path / "kept")]) == 0
    text = capsys.readouterr().out
    assert "passed" in text
    assert "DW_TAG_formal_parameter" in text
    assert "\n>" in text
    assert {"traced0.c", "model.c", "driver.c", "program"} <= {p.name for p in (tmp_path / "kept").iterdir()}


@pytest.mark.compiled
def test_the_command_line_measures_and_reports(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = tmp_path / "wrong.json"
    options = ["--compiler", "gcc", "--flags=-O2 -gdwarf-5", "--programs", "2", "--jobs", "2", "--json", str(found)]
    assert main(options) == 0
    assert "gcc -O2" in capsys.readouterr().out
    assert {json.loads(line)["reader"] for line in found.read_text().splitlines()} >= {"plain"}


def test_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--compiler", "tcc"]) == 2
    assert "tcc is not installed" in capsys.readouterr().err
    assert main(["--compiler", "gcc", "--explain"]) == 2
