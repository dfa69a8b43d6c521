"""A folder of runs is a result, finished or not: what ``tbq run`` or ``tbq.infer(journal=...)`` left there."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tbq.common.errors import ArgumentError, TbqError, Transient
from tbq.common.types import Array
from tbq.engine.records import Stop
from tbq.problem.evaluation import Level
from tbq.problem.families import frozen
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problem.records import same_prior
from tbq.result import storage
from tbq.result.result import Result
from tbq.run import journal
from tbq.run.contents import Contents
from tbq.run.header import Record
from tbq.run.same_run import check_data
from tbq.run.session import Session

if TYPE_CHECKING:
    from tbq.cli.casefile import Case

CASE, RESULT = "case.toml", "result.tbq"


def load(path: str | Path, *, prior: Prior | None = None, likelihood: GaussianLikelihood | None = None) -> Result:
    """Read a result: a file that :meth:`tbq.Result.save` wrote, or the folder of a run, finished or not.

    Nothing of a file or a folder is run, whoever wrote it: it holds numbers and words, and what is none of a result is
    refused. The model that a case file names is imported when it is first called, by ``result.predict()`` say.

    Parameters
    ----------
    path
        The file, or the folder of ``tbq run`` or of ``tbq.infer(journal=...)``.
    prior
        The result's prior, where it has a constraint or a distribution that is not one of ``scipy.stats``.
    likelihood
        The result's :class:`tbq.GaussianLikelihood`, for its model, and for its noise where that has a scale. The
        folder of a Python call whose outputs were learned needs it; that of a case file has it.

    Returns
    -------
    Result
        Of a folder whose run has not ended: what is known so far, with ``stop`` saying so.

    Raises
    ------
    TbqError
        Where there is no result, or it is damaged, or a function that was not stored is needed and not given.

    Examples
    --------
    >>> result = tbq.load("runs/case")  # doctest: +SKIP
    """
    if isinstance(path, str | Path) and Path(path).is_dir():
        return Folder(Path(path)).result(prior, likelihood)
    return storage.load(path, prior=prior, likelihood=likelihood)


@dataclass(frozen=True)
class Folder:
    """What lies in a folder of runs."""

    path: Path

    @cached_property
    def case(self) -> Case | None:
        """The case, where the run was begun from a case file."""
        from tbq.cli import casefile

        return casefile.load(self.path / CASE, by_hand=True) if (self.path / CASE).exists() else None

    @property
    def title(self) -> str:
        return self.case.title if self.case is not None else ""

    @property
    def name(self) -> str:
        return self.path.resolve().name

    def prior(self, contents: Contents) -> Prior:
        """That of the case file, or as the journal describes it."""
        if self.case is not None:
            return self.case.prior()
        return _described_prior(contents.header["prior"], self.path)

    def likelihood(self) -> GaussianLikelihood | None:
        """Data and noise of the case file, with a model that is loaded when it is called."""
        if self.case is None:
            return None
        found = self.case.log_likelihood(*LaterModel.of(self.case, self.path))
        return found if isinstance(found, GaussianLikelihood) else None

    def result(self, prior: Prior | None = None, likelihood: GaussianLikelihood | None = None) -> Result:
        """What the run found, or knows so far."""
        contents = journal.read(self.path)
        likelihood = likelihood or self.likelihood()
        check_data(contents, likelihood, self.path / journal.FILE)
        if (found := self._stored(contents, prior, likelihood)) is not None:
            return found
        return self.view(contents, prior, likelihood)[1]

    def view(
        self,
        contents: Contents,
        prior: Prior | None = None,
        likelihood: GaussianLikelihood | None = None,
    ) -> tuple[Session, Result]:
        """The state that the journal tells of, replayed, and what it knows."""
        prior = prior or self.prior(contents)
        if not same_prior(contents.header["prior"], prior):
            raise ArgumentError(f"load: prior must be that of {self.path}, {contents.header['prior']['description']}")
        likelihood = likelihood or self.likelihood()
        if likelihood is None and contents.header["settings"]["surrogate"] == "outputs":
            raise ArgumentError(
                f"load: the run in {self.path} learned the outputs of a tbq.GaussianLikelihood, which its journal does "
                "not hold; give it: tbq.load(path, likelihood=...)"
            )
        check_data(contents, likelihood, self.path / journal.FILE)
        session = Session.view(prior, contents, likelihood)
        return session, paused(session.result(), contents)

    def _stored(self, contents: Contents, prior: Prior | None, likelihood: GaussianLikelihood | None) -> Result | None:
        """The result that the run left; None where the journal has gone on since, or it cannot be read."""
        if not (self.path / RESULT).exists():
            return None
        try:
            found = storage.load(self.path / RESULT, prior=prior or self.prior(contents), likelihood=likelihood)
        except TbqError:  # the journal has all that it had
            return None
        ended = contents.stop or (Stop.PAUSED if contents.outage is not None else Stop.UNFINISHED)
        same = found.stop is ended and found.n_evaluations == len(contents.fine)
        return found if same and found.seed == contents.header["seed"] else None


def leave(result: Result, summary: str, folder: Path) -> None:
    """Everything that was found, in the folder."""
    from tbq.report.parts import replace
    from tbq.result.export import write_csv

    try:
        replace(folder / "summary.txt", summary + "\n")
        write_csv(folder / "samples.csv", result.prior.names, result.samples)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a file cannot hold, the case file has
            result.save(folder / RESULT)
    except (OSError, TbqError) as error:  # all runs are in the journal
        why = error.strerror if isinstance(error, OSError) else error
        raise Transient(
            f"summary.txt, samples.csv or {RESULT} cannot be written: {why}. When they can, `tbq resume {folder}` does"
        ) from error


@dataclass(frozen=True)
class LaterModel:
    """The model of a case, made when it is first called: reading a folder runs nothing of it."""

    case: Case
    path: Path
    level: Level = "fine"

    @classmethod
    def of(cls, case: Case, path: Path) -> list[LaterModel]:
        """That of the fine level, and of a coarse one where there is one."""
        return [cls(case, path), *([cls(case, path, "coarse")] if case.has_coarse else [])]

    def __call__(self, theta: Array) -> Any:
        return self.model(theta)

    @cached_property
    def model(self) -> Any:
        return self.case.simulator(self.path.resolve() / "work", self.level)


def paused(result: Result, contents: Contents) -> Result:
    """The result of a run that waits for something says so."""
    if contents.outage is None:
        return result
    return replace(result, stop=Stop.PAUSED, outage=contents.outage["message"])


def _described_prior(description: Record, folder: Path) -> Prior:
    """A prior by the numbers that a journal has of it."""
    need = "give it: tbq.load(path, prior=...)"
    exactly = description.get("exactly", {})
    if exactly.get("constrained", True):
        raise ArgumentError(f"load: the prior of the run in {folder} has a constraint, which no file holds; {need}")
    try:
        marginals = [
            (name, frozen(family, [], {key: float(value) for key, value in parameters}))
            for name, (family, parameters) in zip(description["names"], exactly["marginals"], strict=True)
        ]
        prior = Prior(marginals, correlation=exactly["correlation"])
    except Exception as error:
        raise ArgumentError(
            f"load: the prior of the run in {folder} cannot be made from its journal; {need}"
        ) from error
    if not same_prior(description, prior):
        raise ArgumentError(f"load: the prior of the run in {folder} is not only its marginals; {need}")
    return prior
