"""sfumato reproduce, as a user meets it."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.reproduce.studies import PAPERS, reproduce


def sfumato(*arguments, cwd):
    command = [sys.executable, "-m", "sfumato", "reproduce", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)


def test_one_paper_prints_tables_and_leaves_plots_behind(tmp_path):
    run = sfumato("wd", "--quick", cwd=tmp_path)
    assert run.returncode == 0 and run.stderr == ""
    assert "4.92" in run.stdout and "3.4275" in run.stdout and "3.73" in run.stdout
    folder = tmp_path / "sfumato-reproduce-wd"
    plots = sorted(path.name for path in folder.glob("*.svg"))
    assert plots == [f"wd-figure-{n}.svg" for n in (3, 4, 5, 6)]
    for name in plots:
        ElementTree.parse(folder / name)
    assert (folder / "index.html").read_text().count("<svg") == len(plots)


def test_an_unknown_paper_is_refused_in_one_line(tmp_path):
    run = sfumato("ispy", cwd=tmp_path)
    assert run.returncode == 1 and run.stdout == ""
    assert run.stderr == "sfumato: no paper 'ispy' to reproduce; there are tr-2010-003, ispe, mldp, survey, wd\n"


@pytest.mark.full
def test_the_quick_form_of_all_papers_is_complete():
    """Everything the issue of each paper names is there, with a remark, and shares of progress rise to the end."""
    told = []
    studies = reproduce([], TestingEntropy(4), lambda what, share: told.append(share), quick=True)
    assert [study.paper for study in studies] == list(PAPERS)
    assert told == sorted(told) and told[0] == 0.0 and told[-1] < 1.0
    sources = " ".join(exhibit.source for study in studies for exhibit in study.exhibits)
    for named in ("8.1.1", "8.1.2", "Table 2", "Table 1", "8.2", "8.3", "7 to 9", "10 to 12", "13 to 15", "16 to 18"):
        assert named in sources
    for named in ("19 to 21", "22 and 23", "Figures 3 to 5", "Figure 6", "figures 6, 28 and 29", "24 to 27"):
        assert named in sources
    for study in studies:
        for exhibit in study.exhibits:
            assert len(exhibit.remark) > 50 and exhibit.remark.endswith((".", ".)"))
            assert all(len(row) == len(exhibit.headers) for row in exhibit.rows)
            for picture in exhibit.pictures:
                ElementTree.fromstring(picture.svg)
                assert "nan" not in picture.svg
