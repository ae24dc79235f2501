"""Arrow files: the same as the table in memory; files that differ are refused."""

import pyarrow as pa
import pyarrow.feather
import pytest

from sfumato.errors import TableError
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

PUBLIC = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 9},
            "sex": {"type": "category", "values": ["F", "M"]},
        },
    }
)
TABLE = pa.table({"sex": ["F", "M", None, "F"], "age": pa.array([1, 2, 3, 12], pa.int8()), "x": [[1], [2], [3], [4]]})


@pytest.mark.parametrize("ending", ["feather", "arrow", "ipc"])
@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_a_file_is_the_table_in_memory(tmp_path, ending, compression):
    path = tmp_path / f"t.{ending}"
    pyarrow.feather.write_feather(TABLE, path, compression=compression, chunksize=2)
    found, memory = (open_table(table).aggregate(PUBLIC, key=1) for table in (path, TABLE))
    assert found.cells.tolist() == memory.cells.tolist() == [2, 5, 18]
    assert found.counts.tolist() == memory.counts.tolist()


def test_several_files_are_one_table_if_they_are_alike(tmp_path):
    pyarrow.feather.write_feather(TABLE.slice(0, 2), tmp_path / "t1.arrow")
    pyarrow.feather.write_feather(TABLE.slice(2), tmp_path / "t2.arrow")
    assert open_table(tmp_path / "t*.arrow").aggregate(PUBLIC, key=1).counts.sum() == 3
    pyarrow.feather.write_feather(TABLE.select(["age", "sex"]), tmp_path / "t2.arrow")
    with pytest.raises(TableError, match="do not all have the same columns and types"):
        open_table(tmp_path / "t*.arrow")
    (tmp_path / "t2.arrow").write_bytes(b"nothing")
    with pytest.raises(TableError, match="cannot be opened"):
        open_table(tmp_path / "t2.arrow")
