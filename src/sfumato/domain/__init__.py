"""The domain of a table: axes, the cells they span, and sets of values and of cells."""

from sfumato.domain.grid import EPOCH as EPOCH
from sfumato.domain.grid import LARGEST_NUMBER as LARGEST_NUMBER
from sfumato.domain.grid import Axis as Axis
from sfumato.domain.grid import Domain as Domain
from sfumato.domain.grid import Kind as Kind
from sfumato.domain.grid import Label as Label
from sfumato.domain.grid import Partition as Partition
from sfumato.domain.grid import refuse_too_many_values as refuse_too_many_values
from sfumato.domain.values import END as END
from sfumato.domain.values import NO_VALUE as NO_VALUE
from sfumato.domain.values import START as START
from sfumato.domain.values import Cover as Cover
from sfumato.domain.values import Place as Place
from sfumato.domain.values import ValueSet as ValueSet
