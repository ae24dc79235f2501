"""Arrow files (Feather) as a source: names and types from their schema, values as from Arrow in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.formats.arrow_values import harmless
from sfumato.kernel.reading.formats.frames import Frame
from sfumato.kernel.reading.formats.origin import SOURCE, shown_files

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ArrowFiles:
    """Arrow files of the same columns and types, read as one table."""

    paths: tuple[Path, ...]

    @property
    def shown(self) -> str:
        """What a message calls them."""
        return shown_files(self.paths)

    def describe(self, connection: Any) -> list[Column]:
        """Their columns."""
        first, *others = (_reader(path).schema.remove_metadata() for path in self.paths)
        if any(not other.equals(first) for other in others):
            raise TableError(f"{self.shown} do not all have the same columns and types; make them equal")
        return Frame(first.empty_table(), "pyarrow", "Table").describe(connection)

    def mount(self, connection: Any, used: Sequence[Column]) -> None:
        """Make the used columns readable."""
        import pyarrow as pa

        places = [int(column.reference[1:]) for column in used]
        names = [column.reference for column in used]
        kinds = _reader(self.paths[0]).schema
        empty = [harmless(pa.array([], kinds.field(place).type)) for place in places]
        schema = pa.schema([pa.field(name, part.type) for name, part in zip(names, empty, strict=True)])
        connection.register(SOURCE, pa.RecordBatchReader.from_batches(schema, self._batches(places, schema)))

    def _batches(self, places: Sequence[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for path in self.paths:
            reader = _reader(path)
            for at in range(reader.num_record_batches):
                batch = reader.get_batch(at)
                yield pa.record_batch([harmless(batch.column(place)) for place in places], schema=schema)


def _reader(path: Path) -> Any:
    import pyarrow as pa

    return pa.ipc.open_file(pa.memory_map(str(path)))


# What microseconds can count, which is what DuckDB reads: a slower reader must not take for missing what it counts.
# As text: up to the end of the year 9999, which is all that Python's own times can be.
