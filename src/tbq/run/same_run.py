"""Is this the run that the journal is of? Where it is not, the one thing that differs, in the user's words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tbq.common.errors import TbqError
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problem.records import Plain, prior_record, same_prior
from tbq.problem.settings import Settings
from tbq.run.contents import Contents
from tbq.run.header import FORMAT, plain

STEERED = ("tolerance", "max_evaluations")  # options that a run may go on with another value of
_LOOKED_AT = 3  # runs whose outputs are judged anew
_ROUNDING = 1e-6  # of a log-likelihood, between machines
_FOLLOWING = ("otherwise", "check_runs", "climb", "strictness", "thinned", *STEERED)  # from the others; not compared


def check_same(
    contents: Contents,
    prior: Prior,
    settings: Settings,
    seed: int | None,
    version: str,
    path: Path,
    noise: Prior | None = None,
    likelihood: Any = None,
) -> None:
    """Refuse to go on with a run that is not the one the journal is of."""
    header = contents.header
    if header.get("format") != FORMAT:
        raise _refused(path, f"it has format {header.get('format')!r}, and this tbq reads format {FORMAT}")
    was, now = dict(contents.settings_record), plain(asdict(settings))
    tuned = sorted(n for n in {**was["tuning"], **now["tuning"]} if was["tuning"].get(n) != now["tuning"].get(n))
    differences = [*_of_run(header, prior, noise, seed, version), *_of_settings(was, now)]
    if differences:
        more = len(differences) - 1
        others = f" (and {more} more {'things differ' if more > 1 else 'thing differs'})" if more else ""
        raise _refused(path, f"it is of another run: {differences[0]}{others}")
    if tuned:
        raise _refused(
            path,
            f"it was written by an engine that was tuned otherwise ({', '.join(tuned)}), and replays only with that",
        )
    check_data(contents, likelihood, path)


def check_data(contents: Contents, likelihood: Any, path: Path) -> None:
    """Refuse other data or another noise: stored log-likelihoods would be of the old ones, new ones of the new."""
    if not isinstance(likelihood, GaussianLikelihood):
        return
    runs = [e for e in contents.fine if e.outputs is not None and np.isfinite([*e.outputs, e.log_likelihood]).all()]
    for e in runs[:_LOOKED_AT]:
        assert e.outputs is not None
        expected = len(likelihood.observed)
        if len(e.outputs) != expected:
            raise _other_data(path, f"its runs have {len(e.outputs)} outputs, these data {expected}")
        was, now = e.log_likelihood, float(likelihood.from_outputs(e.theta, e.outputs))
        if not abs(now - was) <= _ROUNDING * max(1.0, abs(was)):
            judged = f"the outputs of run {e.id} had the log-likelihood {was:.6g}, and have {now:.6g} now"
            raise _other_data(path, judged)


def _other_data(path: Path, why: str) -> TbqError:
    go_on = f"journal='another' and warm_start={str(path.parent)!r}"
    return TbqError(
        f"journal: {path} was made with other data or another noise: {why}. Give those again; its runs are judged by "
        f"new ones in a new run, with {go_on}"
    )


def is_steered(contents: Contents, settings: Settings) -> bool:
    """Whether the run is to go on with another budget or tolerance than it has."""
    was, now = contents.settings_record, plain(asdict(settings))
    return any(was[name] != now[name] for name in STEERED)


def _of_run(header: Plain, prior: Prior, noise: Prior | None, seed: int | None, version: str) -> Iterator[str]:
    if header["version"] != version:
        yield f"tbq was {header['version']}, is {version}"
    if seed is not None and header["seed"] != seed:
        yield f"seed was {header['seed']}, is {seed}"
    if not same_prior(header["prior"], prior):
        yield _of_prior(header["prior"], prior)
    was = header.get("noise")
    if (was is None) != (noise is None):
        yield "the noise had no parameters" if was is None else f"the noise had parameters: {', '.join(was['names'])}"
    elif was is not None and noise is not None and not same_prior(was, noise):
        yield _of_prior(was, noise)


def _of_prior(was: Plain, prior: Prior) -> str:
    """The first thing that differs in a prior."""
    if was["names"] != list(prior.names):
        return f"the parameters were {', '.join(was['names'])}, are {', '.join(prior.names)}"
    now = prior_record(prior)
    old, new = was.get("exactly", {}), now["exactly"]
    for name, before, after in zip(prior.names, old.get("marginals", ()), new["marginals"], strict=False):
        if before != after:
            return f"the prior of {name} was {_marginal(before)}, is {_marginal(after)}"
    if old.get("correlation") != new["correlation"]:
        return "the correlation of the prior was another" if old.get("correlation") else "the prior had no correlation"
    if old.get("constrained") != new["constrained"]:
        return f"the prior had {'a' if old.get('constrained') else 'no'} constraint"
    return f"the density of the prior was another ({was['description']}); has its constraint changed?"


def _marginal(record: Any) -> str:
    name, parameters = record
    return f"{name}({', '.join(f'{key} = {value}' for key, value in parameters)})"


def _of_settings(was: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """What differs in the options, in the words of the one who gave them; some change much that follows from them."""
    if was["surrogate"] != now["surrogate"]:
        yield f"surrogate was {was['surrogate']!r}, is {now['surrogate']!r}"
        return
    algorithms = ["bq" if settings["temper_cov"] == "inf" else "tbq" for settings in (was, now)]
    if algorithms[0] != algorithms[1]:
        yield "algorithm was {!r}, is {!r}".format(*algorithms)
        return
    if bool(was.get("coarse")) != now["coarse"]:
        yield f"there was {'a' if was.get('coarse') else 'no'} coarse model"
        return
    for name in sorted((was.keys() | now.keys()) - {"tuning", "surrogate", "coarse", *_FOLLOWING}):
        before, after = was.get(name), now.get(name)
        clipped = name == "n_initial" and any(s["n_initial"] == s["max_evaluations"] for s in (was, now))
        if before == after or clipped:
            continue
        if name == "temper_cov" and was["surrogate"] == "outputs":
            before, after = 0.5 * was[name], 0.5 * now[name]  # of which outputs have twice as much
        yield f"{name} was {before!r}, is {after!r}"


def _refused(path: Path, why: str) -> TbqError:
    go_on = f"give another journal and warm_start={str(path.parent)!r}"
    return TbqError(f"journal: {path} cannot be gone on with: {why}. To use its evaluations in a new run, {go_on}")
