"""Commands for runs that are made elsewhere, in a laboratory or in any queue: ``tbq ask``, ``tell`` and ``fail``.

Each opens the journal, does one thing and lets go of it, so that scripts on several machines can take turns.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tbq.cli.folder import CASE, LaterModel, leave
from tbq.cli.speaking import Folder, Json, answer, spoken
from tbq.common.errors import ArgumentError, TbqError
from tbq.common.types import Array
from tbq.common.words import one_line, printable
from tbq.problem.evaluation import Evaluation, Proposal
from tbq.problem.likelihood import GaussianLikelihood
from tbq.run import journal
from tbq.run.lock import InUseError
from tbq.run.session import Session
from tbq.simulate.textfiles import decoded, words_of

_PATIENCE = 60.0  # seconds that another command may have the journal: learning takes its time
_PAUSE = 0.2  # seconds between two tries

Id = Annotated[int, typer.Argument(min=0, help="The point, as `tbq ask` gave it.", show_default=False)]


def ask(
    folder: Folder,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Points at most.")] = 1,
    case_file: Annotated[
        Path | None, typer.Option("--case", help="Begin the run of this case file here.", show_default=False)
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Print the points that are out, and choose none.")] = False,
    as_json: Json = False,
) -> None:
    """Choose points for runs that are made elsewhere. Those that are out stay out until they are told."""
    with spoken(folder):
        if case_file is not None:
            _begin(folder, case_file)
        with _opened(folder) as (session, _):
            points = list(session.pending) if again else session.ask(n, again=False)
            done = session.done and not session.pending
            result = session.result() if done else None
            if result is not None:
                session.note_found(result)
        if result is not None:
            leave(result, result.summary(), folder)
        _show_points(session, points, folder, as_json)


def tell(
    folder: Folder,
    point: Id,
    outputs: Annotated[
        Path | None,
        typer.Option(help="File of numbers, or JSON: a list, or by the names of the outputs; '-' is stdin."),
    ] = None,
    log_likelihood: Annotated[
        float | None, typer.Option(help="Where the case has no data; -inf where it is zero.", show_default=False)
    ] = None,
    log_likelihood_sd: Annotated[
        float | None, typer.Option(min=0, help="Of its noise in nats, where that is known.", show_default=False)
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="That the run took.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Tell what came of a run at a point that `tbq ask` gave."""
    with spoken(folder), _opened(folder) as (session, data):
        proposal = _of_id(session, point)
        if data is None:
            if outputs is not None or log_likelihood is None:
                raise ArgumentError("the case has no data: give --log-likelihood NUMBER, and no --outputs")
            told = {"log_likelihood": log_likelihood, "log_likelihood_sd": log_likelihood_sd}
            found = session.tell(point, **told, seconds=seconds)
        else:
            if outputs is None or log_likelihood is not None or log_likelihood_sd is not None:
                raise ArgumentError("the case has data: give --outputs FILE, and no --log-likelihood")
            numbers = _numbers(outputs, folder, data)
            value = data.from_outputs(proposal.theta, numbers)
            found = session.tell(point, log_likelihood=value, outputs=numbers, seconds=seconds)
        _show_run(session, found, as_json)


def fail(
    folder: Folder,
    point: Id,
    why: Annotated[str, typer.Option(help="What went wrong.")] = "",
    as_json: Json = False,
) -> None:
    """Tell that a run at a point gave nothing; the search avoids such places."""
    with spoken(folder), _opened(folder) as (session, _):
        _of_id(session, point)
        _show_run(session, session.fail(point, why), as_json)


# --- the run ------------------------------------------------------------------------------------------------


def _begin(folder: Path, case_file: Path) -> None:
    from tbq.cli import casefile
    from tbq.common.randomness import fresh_seed

    if (folder / journal.FILE).exists():
        raise TbqError("there is a run here already; leave --case out to go on with it")
    case = casefile.load(case_file, by_hand=True)
    case = case.resolved(fresh_seed() if case.run.seed is None else case.run.seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CASE).write_text(case.to_toml(), encoding="utf-8")


@contextmanager
def _opened(folder: Path) -> Iterator[tuple[Session, GaussianLikelihood | None]]:
    """The session of a folder, and what its outputs are judged by; a command that has its journal is waited for."""
    from tbq.cli import casefile

    if not (folder / CASE).exists():
        raise TbqError(f"nothing was begun here; `tbq ask {folder} --case case.toml` begins")
    case = casefile.load(folder / CASE, by_hand=True)
    found = case.log_likelihood(*LaterModel.of(case, folder))
    likelihood = found if isinstance(found, GaussianLikelihood) else None
    start = time.monotonic()
    while True:
        try:
            session = Session.of(
                case.prior(),
                case.settings(),
                seed=case.run.seed,
                journal=folder,
                warm_start=case.run.warm_start,
                likelihood=likelihood,
            )
            break
        except InUseError:
            if time.monotonic() - start > _PATIENCE:
                raise
            time.sleep(_PAUSE)
    with session:
        yield session, likelihood


