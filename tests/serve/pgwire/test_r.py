"""R and ODBC as people have them: the script of docs/r.md by RPostgreSQL, and a question by unixODBC's isql.

SFUMATO_R=required: a build without R, RPostgreSQL, isql and PostgreSQL's ODBC driver has failed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "r.md"


def missing(why: str) -> None:
    if os.environ.get("SFUMATO_R") == "required":
        pytest.fail(why)
    pytest.skip(why)


def run(command: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)


def test_the_script_of_the_page_runs_and_its_numbers_have_error_bars(pg_port, tmp_path):
    if shutil.which("Rscript") is None or run(["Rscript", "-e", "library(RPostgreSQL)"]).returncode:
        missing("no R with RPostgreSQL; install Debian's r-base-core and r-cran-rpostgresql")
    blocks = re.findall(r"^```r\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    checks = "stopifnot(nrow(regions) == 4, all(regions$n_low < regions$n & regions$n < regions$n_high))\n"
    script = tmp_path / "page.R"
    script.write_text(f"pdf({str(tmp_path / 'bars.pdf')!r})\n{''.join(blocks[:1])}{checks}{''.join(blocks[1:])}")
    script.write_text(script.read_text().replace("port = 5433", f"port = {pg_port}"))
    done = run(["Rscript", str(script)])
    assert done.returncode == 0, done.stderr
    assert '"age"    "sex"' in done.stdout and "h_stderr" in done.stdout
    assert "no column 'height'" in done.stderr and (tmp_path / "bars.pdf").stat().st_size > 1000


def test_odbc_answers(pg_port):
    if shutil.which("isql") is None or "[PostgreSQL Unicode]" not in run(["odbcinst", "-q", "-d"]).stdout:
        missing("no isql with PostgreSQL's ODBC driver; install Debian's unixodbc and odbc-postgresql")
    where = re.search(r'isql -k "(Driver=[^"]*)"', PAGE.read_text(encoding="utf-8"))[1].replace("5433", str(pg_port))
    done = run(["isql", "-k", where, "-b", "-d;"], "SELECT region, COUNT(*) AS n FROM survey GROUP BY region\n")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {
        line.split(";")[0]: [float(part) for part in line.split(";")[1:5]]
        for line in done.stdout.splitlines()
        if ";" in line
    }
    assert rows.keys() == {"North", "South", "East", "West"}
    assert all(low < n < high for n, _, low, high in rows.values())
