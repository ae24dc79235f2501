from __future__ import annotations

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from sfumato.errors import ReleaseFileError
from sfumato.releases.rows.write import check_place, rows_file

BATCH = pa.record_batch({"=name": ["=1+1", "plain", "b\x1b"], "n": [1, 2, 3]})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_batches_make_one_file(tmp_path, ending):
    path = tmp_path / f"rows.{ending}"
    with rows_file(path, BATCH.schema) as write:
        write(BATCH)
        write(BATCH)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    table = pyarrow.csv.read_csv(path) if ending == "csv" else pyarrow.parquet.read_table(path)
    assert table["n" if ending == "parquet" else 1].to_pylist() == [1, 2, 3, 1, 2, 3]
    labels = ["'=1+1", "plain", "b\\x1b"] if ending == "csv" else ["=1+1", "plain", "b\x1b"]
    assert table[0].to_pylist() == labels * 2
    assert table.column_names == (["'=name", "n"] if ending == "csv" else ["=name", "n"])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_is_whole_or_not_there(tmp_path, ending):
    with pytest.raises(RuntimeError), rows_file(tmp_path / f"rows.{ending}", BATCH.schema) as write:
        write(BATCH)
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_are_refused_in_one_line(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name, reason in (("rows.txt", "must end in"), ("no/rows.csv", "does not exist"), ("folder.csv", "is a folder")):
        with pytest.raises(ReleaseFileError, match=reason):
            check_place(tmp_path / name)
