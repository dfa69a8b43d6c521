"""Posterior and model evidence of an expensive simulator, from a few dozen runs."""

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
