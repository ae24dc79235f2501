"""The shape a schema gives a table: axes, their cells, and sets of values and of cells."""

from sfumato.domain.axes import EPOCH, Axis, Kind, Label
from sfumato.domain.grid import MOST_CELLS, Domain, Partition, refuse_too_many_cells
from sfumato.domain.values import END, START, Cover, Place, ValueSet

__all__ = [
    "END",
    "EPOCH",
    "MOST_CELLS",
    "START",
    "Axis",
    "Cover",
    "Domain",
    "Kind",
    "Label",
    "Partition",
    "Place",
    "ValueSet",
    "refuse_too_many_cells",
]