def _of_id(session: Session, point: int) -> Proposal:
    pending = {p.id: p for p in session.pending}
    if point in pending:
        return pending[point]
    if any(e.id == point for e in session.evaluations):
        raise ArgumentError(f"point {point} was told already")
    out = ", ".join(map(str, pending)) or "none"
    raise ArgumentError(f"point {point} is not out; these are: {out}")


def _numbers(file: Path, folder: Path, data: GaussianLikelihood) -> Array:
    """The outputs of a run, in the order of the data; null in JSON is missing."""
    text = _text(file)
    if file.suffix == ".json" or str(file) == "-":
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"--outputs: {file} is not JSON: {error}") from error
        words = _by_name(content, folder)
    else:
        words = [word for word, _ in words_of(text, file)]
    numbers = np.array([_number(word, file) for word in words])
    if len(numbers) != len(data.observed):
        raise ArgumentError(f"--outputs: {file} has {len(numbers)} numbers, and the data {len(data.observed)}")
    return numbers


def _text(file: Path) -> str:
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return decoded(data, str(file))
    except OSError as error:
        raise ArgumentError(f"--outputs: {file} cannot be read: {error}") from error


def _number(word: Any, file: Path) -> float:
    if word is None:
        return np.nan
    try:
        if isinstance(word, bool):
            raise ValueError("true and false are none")
        return float(word)
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"--outputs: {file} must hold numbers: {one_line(str(error), 100)}") from error


def _by_name(content: Any, folder: Path) -> list[Any]:
    """A list, or lists and numbers by the names of the outputs, each with as many as were observed."""
    if isinstance(content, dict):
        from tbq.cli import casefile

        sizes = {output.name: output.size for output in casefile.load(folder / CASE, by_hand=True).outputs}
        if set(content) != set(sizes):
            wanted = f"an object of {', '.join(sizes)}" if sizes else "a list: the case has no named [[outputs]]"
            got = one_line(", ".join(content)) or "nothing"
            raise ArgumentError(f"--outputs must be {wanted}; got an object of {got}")
        for name, size in sizes.items():
            if (n := len(_listed(content[name]))) != size:
                raise ArgumentError(f"--outputs: {name} has {n} numbers, and {size} were observed")
        content = [content[name] for name in sizes]
    return [number for item in _listed(content) for number in _listed(item)]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# --- words --------------------------------------------------------------------------------------------------


def _show_points(session: Session, points: list[Proposal], folder: Path, as_json: bool) -> None:
    names, out = session.state.prior.names, [p.id for p in session.pending]
    stop = session.state.stop if not out else None
    if as_json:
        listed = [{"id": p.id, "theta": dict(zip(names, p.theta.tolist(), strict=True)), **_level(p)} for p in points]
        answer({"points": listed, "out": out, "done": stop is not None, "stop": stop and stop.value})
    elif points:
        width = max(12, *(len(name) for name in names))
        typer.echo(printable("  ".join([f"{'id':>5}", *(f"{name:>{width}}" for name in names)])))
        for p in points:
            typer.echo("  ".join([f"{p.id:>5}", *(f"{value:>{width}.8g}" for value in p.theta), *_level(p).values()]))
    elif stop is not None:
        typer.echo(f"The run is done: {stop.value} `tbq report {folder}` shows what it found.")
    else:
        typer.echo(f"Nothing new until one of the points that are out is told: {', '.join(map(str, out))}")


def _level(point: Proposal) -> dict[str, str]:
    """Said of coarse runs alone: most cases have no others than fine ones."""
    return {"level": point.level} if point.level == "coarse" else {}


def _show_run(session: Session, found: Evaluation, as_json: bool) -> None:
    told, out = len(session.evaluations), [p.id for p in session.pending]
    if as_json:
        known = {"id": found.id, "status": found.status.value, "message": found.message}
        answer({**known, "log_likelihood": found.log_likelihood, "told": told, "out": out})
    else:
        value = f"log-likelihood {found.log_likelihood:.6g}" if not found.status.is_failure else found.status.value
        why = f" ({printable(found.message)})" if found.message else ""
        typer.echo(f"Point {found.id}: {value}{why}. {told} told, {len(out)} out.")


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (ask, tell, fail):
        app.command(command.__name__)(command)
