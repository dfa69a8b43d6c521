"""The command line: ``tbq check``, ``run`` and ``resume``, and where the other commands are put together."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from tbq.cli import looking, telling, using
from tbq.cli.benchmarks import bench_app
from tbq.cli.folder import CASE, RESULT, leave
from tbq.cli.speaking import Exit, Folder, Json, answer, exit_of, spoken
from tbq.common.errors import TbqError
from tbq.common.version import __version__
from tbq.common.words import brief, printable
from tbq.engine.records import Stop

if TYPE_CHECKING:
    from tbq.cli import casefile
    from tbq.result.result import Result

app = typer.Typer(
    help="Posterior and model evidence of an expensive simulator.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
CaseFile = Annotated[Path, typer.Argument(help="The case file.", show_default=False)]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tbq {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Posterior and model evidence of an expensive simulator."""


@app.command("check")
def check_case(case_file: CaseFile, as_json: Json = False) -> None:
    """Check a case: run the model at the prior mean and at two draws; say what was seen and how long all will take."""
    from tbq.cli import casefile
    from tbq.cli.precheck import examine

    warnings: list[str] = []
    with spoken(case_file):
        lines = []
        for line in examine(casefile.load(case_file), warnings):
            lines.append(line)
            if not as_json:
                typer.echo(printable(line))
    if as_json:
        answer({"ok": not warnings, "warnings": warnings, "account": lines})
    elif warnings:
        typer.echo(f"Look at what begins with ! before `tbq run {case_file}`, which starts the run.")
    else:
        typer.echo(f"Nothing wrong was seen. `tbq run {case_file}` starts the run.")


