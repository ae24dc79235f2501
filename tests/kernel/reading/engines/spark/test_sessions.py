"""Addresses, as a user types them: a cluster of two workers, a server of Spark Connect, and what is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import as_process, sfumato
from sparks import cluster, connect_server, free_port, needs_spark, small, spark_folder

from sfumato.kernel.reading.engines.spark import sessions
from sfumato.version import install_command

SCHEMA = """
dataset: visits
privacy_unit: {column: who, contributions: 1}
budget: {epsilon: 100}
attributes:
  sex: {type: category, values: [F, M]}
  age: {type: integer, lower: 0, upper: 99, width: 10}
"""
RELEASE = ("--schema", "visits.yaml", "--epsilon", "50", "--mechanism", "cells", "-o", "r.sfumato")
QUERY = ("query", "r.sfumato", "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", "--format", "json")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("visits.yaml").write_text(SCHEMA)
    people = range(4000)
    table = pa.table({"who": list(people), "sex": ["FM"[n % 4 == 0] for n in people], "age": [n % 90 for n in people]})
    pq.write_table(table, "visits.parquet", row_group_size=1000)
    return tmp_path


def counts() -> list[int]:
    import json

    return [round(row["n"]) for row in json.loads(sfumato(*QUERY).stdout)]


def quiet(run: subprocess.CompletedProcess[str]) -> bool:
    """Nothing of Spark's own talk is among what a user sees."""
    return not any(
        word in run.stdout + run.stderr for word in ("WARN", "ERROR", "INFO", "spark.apache", "Traceback", "Warning")
    )


@needs_spark
def test_a_release_from_a_cluster_of_two_workers(here, monkeypatch):
    with cluster(here) as address:
        for key, value in small(here).items():
            monkeypatch.setenv(key, value)
        run = as_process("release", address, "--table", str(here / "visits.parquet"), *RELEASE, patience=400)
        assert run.returncode == 0 and quiet(run), run.stderr
        executors = [len(list((here / worker).glob("app-*/*"))) for worker in ("one", "two")]
    assert executors == [1, 1]  # both workers had a part in it
    assert [abs(n - true) <= 3 for n, true in zip(counts(), (3000, 1000), strict=True)] == [True, True]
    assert not (here / "spark-warehouse").exists() and not (here / "metastore_db").exists()


@needs_spark
def test_a_release_through_spark_connect(here):
    if not list((spark_folder() / "jars").glob("spark-connect_*.jar")):
        pytest.skip("this Spark comes without its Connect server")
    pytest.importorskip("grpc")
    with connect_server(here) as address:
        make = f"CREATE TABLE visits USING parquet AS SELECT * FROM parquet.`{here}/visits.parquet`"
        code = (
            "import sys; from pyspark.sql.connect.session import SparkSession as S; s = S.builder.remote(sys.argv[1])"
        )
        code += ".create(); s.sql(sys.argv[2]).collect(); s.sql('CREATE VIEW seen AS SELECT * FROM visits').collect()"
        subprocess.run([sys.executable, "-W", "ignore", "-c", code, address, make], check=True, timeout=120)
        run = as_process("release", address, "--table", "default.visits", *RELEASE, patience=400)
        assert run.returncode == 0 and quiet(run), run.stderr
        view = as_process("release", address, "--table", "seen", *RELEASE, "--again")
        assert view.returncode == 1 and "--allow-views" in view.stderr and quiet(view)
        lost = as_process("release", address, "--table", "nothing", *RELEASE)
        assert lost.returncode == 1 and "there is no table 'nothing'" in lost.stderr and quiet(lost)
        other = as_process("release", f"{address}/;token=secret", "--table", "visits", *RELEASE)  # which means TLS
        assert other.returncode == 1 and f"Spark cannot be started for {address};" in other.stderr
    assert [abs(n - true) <= 3 for n, true in zip(counts(), (3000, 1000), strict=True)] == [True, True]


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_an_address_where_nobody_is(scheme):
    pytest.importorskip("pyspark")
    address = f"{scheme}://127.0.0.1:{free_port()}"
    run = as_process("release", address, "--table", "visits", *RELEASE)  # here others may have a session
    assert run.returncode == 1 and f"no Spark answers at {address}" in run.stderr
    assert sfumato("ledger", "show").stdout.count("visits") == 0


@pytest.mark.parametrize("address", ["spark://local", "spark://local[2]", "sc://127.0.0.1"])
def test_without_pyspark_it_is_said_what_to_install(address, monkeypatch):
    monkeypatch.setattr(sessions, "find_spec", lambda name: None)
    run = sfumato("release", address, "--table", "visits", *RELEASE)
    assert run.returncode == 1 and install_command("spark") in run.stderr


def test_options_of_files_say_nothing_about_spark():
    run = sfumato("release", "spark://local", "--table", "visits", *RELEASE, "--delimiter", ";")
    assert run.returncode == 1 and "--delimiter says nothing about a database" in run.stderr


class Old:
    version = "3.4.2"


def test_a_spark_that_is_too_old_is_refused():
    from sfumato.errors import TableError

    with pytest.raises(TableError, match=r"Spark 3\.4\.2 cannot run what a release asks; use Spark 3\.5 or later"):
        sessions.must_serve(Old())
