"""One run of one method on one problem, in the method's own environment: prints a JSON object.

Run: python benchmarks/peers/methods.py METHOD PROBLEM SEED. Every method has its documented defaults; the comment at
each says which. All see one θ at a time and the log-likelihood as a plain function, except ``tbq-outputs``.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy import special
from tables import CPU_LIMIT

import tbq
from tbq.common.types import Array


@dataclass(frozen=True)
class Answer:
    """What a method says."""

    log_evidence: float
    stated_sd: float
    converged: bool


class OutOfTimeError(BaseException):
    """Not an Exception, so that no method swallows it."""


class Target:
    """A problem whose log-likelihood counts its calls; the CPU time in it and in the prior's quantiles is kept apart.

    Quantiles of uniform priors are written out: scipy's take longer than some samplers.
    """

    def __init__(self, problem: tbq.problems.Problem) -> None:
        self.problem, self.dim, self.calls, self.seconds = problem, problem.prior.dim, 0, 0.0
        self.marginals = list(problem.prior.marginals.values())
        self.bounds = np.array([m.support() for m in self.marginals])  # (d, 2)
        self.uniform = all(m.dist.name == "uniform" for m in self.marginals)

    def log_likelihood(self, theta: Array) -> float:
        return self.timed(lambda: float(self.problem.log_likelihood(np.asarray(theta, dtype=float))))

    def from_cube(self, u: Array) -> Array:
        """The prior's quantiles at one point of the unit cube."""
        start = time.process_time()
        low, high = self.bounds.T
        theta = low + (high - low) * u if self.uniform else self.problem.prior.from_uniform(np.atleast_2d(u))[0]
        self.seconds += time.process_time() - start
        return theta

    def from_normal(self, z: Array) -> Array:
        """The same for one point that is standard normal under the prior."""
        return self.from_cube(special.ndtr(z))

    def timed(self, call: Callable[[], Any]) -> Any:
        start = time.process_time()
        value = call()
        self.seconds += time.process_time() - start
        self.calls += 1
        return value


def run_tbq(target: Target, seed: int) -> Answer:
    """`tbq.infer` with nothing set; it is not told that a likelihood is Gaussian."""
    result = tbq.infer(target.log_likelihood, target.problem.prior, seed=seed, progress=False)
    return Answer(result.log_evidence, result.log_evidence_sd, result.converged)


def run_tbq_outputs(target: Target, seed: int) -> Answer:
    """`tbq.infer` with nothing set on the `GaussianLikelihood` itself: it learns the simulator's outputs."""
    likelihood = target.problem.log_likelihood
    assert isinstance(likelihood, tbq.GaussianLikelihood)
    (experiment,) = likelihood.experiments
    model = lambda theta: target.timed(lambda: experiment.model(theta))
    counted = tbq.GaussianLikelihood.of((replace(experiment, model=model),))
    result = tbq.infer(counted, target.problem.prior, seed=seed, progress=False)
    return Answer(result.log_evidence, result.log_evidence_sd, result.converged)


def run_pyvbmc(target: Target, seed: int) -> Answer:
    """Default options; the prior's support as hard bounds and, as the docstring of `VBMC` advises, its central 68 %
    as plausible bounds, in whose middle it starts (example 1 of its documentation). Unbounded priors are handed over
    as standard normal ones. The evidence is its lower bound."""
    from pyvbmc import VBMC
    from scipy import stats

    bounded, quantiles = bool(np.all(np.isfinite(target.bounds))), special.ndtr([-1.0, 1.0])
    marginals = target.marginals if bounded else [stats.norm()] * target.dim
    low, high = target.bounds.T if bounded else (np.full(target.dim, -np.inf), np.full(target.dim, np.inf))
    plausible = np.array([m.ppf(quantiles) for m in marginals]).T
    place = np.asarray if bounded else target.from_normal
    vbmc = VBMC(
        lambda x: target.log_likelihood(place(np.ravel(x))),
        plausible.mean(axis=0),
        low,
        high,
        *plausible,
        prior=list(marginals),
        seed=seed,
        options={"display": "off"},
    )
    _, results = vbmc.optimize()
    return Answer(results["elbo"], results["elbo_sd"], bool(results["success_flag"]))


def run_gpry(target: Target, seed: int) -> Answer:
    """`Runner(loglike, bounds).run()` with its defaults, which ends with a nested sampling of the surrogate by
    UltraNest; the stated error is that of this sampling. Other priors than uniform ones become the unit cube."""
    from gpry.run import Runner

    np.random.seed(seed)  # noqa: NPY002 - its final nested sampler takes no other
    bounds = target.bounds if target.uniform else np.tile([0.0, 1.0], (target.dim, 1))
    place = np.asarray if target.uniform else target.from_cube
    runner = Runner(lambda x: target.log_likelihood(place(x)), bounds=bounds, seed=seed, verbose=1)
    runner.run()
    log_evidence, sd = runner.last_mc_logZ()
    return Answer(float(log_evidence), float(sd), bool(runner.has_converged))


