"""The command line."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tbq.common.errors import TbqError, Transient
from tbq.common.words import printable

if TYPE_CHECKING:
    from tbq.cli import casefile

app = typer.Typer(
    help="Posterior and model evidence of an expensive simulator.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
bench_app = typer.Typer(help="Benchmarks.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")


CaseFile = Annotated[Path, typer.Argument(help="The case file.", show_default=False)]
Folder = Annotated[Path, typer.Argument(help="The folder of the run.", show_default=False)]
CASE = "case.toml"
_PAUSED = 75  # exit code of a run that is to be tried again later, as sendmail and schedulers have it (EX_TEMPFAIL)


@app.command("check")
def check_case(case_file: CaseFile) -> None:
    """Check a case: run the model once, at the prior mean, and say what was seen."""
    from tbq.cli import casefile
    from tbq.cli.precheck import examine

    with _spoken(case_file):
        case = casefile.load(case_file)
        for line in examine(case):
            typer.echo(line)
    typer.echo(f"Nothing wrong was seen. `tbq run {case_file}` starts the run.")


@app.command("run")
def run_case(
    case_file: CaseFile,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; runs/NAME for NAME.toml when not given.", show_default=False)
    ] = None,
) -> None:
    """Run a case. Its folder gets the case with every choice made, the journal, and what was found."""
    from tbq.cli import casefile
    from tbq.common.randomness import fresh_seed
    from tbq.run import journal

    folder = out or Path("runs") / case_file.stem
    with _spoken(case_file):
        case = casefile.load(case_file)
        if (folder / journal.FILE).exists():
            raise TbqError(f"{folder} has a run already; `tbq resume {folder}` goes on with it, --out chooses another")
        _infer(case.resolved(fresh_seed() if case.run.seed is None else case.run.seed), folder)


@app.command("resume")
def resume(
    folder: Folder,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Forget the runs that failed, and make them again.")
    ] = False,
) -> None:
    """Go on with a run that was interrupted or paused. No finished evaluation is made again."""
    from tbq.cli import casefile
    from tbq.run import journal

    with _spoken(folder):
        if not (folder / CASE).exists():
            raise TbqError(f"there is no {CASE} here; give the folder of a run that `tbq run` began")
        if not (folder / journal.FILE).exists():
            raise TbqError(f"nothing was begun here; `tbq run {folder / CASE} --out {folder}` begins")
        _infer(casefile.load(folder / CASE), folder, retry_failed=retry_failed)


@app.command("status")
def show_status(
    folder: Folder,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it until the run ends.")] = False,
) -> None:
    """Show how a run is doing, from any terminal."""
    from tbq.cli import status

    with _spoken(folder):
        if not watch:
            typer.echo("\n".join(status.lines(folder)))
        elif not sys.stdout.isatty():
            for account in status.follow(folder):
                typer.echo("\n".join(account) + "\n")
        else:
            with Live(auto_refresh=False) as live:
                for account in status.follow(folder):
                    live.update(Text("\n".join(account)), refresh=True)


@app.command("report")
def make_report(
    folder: Folder,
    out: Annotated[
        Path | None, typer.Option(help="The file; html.html in the folder when not given.", show_default=False)
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on writing it until the run ends.")] = False,
) -> None:
    """Write what a run found, or knows so far, to one HTML file."""
    from tbq.cli import live
    from tbq.report.page import replace

    path = out or folder / live.FILE
    with _spoken(folder):
        for page, goes_on in live.of_folder(folder):
            replace(path, page)
            typer.echo(f"{path}{' so far; the run goes on' if goes_on else ''}")
            if not watch:
                break


def _infer(case: casefile.Case, folder: Path, **changed: Any) -> None:
    """Run a resolved case, or go on with it, and leave what it finds in its folder."""
    from tbq.cli.precheck import ready
    from tbq.engine.records import Stop
    from tbq.result.export import write_csv
    from tbq.run import journal
    from tbq.run.infer import infer

    prior, simulator = case.prior(), case.simulator(folder.resolve() / "work")
    log_likelihood = case.log_likelihood(simulator)
    ready(simulator, prior.dim)
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
    (folder / "summary.txt").write_text(summary + "\n", encoding="utf-8")
    write_csv(folder / "samples.csv", prior.names, result.samples)
    with suppress(OSError, ValueError):  # the model may have closed what we would print to
        typer.echo(summary)
        typer.echo(f"\nSummary, posterior samples, journal and the resolved case are in {folder}")
    if result.stop is Stop.PAUSED:
        with suppress(OSError, ValueError):
            seen = printable(result.outage)
            typer.echo(f"Paused: {seen}\nWhen that is repaired, `tbq resume {folder}` goes on.", err=True)
        raise typer.Exit(_PAUSED)


@contextmanager
def _spoken(subject: Path) -> Iterator[None]:
    """Say what is wrong in words, not in a traceback."""
    try:
        yield
    except TbqError as error:
        first, *others = printable(str(error)).splitlines() or [""]
        typer.echo("\n  ".join([f"{subject}: {first}" if not others else f"{subject}:\n  {first}", *others]), err=True)
        raise typer.Exit(_PAUSED if isinstance(error, Transient) else 1) from error


@contextmanager
def _interruptible(folder: Path) -> Iterator[None]:
    """On Ctrl-C, SIGTERM or a closed terminal: programs and workers are ended, and the way to go on is told."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    signals = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    except KeyboardInterrupt as error:
        typer.echo(f"\nInterrupted. All finished runs are safe; `tbq resume {folder}` goes on.", err=True)
        raise typer.Exit(130) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@app.command("problems")
