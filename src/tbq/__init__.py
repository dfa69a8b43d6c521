"""Posterior and model evidence of an expensive simulator, from a few dozen runs."""

import importlib
from typing import Any

from tbq import problems
from tbq.compare import Comparison, compare
from tbq.errors import TbqError
from tbq.infer import infer
from tbq.likelihood import GaussianLikelihood
from tbq.prior import Prior
from tbq.result import Result, Stop
from tbq.session import Session
from tbq.storage import load
from tbq.tmcmc import SampledPosterior, tmcmc
from tbq.vanilla import Integral, integrate

__all__ = [
    "Comparison",
    "GaussianLikelihood",
    "Integral",
    "Prior",
    "Result",
    "SampledPosterior",
    "Session",
    "Stop",
    "TbqError",
    "compare",
    "infer",
    "integrate",
    "load",
    "problems",
    "tmcmc",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Modules that not every program needs, loaded when they are first used."""
    if name in ("adapters", "diagnostics", "export", "plots"):
        return importlib.import_module(f"tbq.{name}")
    raise AttributeError(f"module 'tbq' has no attribute {name!r}")
