"""sfumato release as a job meets it: the same thing twice, what is there already, and what is only tried."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from running import sfumato
from small_release import ROWS, SCHEMA, refused, release, write_small_table
from waiting import PATIENCE

from sfumato.kernel.ledger.ledger import Ledger


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_small_table()
    assert sfumato("ledger", "set", "census", "--epsilon", "3").returncode == 0
    return tmp_path


def spent() -> float:
    return float(Ledger().account("census").spent)


def test_the_same_release_twice_is_refused_in_a_script_unless_it_is_meant(folder):
    assert release().returncode == 0
    refused(release(out="again.sfumato"), "dataset 'census'", "same table", "epsilon 1 once more", "--again")
    assert spent() == 1 and not Path("again.sfumato").exists()
    assert release("--again", out="again.sfumato").returncode == 0
    assert spent() == 2


def test_what_the_table_holds_has_no_part_in_it(folder):
    """A refusal that depended on rows would tell about them: only names are compared."""
    assert release().returncode == 0
    Path("t.csv").write_text(ROWS + "999,1,F\n")
    refused(release(), "--again")
    Path("copy.csv").write_text(ROWS)
    assert release(table="copy.csv", out="copy.sfumato").returncode == 0


@pytest.mark.parametrize("change", ["epsilon", "mechanism", "schema", "workload"])
def test_another_release_is_not_the_same(folder, change):
    assert release().returncode == 0
    Path("other.yaml").write_text(SCHEMA.replace("upper: 9", "upper: 8"))
    Path("w.sql").write_text("SELECT COUNT(*) FROM census")
    made = {
        "epsilon": lambda: release(epsilon="0.5"),
        "mechanism": lambda: release("--mechanism", "hierarchical"),
        "schema": lambda: release(schema="other.yaml"),
        "workload": lambda: release("--workload", "w.sql"),
    }[change]()
    assert made.returncode == 0, made.stderr
    assert "kept as r.sfumato.~1~" in made.stdout


def test_a_larger_total_in_the_schema_makes_no_other_release_of_it(folder):
    assert release().returncode == 0
    Path("s.yaml").write_text(SCHEMA.replace("epsilon: 3", "epsilon: 9"))
    refused(release(), "--again")


def test_a_release_that_was_reserved_and_never_made_counts_too(folder, monkeypatch):
    """A job that fails every night for a reason of its own must not pay every night."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("sfumato.kernel.reading.table.Table.read", stop)
        assert release().returncode == 130
    assert spent() == 1
    refused(release(), "reserved, and spent, but never published", "--again")


@pytest.mark.skipif(os.name != "posix", reason="a terminal of our own")
@pytest.mark.parametrize(("answer", "code", "cost"), [("y\n", 0, 2), ("\n", 1, 1)])
def test_on_a_terminal_it_asks(folder, answer, code, cost):
    assert release().returncode == 0
    near, far = os.openpty()
    command = [sys.executable, "-m", "sfumato", "release", "t.csv", "--schema", "s.yaml", "--epsilon", "1"]
    seen = bytearray()

    def watch() -> None:
        with suppress(OSError):  # which is how a terminal ends
            while piece := os.read(near, 4096):
                seen.extend(piece)

    with subprocess.Popen(
        [*command, "--mechanism", "cells", "-o", "r.sfumato"], stdin=far, stderr=far, stdout=subprocess.PIPE, text=True
    ) as child:
        os.close(far)
        os.write(near, answer.encode())
        watching = threading.Thread(target=watch)
        watching.start()
        said = child.stdout.read()
    watching.join(timeout=PATIENCE)
    assert not watching.is_alive()
    os.close(near)
    assert child.returncode == code and b"Spend it once more? [y/N]" in seen
    assert spent() == cost and ("r.sfumato: " in said) == (code == 0)


def test_if_missing_does_nothing_where_the_release_is_there(folder):
    assert release("--if-missing").returncode == 0
    Path("t.csv").unlink()  # not even looked at
    before = Path("r.sfumato").read_bytes()
    for _ in range(3):
        run = release("--if-missing")
        assert run.returncode == 0 and "is there already" in run.stdout and "nothing was spent" in run.stdout
    assert spent() == 1 and Path("r.sfumato").read_bytes() == before
    assert release("--if-missing", "--delta", "1e-6").returncode == 0  # of which cells have no need
    assert release("--if-missing", "--with", "nonsense").returncode == 0  # options are looked at where they are used


def test_if_missing_refuses_what_is_something_else(folder):
    assert release().returncode == 0
    refused(release("--if-missing", epsilon="2"), "another epsilon", "move it away")
    refused(release("--if-missing", "--mechanism", "hierarchical"), "another mechanism")
    Path("other.yaml").write_text(SCHEMA.replace("upper: 9", "upper: 8"))
    refused(release("--if-missing", schema="other.yaml"), "another schema")
    Path("more.yaml").write_text(SCHEMA.replace("epsilon: 3", "epsilon: 5"))
    assert release("--if-missing", schema="more.yaml").returncode == 0  # the total is no part of a release
    Path("r.sfumato").write_bytes(Path("r.sfumato").read_bytes()[:500])
    refused(release("--if-missing"), "r.sfumato", "move it away, or leave out --if-missing")
    assert spent() == 1 and not list(folder.glob("*~*"))