def list_problems() -> None:
    """List the benchmark problems with their evidences; those that were sampled have an error."""
    from tbq import problems

    table = Table("problem", "parameters", "evidence", "what it is")
    for name in problems.names():
        problem = problems.get(name)
        sd = problem.reference.log_evidence_sd
        evidence = f"{problem.reference.evidence:.6g}" + (f" ± {100 * sd:.1f} %" if sd else "")
        table.add_row(name, str(problem.prior.dim), evidence, problem.title)
    Console().print(table)


@bench_app.command("paper")
def bench_paper(
    table: Annotated[str | None, typer.Option(help="One of the paper's tables, such as Result2D_TBQ.")] = None,
    problem: Annotated[str | None, typer.Option(help="One problem, such as u3.")] = None,
    acquisition: Annotated[str | None, typer.Option(help="One of puq, pvc, plur, peur, interval.")] = None,
    settings: Annotated[str, typer.Option(help="'paper', 'default' or 'both'.")] = "both",
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each row.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the first run; the others follow.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder of the runs and tables.")] = Path("docs/benchmarks"),
) -> None:
    """Run the experiments of the paper and print its figures beside ours. Picks up where it stopped."""
    from tbq.bench import paper

    try:
        wanted = paper.cases(table, problem, acquisition, paper.SETTINGS if settings == "both" else (settings,))
    except TbqError as error:
        raise typer.BadParameter(str(error)) from error
    if not wanted:
        raise typer.BadParameter("no row of the paper fits these filters")
    with _progress(len(wanted) * repeats) as report:
        runs = paper.study(wanted, range(seed, seed + repeats), jobs, out, report)
    for name in dict.fromkeys(r.table for r in runs):
        _print_table(name, paper.COLUMNS, paper.table_rows(name, runs))
    print(f"Runs and tables are in {out}")


@bench_app.command("calibration")
def bench_calibration(
    problem: Annotated[list[str] | None, typer.Option(help="Only this problem; may be repeated.")] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs of each problem; 20 in 2-D and 10 above if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first run; the others follow.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder of the runs and tables.")] = Path("docs/benchmarks"),
) -> None:
    """Run the default on every problem over many seeds: calls, errors, and whether stated errors can be believed."""
    from tbq import problems
    from tbq.bench import calibration

    # the distance to the exact posterior takes thousands of runs: not of the battery, unless it is asked for
    names = problem or sorted(set(problems.names()) - {"battery", *problems.real_names()})
    _check_known(names, problems.names())

    def seeds(name: str) -> range:
        return range(seed, seed + (runs or calibration.repeats(name)))

    with _progress(sum(len(seeds(n)) for n in names)) as report:
        finished = calibration.study(names, seeds, jobs, out, report)
    _print_table("calibration", calibration.COLUMNS, calibration.table_rows(finished))
    print(f"Runs and tables are in {out}")


@bench_app.command("real")
def bench_real(
    problem: Annotated[list[str] | None, typer.Option(help="Only this problem; may be repeated.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each problem.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the first run; the others follow.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder of the runs and tables.")] = Path("docs/benchmarks"),
) -> None:
    """Run the default on real posteriors under wide priors: errors at the end, and when it is stopped early."""
    from tbq import problems
    from tbq.bench import real

    names = problem or problems.real_names()
    _check_known(names, problems.real_names())
    with _progress(len(names) * runs) as report:
        finished = real.study(names, range(seed, seed + runs), jobs, out, report)
    _print_table("real posteriors", real.COLUMNS, real.table_rows(finished))
    _print_table("share of 90 % intervals that cover", real.BUDGET_COLUMNS, real.budget_rows(finished))
    print(f"Runs and tables are in {out}")


@bench_app.command("overhead")
def bench_overhead(
    dimensions: Annotated[list[int] | None, typer.Option(min=1, help="Parameters; may be repeated.")] = None,
    points: Annotated[list[int] | None, typer.Option(min=20, help="Runs so far; may be repeated.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the measurements and tables.")] = Path("docs/benchmarks"),
) -> None:
    """Measure our own time and memory per run, how they grow, and acquisitions at the paper's size."""
    from tbq.bench import overhead

    wanted = overhead.tasks(dimensions or overhead.DIMENSIONS, points or overhead.POINTS)
    with _progress(len(wanted)) as report:
        rows, acquisitions = overhead.study(wanted, out, report)
    _print_table("seconds of processor time", overhead.COLUMNS, overhead.table_rows(rows))
    _print_table("exponents of growth", overhead.EXPONENT_COLUMNS, overhead.exponent_rows(rows))
    _print_table("acquisitions at the paper's size", overhead.PAPER_COLUMNS, overhead.paper_table_rows(acquisitions))
    print(f"Measurements and tables are in {out}")


def _check_known(names: Sequence[str], known: Sequence[str]) -> None:
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise typer.BadParameter(f"there is no problem {unknown[0]!r}; there are {', '.join(known)}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("runs", total=total)
        yield lambda n: progress.update(task, completed=n)


def _print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(*columns, title=title, box=SIMPLE)
    for row in rows:
        table.add_row(*row)
    Console(width=max(Console().width, 150)).print(table)
