"""The options that decide what a run finds: one typed definition with defaults, meanings and rules.

:func:`tbq.infer`, :class:`tbq.Session`, the case file's ``[run]`` table and the documentation are made of it; how runs
are made (executors, batches, timeouts) is added in :mod:`tbq.run.options`.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypedDict, TypeVar, get_args, get_type_hints

from tbq.common.errors import ArgumentError
from tbq.gp.kernels import KernelChoice

Algorithm = Literal["tbq", "bq"]
AcquisitionName = Literal["puq", "pvc", "abs_pvc", "plur", "peur", "interval", "ensemble"]
Search = Literal["pool", "continuous", "auto"]
SurrogateChoice = Literal["auto", "outputs", "log_likelihood"]

_WIDTH = 110  # characters of a line of documentation
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """What is said of an option: its default, its meaning and, where None leaves it to us, the rule."""

    default: Any
    meaning: str
    rule: str = ""
    least: int | None = None  # a number must not be below this
    above: float | None = None  # or must be above this


class EngineOptions(TypedDict, total=False):
    """What is to be found, and how well."""

    algorithm: Annotated[
        Algorithm,
        Option(
            "tbq",
            '``"tbq"``: Transitional Bayesian Quadrature (Algorithm 2), which reaches sharp posteriors in stages; '
            '``"bq"``: Bayesian Quadrature over the prior (Algorithm 1), for posteriors not much narrower than it.',
        ),
    ]
    acquisition: Annotated[
        AcquisitionName | Callable[..., Any],
        Option(
            "peur",
            'What a run is worth: ``"puq"``, ``"pvc"``, ``"abs_pvc"``, ``"plur"``, ``"peur"``, ``"interval"`` (the '
            "original TBQ's), "
            '``"ensemble"`` (one point from each of the four per iteration), or a function of '
            "(:class:`tbq.acquisition.Target`, points).",
        ),
    ]
    search: Annotated[
        Search,
        Option(
            "auto",
            '``"pool"`` ranks candidates, ``"continuous"`` also climbs from the best.',
            '``"auto"``: climb with up to six parameters.',
        ),
    ]
    surrogate: Annotated[
        SurrogateChoice,
        Option(
            "auto",
            'What is learned: ``"outputs"``, those of the simulator behind a :class:`tbq.GaussianLikelihood`, or '
            '``"log_likelihood"``, for any other.',
            '``"auto"``: the outputs where there are any and they can be modelled.',
        ),
    ]
    kernel: Annotated[
        KernelChoice,
        Option(
            "auto",
            '``"se"``, ``"matern52"`` or ``"additive"`` (functions of two parameters), each with a constant mean.',
            '``"auto"``: chosen from the data, with the mean.',
        ),
    ]
    log_likelihood_noise: Annotated[
        float | None,
        Option(
            None,
            "Standard deviation in nats of independent noise that is added to log-likelihoods and averages to zero; 0 "
            "for none. The evidence is of the log-likelihood without it. A function may also return it for each run, "
            "in a tuple ``(value, sd)``.",
            'With ``kernel="auto"`` it is learned from the runs where they speak for it; else there is none.',
            least=0,
        ),
    ]
    tolerance: Annotated[
        float | Sequence[float],
        Option(
            0.04,
            "Coefficient of variation of the evidence at which the surrogate knows enough: one number, or a pair "
            "(intermediate stages, final stage). The total error, with all its other parts, can be a little larger.",
            "Of one number, intermediate stages get no runs of their own; where outputs are learned, a quarter of it "
            "is asked for with up to four parameters, and a sixteenth for each with more; up to twice of it, with 32 "
            "and more, where the last percents would cost the most runs.",
        ),
    ]
    temper_cov: Annotated[
        float,
        Option(
            0.75,
            "Coefficient of variation of the weights that a stage may need: smaller means more stages.",
            "Twice as much where outputs are learned: their stages cost no runs.",
        ),
    ]
    n_initial: Annotated[
        int | None,
        Option(
            None,
            "Runs of the initial design.",
            "The larger of 12 and 2d for d parameters; where outputs are learned, of 10 and d + 3, or of 6 and d + 3 "
            "where their noise is unknown, and 33 at most.",
        ),
    ]
    population: Annotated[
        int | None,
        Option(None, "Points of each population.", "2,048; with plain Bayesian Quadrature 8,192."),
    ]
    chain_length: Annotated[
        int | None,
        Option(None, "Markov chain steps per stage.", "20; where outputs are learned 10, from 15 parameters on 3d."),
    ]
    max_evaluations: Annotated[
        int | None,
        Option(None, "The most runs there may be, those that a warm start brings along not counted.", "100 + 50d."),
    ]


def options_of(options: type) -> dict[str, Option]:
    """Each option's default, meaning and rule, in their order."""
    hints = get_type_hints(options, include_extras=True)
    return {name: next(a for a in get_args(hint) if isinstance(a, Option)) for name, hint in hints.items()}


def with_defaults(where: str, options: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options, as given or by default. An unknown one is refused, with the one that was probably meant."""
    known = options_of(options)
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
            raise ArgumentError(f"{where}: {name!r} is not an option{hint}")
    return {name: given.get(name, option.default) for name, option in known.items()}


def documented(options: type) -> Callable[[F], F]:
    """Give a function with ``**options`` their names, defaults and meanings, for ``help`` and for editors."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        hints = get_type_hints(options)
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=hints[name])
            for name, option in options_of(options).items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *keywords])  # type: ignore[attr-defined]
        parameters, mark, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\nReturns\n")
        function.__doc__ = f"{parameters}\n{explanation(options)}{mark}{rest}"
        return function

    return decorate


def explanation(options: type) -> str:
    """The options as a section of a docstring has them."""
    lines = []
    for name, option in options_of(options).items():
        text = f"{option.meaning} {option.rule}".strip()
        lines += [name, *textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")]
    return "\n".join(lines)
