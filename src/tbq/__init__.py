"""Posterior and model evidence of an expensive simulator, from a few dozen runs.

The rooms of the house, from the ground up: ``common``, ``gp`` (exact Gaussian processes), ``problem`` (what is asked),
``surrogate`` (a belief about the likelihood), ``evidence`` (integrals under a belief), ``acquisition`` (what a run is
worth), ``engine`` (the algorithm), ``simulate`` (making one run), ``result`` (what came of it), ``report`` (showing
it), ``run`` (many runs, durably), ``baselines``, ``problems``, ``bench``, ``cli``. Each imports only from those before.
"""

import importlib
from typing import Any

from tbq import problems
from tbq.baselines.integrate import Integral, integrate
from tbq.baselines.tmcmc import SampledPosterior, tmcmc
from tbq.cli.folder import load
from tbq.common.errors import TbqError, Transient
from tbq.common.version import __version__
from tbq.engine.records import Stop
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.modal import ModalLikelihood
from tbq.problem.noise import Discrepancy, Exponential, SquaredExponential
from tbq.problem.prior import Prior
from tbq.result.compare import Comparison, compare
from tbq.result.result import Result
from tbq.run.check import Preflight, check
from tbq.run.infer import infer
from tbq.run.session import Session

__all__ = [
    "Comparison",
    "Discrepancy",
    "Exponential",
    "GaussianLikelihood",
    "Integral",
    "ModalLikelihood",
    "Preflight",
    "Prior",
    "Result",
    "SampledPosterior",
    "Session",
    "SquaredExponential",
    "Stop",
    "TbqError",
    "Transient",
    "__version__",
    "check",
    "compare",
    "infer",
    "integrate",
    "load",
    "problems",
    "tmcmc",
]

# Public modules that not every program needs, loaded when they are first used.
_MODULES = {
    "acquisition": "tbq.acquisition",
    "adapters": "tbq.adapters",
    "clusters": "tbq.simulate.clusters",
    "diagnostics": "tbq.report.diagnostics",
    "errors": "tbq.common.errors",
    "evaluation": "tbq.problem.evaluation",
    "export": "tbq.result.export",
    "journal": "tbq.run.journal",
    "plots": "tbq.report.plots",
    "readers": "tbq.readers",
    "summary": "tbq.report.summary",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'tbq' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
