"""The page of public yardsticks: where we are behind comes first, and nobody's figure is left out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from math import nan
from results_page import Case, Peer, Yardstick, page
near, far, cited = Peer("near", 1.0, "a 1.0", error=0.3), Peer("far", 4.0, "b 2.0"), Peer("cited", 950.0, "c", 753.0)
cases = [
    Case("errors", "ahead", 0.5, 0.01, 3, 1.0, (far, Peer("one", 1.0, "a 1.0"))),
    Case("errors", "a little behind", 1.2, 0.01, 3, 1.0, (Peer("one", 1.0, "a 1.0"),)),
    Case("errors", "noise", 1.2, 0.05, 3, 1.0, (near,)),
    Case("errors", "far behind", 8.0, nan, 1, nan, (far,)),
    Case("scores", "better is more", 978.0, 0.2, 3, 2.0, (cited,), 1000.0),
]
yardsticks = [Yardstick("errors", "In rows.", "python a.py"), Yardstick("scores", "Of 1000.", "python b.py")]
print(json.dumps([page("made", yardsticks, cases, ["c: failed"]), [(case.standing, case.ratio) for case in cases]]))
"""


def test_the_worst_case_comes_first_and_scores_are_compared_by_their_distance_from_perfect():
    command = [sys.executable, "-c", SCRIPT, str(ROOT / "benchmarks")]
    page, standings = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert standings == [["ahead", 0.5], ["behind", 1.2], ["within noise", 1.2], ["behind", 2.0], ["ahead", 22 / 50]]
    first, *rest = page.split("\n## ")[1:]
    assert first.startswith("Where we are behind")
    assert first.index("far behind | 8") < first.index("a little behind | 1.2 ± 0.01") and "ahead |" not in first
    assert "with our mean the worse one: noise (1.20)" in first
    assert "Of 5 cases 2 are behind, 1 within noise, 2 ahead" in first
    errors, scores, left = rest
    assert "one **1** (a 1.0); far **4** (b 2.0)" in errors and "near **1 ± 0.3**" in errors
    assert "cited **950** (c; 753 s of CPU)" in scores and "- c: failed" in left


def test_what_is_cited_says_where_from_and_when():
    import yaml

    for line in yaml.safe_load((ROOT / "benchmarks" / "cited.yaml").read_text()):
        assert set(line) == {"case", "peer", "figure", "cpu", "source", "date"}
        assert line["date"].year >= 2026 and any(digit in line["source"] for digit in "0123456789")
