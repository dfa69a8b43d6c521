"""Problems with known answers, for benchmarks and examples: ``names()`` lists them, ``get(name)`` makes one."""

from tbq.problems.base import Mode, Problem, Reference
from tbq.problems.registry import get, names, real_names

__all__ = ["Mode", "Problem", "Reference", "get", "names", "real_names"]