def test_a_dry_run_tells_everything_and_spends_nothing(folder, own_ledger, monkeypatch):
    def read(*_: object, **__: object) -> None:
        raise AssertionError("a row was read")

    monkeypatch.setattr("sfumato.kernel.reading.table.Table.read", read)
    before = own_ledger.read_bytes()
    run = release("--dry-run")
    assert run.returncode == 0, run.stderr
    assert "A dry run: no row was read, nothing was spent." in run.stdout and "2.72 times" in run.stdout
    assert "It would charge epsilon 1 to census: epsilon 0 of 3 spent, 3 left; 2 would be left then" in run.stdout
    assert "counts of" in run.stdout and not Path("r.sfumato").exists() and own_ledger.read_bytes() == before
    refused(release("--dry-run", epsilon="4"), "3 is left")
    refused(release("--dry-run", table="missing.csv"), "missing.csv")
    refused(release("--dry-run", out="no/such/folder/r.sfumato"), "folder")
    Path("wrong.yaml").write_text(SCHEMA.replace("age:", "height:"))
    refused(release("--dry-run", schema="wrong.yaml"), "height")
    own_ledger.unlink()
    refused(release("--dry-run", "--require-ledger"), "a ledger is required")
    assert "a new one would be made" in release("--dry-run").stdout and not own_ledger.exists()


def test_a_dry_run_says_that_it_would_be_the_same_release_again(folder):
    assert release().returncode == 0
    refused(release("--dry-run"), "--again")
    run = release("--dry-run", "--again")
    assert run.returncode == 0 and "would be kept under another" in run.stdout and spent() == 1


def test_json_is_one_object_whatever_comes_of_it(folder):
    tried, made = (json.loads(release("--json", *more).stdout) for more in (("--dry-run",), ()))
    assert (tried["done"], tried["would_charge"]) == ("dry run", {"epsilon": "1", "delta": "0"})
    assert (made["done"], made["file"], made["mechanism"], made["entry"]) == ("released", "r.sfumato", "cells", 1)
    assert made["guarantee"]["epsilon"] == "1" and made["guarantee"]["unit"] == tried["guarantee"]["unit"]
    assert made["budget"]["epsilon"] == {"total": "3", "spent": "1", "left": "2"}
    assert made["ledger"]["identity"] == Ledger().identity() and made["expected_errors"]["all rows"] > 0
    there = json.loads(release("--json", "--if-missing").stdout)
    assert there["done"] == "there already" and there["guarantee"] == made["guarantee"]
    run = release("--json")
    assert run.returncode == 1 and run.stderr.startswith("sfumato: ")
    assert json.loads(run.stdout)["refused"]["kind"] == "budget"


def test_quiet_says_nothing(folder):
    for more in ((), ("--again",), ("--if-missing",), ("--dry-run", "--again")):
        run = release("--quiet", *more)
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    refused(release("-q"), "--again")


def test_a_hint_can_be_pasted_whatever_the_file_is_called(folder):
    name = "our people's; $(release).sfumato"
    made = release(out=name)
    (hint,) = [line for line in made.stdout.splitlines() if line.startswith("Try: ")]
    words = shlex.split(hint.removeprefix("Try: "))
    assert words == ["sfumato", "query", name, "SELECT COUNT(*) FROM census"]
    pasted = f"{sys.executable} -m {hint.removeprefix('Try: ')}"
    run = subprocess.run(["sh", "-c", pasted], capture_output=True, text=True, check=False)
    assert run.returncode == 0 and "95 % interval" in run.stdout, run.stderr


def test_the_command_that_mends_a_budget_reaches_the_ledger_that_was_named(folder):
    for option, named in (((), ""), (("--ledger", "an other.sqlite"), f" --ledger '{folder}/an other.sqlite'")):
        said = release(*option, epsilon="4").stderr.splitlines()[-1]
        (mend,) = re.findall("`(sfumato ledger set [^`]*)`", said)
        assert mend == f"sfumato ledger set census --epsilon 4{named}"
        assert sfumato(*shlex.split(mend)[1:]).returncode == 0
        Path("s.yaml").write_text(SCHEMA.replace("epsilon: 3", "epsilon: 4"))
        assert release(*option, epsilon="4", out="mended.sfumato").returncode == 0
        Path("s.yaml").write_text(SCHEMA)


def test_no_device_is_taken_for_an_earlier_file(folder):
    refused(release(out=os.devnull), "cannot be written")
    assert Path(os.devnull).exists()
