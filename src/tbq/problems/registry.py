"""Looking problems up."""

from __future__ import annotations

from collections.abc import Callable

from tbq.common.errors import ArgumentError
from tbq.problems.base import Problem


def names() -> list[str]:
    """Names of all problems."""
    return sorted(_builders())


def real_names() -> list[str]:
    """Names of those with data, priors a hundred posterior widths wide and sampled references: `tbq bench real`."""
    return sorted(_real())


def get(name: str) -> Problem:
    """The problem of that name."""
    builders = _builders()
    if name not in builders:
        raise ArgumentError(f"problems.get: there is no problem {name!r}; there are {', '.join(sorted(builders))}")
    return builders[name]()


def _builders() -> dict[str, Callable[[], Problem]]:
    from tbq.problems import battery, decay, frames, plane, tenfold, textbook

    paper = [plane.u1, plane.u2, plane.u3, plane.u4, tenfold.ten, frames.dof3, frames.dof2, battery.battery]
    return {build.__name__: build for build in (*paper, decay.decay, *textbook.ALL)} | _real()


def _real() -> dict[str, Callable[[], Problem]]:
    from tbq.problems import odes, psychometrics, regression, samples, series

    modules = (series, regression, psychometrics, samples, odes)
    return {build.__name__: build for module in modules for build in module.ALL}
