"""The benchmark library: problems with exact references."""

from tbq.problems.library import Problem, Reference, get, names

__all__ = ["Problem", "Reference", "get", "names"]
