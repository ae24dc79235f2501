"""Awkward tables in Spark: Parquet files, read by one local session that is started when it is first asked for."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines.spark.engine import Spark, open_spark
from sfumato.kernel.reading.engines.spark.sessions import start, use_java
from sfumato.kernel.reading.table import Table
from sfumato.lab.audit.reading.reference import Row
from sfumato.lab.audit.reading.source import Source
from sfumato.lab.audit.reading.tables import AwkwardTable

# Tables of a few rows: nothing is worth compiling or dividing.
_SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "Asia/Tokyo",  # which must not matter
}
# A Java that works for a minute: what it would gain from its better compiler, it spends on it twice over.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class SparkSource(Source):
    """Spark as a source, which needs Java as well as a library."""

    @property
    def here(self) -> bool:
        if find_spec("pyspark") is None:
            return False
        try:
            use_java()
        except TableError:
            return False
        return True


@cache
def small_session() -> Any:
    """A session for small tables; the one that the program has, if it has one."""
    from pyspark.sql import SparkSession

    if (active := SparkSession.getActiveSession()) is not None:
        return active
    stated = " ".join(f"--conf {key}={value}" for key, value in _SMALL.items())
    before = {name: os.environ.get(name) for name in ("PYSPARK_SUBMIT_ARGS", "JDK_JAVA_OPTIONS")}
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{stated} pyspark-shell"  # the memory of a Java is settled before it starts
    os.environ["JDK_JAVA_OPTIONS"] = f"{before['JDK_JAVA_OPTIONS'] or ''} {SHORT_LIVED}"
    try:
        session = start("spark://local[1]")
    finally:
        for name, was in before.items():
            os.environ.pop(name) if was is None else os.environ.update({name: was})
    atexit.register(session.stop)
    return session


def spark_files(kind: type[Spark] = Spark) -> Callable[[AwkwardTable, Sequence[Row], Path], Table]:
    """A Parquet file; Spark knows times to the microsecond. kind: the broken adapters are kinds of it."""

    def bring(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
        import pyarrow.parquet as pq

        path = folder / "t.parquet"
        pq.write_table(table.arrow(rows), path, row_group_size=3, coerce_timestamps="us")
        opened = open_spark(small_session(), str(path))
        return Table(kind(opened.session, opened.source, opened.columns))

    return bring