@app.command("run")
def run_case(
    case_file: CaseFile,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; runs/NAME for NAME.toml when not given.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a case. Its folder gets the case with every choice made, the journal, and what was found."""
    from tbq.cli import casefile
    from tbq.common.randomness import fresh_seed
    from tbq.run import journal

    folder = out or Path("runs") / case_file.stem
    with spoken(case_file):
        case = casefile.load(case_file)
        if (folder / journal.FILE).exists():
            raise TbqError(f"{folder} has a run already; `tbq resume {folder}` goes on with it, --out chooses another")
        case = case.resolved(fresh_seed() if case.run.seed is None else case.run.seed)
        _infer(case, folder, as_json=as_json)


@app.command("resume")
def resume(
    folder: Folder,
    max_evaluations: Annotated[
        int | None,
        typer.Option(min=1, help="The most runs there may be, those made so far too.", show_default=False),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Coefficient of variation of the evidence to reach.", show_default=False)
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at a time.", show_default=False)] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Forget the runs that failed, and make them again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Go on with a run that was interrupted or paused, or that is to do more. No finished evaluation is made again."""
    from tbq.cli import casefile
    from tbq.report.parts import replace
    from tbq.run import journal

    with spoken(folder):
        if not (folder / CASE).exists():
            raise TbqError(f"there is no {CASE} here; give the folder of a run that `tbq run` began")
        if not (folder / journal.FILE).exists():
            raise TbqError(f"nothing was begun here; `tbq run {folder / CASE} --out {folder}` begins")
        before, old = casefile.load(folder / CASE), journal.read(folder)
        case = before.steered(max_evaluations=max_evaluations, tolerance=tolerance, workers=workers)
        made = sum(e.origin != "earlier" for e in old.fine)
        if max_evaluations is not None and max_evaluations < made:
            typer.echo(
                f"{made} runs were made and count: with --max-evaluations {max_evaluations} no other is.", err=True
            )
        if case != before:
            replace(folder / CASE, case.to_toml())
        try:
            _infer(case, folder, as_json=as_json, retry_failed=retry_failed)
        except TbqError:
            if journal.read(folder).settings_record == old.settings_record:  # refused: what was in force still is
                replace(folder / CASE, before.to_toml())
            raise


def _infer(case: casefile.Case, folder: Path, *, as_json: bool, **changed: Any) -> None:
    """Run a resolved case, or go on with it, and leave what it finds in its folder."""
    from tbq.cli.precheck import ready
    from tbq.run import journal
    from tbq.run.infer import infer

    prior, simulator = case.prior(), case.simulator(folder.resolve() / "work")
    coarse = case.simulator(folder.resolve() / "work", "coarse") if case.has_coarse else None
    log_likelihood = case.log_likelihood(simulator, coarse)
    ready(simulator, prior.dim, coarse)
    if not (folder / journal.FILE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CASE).write_text(case.to_toml(), encoding="utf-8")
    title = f"{printable(case.title)}\n" if case.title else ""
    typer.echo(f"{title}Running in {folder}; `tbq status {folder}` shows how it is doing.", err=True)
    terminal = sys.stderr.isatty()
    with _interruptible(folder):
        progress: Literal["rich", "plain"] = "rich" if terminal else "plain"
        result = infer(log_likelihood, prior, journal=folder, progress=progress, **{**case.arguments(), **changed})
        summary = result.summary()
    with suppress(OSError, ValueError):  # the model may have closed what we would print to
        _tell(result, summary, folder, as_json)
    leave(result, summary, folder)
    with suppress(OSError, ValueError):
        _tell_how_to_go_on(result, folder, as_json)
    raise typer.Exit(exit_of(result.stop))


def _tell(result: Result, summary: str, folder: Path, as_json: bool) -> None:
    """What was found."""
    from tbq.report.summary import as_dict

    if as_json:
        answer({"folder": str(folder), "exit_code": int(exit_of(result.stop)), **as_dict(result)})
    else:
        typer.echo(summary)


def _tell_how_to_go_on(result: Result, folder: Path, as_json: bool) -> None:
    from tbq.cli import status

    if not as_json:
        files = f"In {folder}: summary.txt, samples.csv, {RESULT}, journal.jsonl, {CASE}."
        typer.echo(f"\n{files}\n`tbq report {folder}` makes a page of it with pictures.")
    if result.stop is Stop.PAUSED:
        repaired = f"When that is repaired, `tbq resume {folder}` goes on."
        typer.echo(f"Paused: {brief(result.outage)}\n{repaired}", err=True)
    elif hint := status.look(folder).afterwards(result.stop):
        typer.echo(hint.strip(), err=True)


@contextmanager
def _interruptible(folder: Path) -> Iterator[None]:
    """On Ctrl-C, SIGTERM or a closed terminal: programs and workers are ended, and the way to go on is told.

    What somebody has us ignore, as nohup does with a closed terminal, stays ignored.
    """

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signals = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    heeded = [number for number in signals if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield
    except KeyboardInterrupt as error:
        typer.echo(f"\nInterrupted. All finished runs are safe; `tbq resume {folder}` goes on.", err=True)
        raise typer.Exit(Exit.INTERRUPTED) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


looking.register(app)
using.register(app)
telling.register(app)


@app.command("problems")
def list_problems(as_json: Json = False) -> None:
    """List the benchmark problems with their evidences; those that were sampled have an error."""
    from tbq import problems

    found = {name: problems.get(name) for name in problems.names()}
    if as_json:
        answer(
            {
                name: {
                    "title": p.title,
                    "parameters": list(p.prior.names),
                    "log_evidence": p.reference.log_evidence,
                    "log_evidence_sd": p.reference.log_evidence_sd,
                }
                for name, p in found.items()
            }
        )
        return
    table = Table("problem", "parameters", "evidence", "what it is")
    for name, problem in found.items():
        sd = problem.reference.log_evidence_sd
        evidence = f"{problem.reference.evidence:.6g}" + (f" ± {100 * sd:.1f} %" if sd else "")
        table.add_row(name, str(problem.prior.dim), evidence, problem.title)
    Console().print(table)


app.add_typer(bench_app, name="bench")
