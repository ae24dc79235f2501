"""sfumato serve, as it is typed. The server itself is tested in tests/explorer."""

from __future__ import annotations

import builtins
import signal
import socket
import subprocess
import sys

import pytest
from drawn_areas import quarters
from exploring import serving
from raw_wire import Raw, kinds
from running import sfumato
from waiting import PATIENCE

import sfumato as sf
from sfumato.version import install_command

SCHEMA = {
    "dataset": "t",
    "privacy_unit": "row",
    "budget": {"epsilon": 10},
    "attributes": {"a": {"type": "category", "values": ["x", "y"]}},
}


@pytest.fixture
def release(tmp_path):
    import pyarrow as pa

    made = sf.release(pa.table({"a": ["x", "y"]}), sf.Schema.from_dict(SCHEMA), epsilon=1, mechanism="cells")
    return str(made.save(tmp_path / "t.sfumato"))


def test_it_says_where_in_one_line_and_ends_in_peace_by_ctrl_c(release, ctrl_c):
    pytest.importorskip("uvicorn")
    command = [sys.executable, "-m", "sfumato", "serve", release, "--no-open", "--port", "0", "--pg-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        line, tools = run.stdout.readline(), run.stdout.readline()
        assert line.startswith("http://127.0.0.1:") and line.endswith("/ serves 1 release; Ctrl-C stops it.\n")
        assert tools.startswith("psql -h 127.0.0.1 -p ") and tools.endswith("any user, no password.\n")
        with Raw(int(tools.split()[4])) as connected:  # and stays so
            assert b"D" in kinds(connected.ask("SELECT COUNT(*) AS n FROM t"))
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=PATIENCE)
    assert (out, err, run.returncode) == ("", "", 0)


def test_a_port_that_is_taken_is_refused_in_one_line(release):
    pytest.importorskip("uvicorn")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = sfumato("serve", release, "--no-open", "--port", str(port))
    assert said.returncode == 1 and said.stderr == (
        f"sfumato: port {port} of 127.0.0.1 is taken; name another with --port, or --port 0 for any\n"
    )


def test_without_the_extra_one_line_says_what_to_install(release, monkeypatch):
    real = builtins.__import__

    def without(name, *given, **named):
        if name.partition(".")[0] in ("uvicorn", "starlette"):
            raise ModuleNotFoundError(name)
        return real(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    said = sfumato("serve", release, "--no-open")
    assert said.returncode == 1 and said.stderr.count("\n") == 1 and install_command("explorer") in said.stderr


def test_what_is_no_release_is_refused(tmp_path):
    (tmp_path / "x.sfumato").write_text("no")
    said = sfumato("serve", str(tmp_path / "x.sfumato"), "--no-open")
    assert said.returncode == 1 and said.stderr.startswith("sfumato: ") and said.stderr.count("\n") == 1


def test_what_is_not_signed_by_the_key_is_not_served(release, tmp_path, monkeypatch):
    """With the line and the exit code of other commands. What is signed is served: then a taken port stops it."""
    pytest.importorskip("uvicorn")
    monkeypatch.setenv("SFUMATO_EXIT_CODES", "distinct")
    key, other = (str(tmp_path / name) for name in ("k", "other"))
    for name in (key, other):
        assert sfumato("keygen", name).returncode == 0

    def both(public):
        serve = sfumato("serve", release, "--no-open", "--require-signature", public)
        asked = sfumato("query", release, "SELECT COUNT(*) FROM t", "--require-signature", public)
        assert (serve.returncode, serve.stderr, serve.stdout) == (7, asked.stderr, ""), serve.stderr
        assert serve.stderr.count("\n") == 1
        return serve.stderr

    assert "not signed" in both(f"{key}.pub")
    assert sfumato("sign", release, "--key", key).returncode == 0
    assert "another key" in both(f"{other}.pub")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = sfumato(
            "serve", release, "--no-open", "--require-signature", f"{key}.pub", "--port", str(taken.getsockname()[1])
        )
    assert "is taken" in said.stderr


def test_maps_are_served_and_bad_ones_are_refused_in_one_line(release, tmp_path):
    httpx, file = pytest.importorskip("httpx"), quarters(tmp_path / "a.geojson", ["x", "y", "z", "w"])
    with serving([release], "--map", f"a={file}") as address:
        found = httpx.get(f"{address}api/releases/t/map/a").json()
        assert [one["properties"]["label"] for one in found["features"]] == ["x", "y"]
        assert httpx.get(f"{address}api/releases/t").json()["maps"] == ["a"]
    table = tmp_path / "t.csv"
    table.write_text("a\nx\n")
    bad = {
        "a": "--map takes COLUMN=FILE such as region=regions.geojson, not 'a'",
        f"nope={file}": "no release here has a column 'nope' that a map can show; columns that have areas: a",
        f"a={tmp_path / 'none'}": "cannot be read",
        f"a={table}": "is no GeoJSON",
    }
    for given, words in bad.items():
        said = sfumato("serve", release, "--no-open", "--port", "0", "--map", given)
        assert said.returncode == 1 and said.stderr.startswith("sfumato: ") and said.stderr.count("\n") == 1
        assert words in said.stderr