def wsabi_budget(dim: int) -> int:
    """Calls that WSABI-L is given, as it has no stopping rule: half of what PyVBMC may take."""
    return 25 * (2 + dim)


def run_emukit(target: Target, seed: int) -> Answer:
    """`WSABILLoop` with its defaults on a GPy model with an RBF kernel, as in its Bayesian quadrature tutorial. WSABI-L
    needs a Gaussian measure: priors are handed over as standard normal ones. 5 d initial draws, and the budget."""
    import GPy
    from emukit.core.loop import UserFunctionWrapper
    from emukit.model_wrappers.gpy_quadrature_wrappers import create_emukit_model_from_gpy_model
    from emukit.quadrature.loop import WSABILLoop
    from emukit.quadrature.measures import GaussianMeasure
    from emukit.quadrature.methods import WSABIL

    np.random.seed(seed)  # noqa: NPY002 - it takes no other
    d = target.dim

    def likelihood(x: Array) -> Array:
        return np.exp([[target.log_likelihood(target.from_normal(row))] for row in x])

    measure = GaussianMeasure(np.zeros(d), 1.0)
    x = measure.sample(5 * d)
    y = likelihood(x)
    gp = GPy.models.GPRegression(X=x, Y=y, kernel=GPy.kern.RBF(input_dim=d, lengthscale=1.0, variance=1.0))
    model = WSABIL(create_emukit_model_from_gpy_model(gp, measure=measure), X=x, Y=y)
    WSABILLoop(model).run_loop(UserFunctionWrapper(likelihood), wsabi_budget(d) - 5 * d)
    mean = float(model.integrate()[0])  # it states no error, nor that it has converged
    return Answer(float(np.log(mean)) if mean > 0.0 else -np.inf, np.nan, False)


def run_dynesty(target: Target, seed: int) -> Answer:
    """`NestedSampler` and `run_nested` with their defaults, as in its crash course: the static sampler."""
    import dynesty

    rng = np.random.default_rng(seed)
    sampler = dynesty.NestedSampler(target.log_likelihood, target.from_cube, target.dim, rstate=rng)
    sampler.run_nested(print_progress=False)
    return Answer(float(sampler.results.logz[-1]), float(sampler.results.logzerr[-1]), True)


def run_nautilus(target: Target, seed: int) -> Answer:
    """`Sampler` and `run` with their defaults, as in its README; it states no error, and one over the root of its
    effective sample size stands for it."""
    import nautilus

    sampler = nautilus.Sampler(target.from_cube, target.log_likelihood, target.dim, pass_dict=False, seed=seed)
    finished = bool(sampler.run())
    return Answer(float(sampler.log_z), float(sampler.n_eff**-0.5), finished)


def run_ultranest(target: Target, seed: int) -> Answer:
    """`ReactiveNestedSampler` and `run` with their defaults, nothing shown."""
    import ultranest

    np.random.seed(seed)  # noqa: NPY002 - it takes no other
    names = list(target.problem.prior.names)
    sampler = ultranest.ReactiveNestedSampler(names, target.log_likelihood, target.from_cube)
    result = sampler.run(show_status=False, viz_callback=False)
    return Answer(float(result["logz"]), float(result["logzerr"]), True)


Method = Callable[[Target, int], Answer]
METHODS: dict[str, tuple[str, str, Method]] = {  # name: distribution, module imported before the clock starts, function
    "tbq": ("tbq", "tbq", run_tbq),
    "tbq-outputs": ("tbq", "tbq", run_tbq_outputs),
    "pyvbmc": ("pyvbmc", "pyvbmc", run_pyvbmc),
    "gpry": ("gpry", "gpry.run", run_gpry),
    "emukit": ("emukit", "emukit.model_wrappers.gpy_quadrature_wrappers", run_emukit),
    "dynesty": ("dynesty", "dynesty", run_dynesty),
    "nautilus": ("nautilus-sampler", "nautilus", run_nautilus),
    "ultranest": ("ultranest", "ultranest", run_ultranest),
}


def run(method: str, problem: str, seed: int) -> dict[str, Any]:
    """One run with its counts, ended when its time is up."""
    distribution, module, function = METHODS[method]
    importlib.import_module(module)
    target = Target(tbq.problems.get(problem))
    signal.signal(signal.SIGPROF, _out_of_time)
    signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT)
    start = time.process_time()
    try:
        answer, ended = function(target, seed), "itself"
    except OutOfTimeError:
        answer, ended = Answer(np.nan, np.nan, False), "out of time"
    except Exception as error:
        answer, ended = Answer(np.nan, np.nan, False), f"{type(error).__name__}: {error}".splitlines()[0]
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    seconds = time.process_time() - start - target.seconds
    known = tbq.__version__ if distribution == "tbq" else version(distribution)
    return {**asdict(answer), "calls": target.calls, "cpu_seconds": seconds, "ended": ended, "version": known}


def _out_of_time(*_: Any) -> None:
    raise OutOfTimeError


if __name__ == "__main__":
    output, sys.stdout = sys.stdout, sys.stderr  # what methods print is not ours
    print(json.dumps(run(sys.argv[1], sys.argv[2], int(sys.argv[3]))), file=output)
