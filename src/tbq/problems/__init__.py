"""The benchmark library: problems with exact references."""

from tbq.problems.library import Mode, Problem, Reference, get, names

__all__ = ["Mode", "Problem", "Reference", "get", "names"]
