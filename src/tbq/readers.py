"""Ways to read numbers out of what a program leaves in its directory, for :class:`tbq.adapters.CommandModel`."""

from tbq.simulate.calculix import Calculix
from tbq.simulate.outputs import Output
from tbq.simulate.readers import Dataset, Function, Json, Numbers, Pattern, Table

__all__ = ["Calculix", "Dataset", "Function", "Json", "Numbers", "Output", "Pattern", "Table"]
