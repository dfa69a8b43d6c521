"""The command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tbq.errors import TbqError

app = typer.Typer(help="Posterior and model evidence of an expensive simulator.", no_args_is_help=True)
bench_app = typer.Typer(help="Benchmarks.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")


@app.command("problems")
def list_problems() -> None:
    """List the benchmark problems with their exact evidences."""
    from tbq import problems

    table = Table("problem", "parameters", "evidence", "what it is")
    for name in problems.names():
        problem = problems.get(name)
        table.add_row(name, str(problem.prior.dim), f"{problem.reference.evidence:.6g}", problem.title)
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
    from tbq import bench

    try:
        wanted = bench.cases(table, problem, acquisition, bench.SETTINGS if settings == "both" else (settings,))
    except TbqError as error:
        raise typer.BadParameter(str(error)) from error
    if not wanted:
        raise typer.BadParameter("no row of the paper fits these filters")
    with _progress(len(wanted) * repeats) as report:
        runs = bench.study(wanted, range(seed, seed + repeats), jobs, out, report)
    for name in dict.fromkeys(r.table for r in runs):
        _print_table(name, bench.COLUMNS, bench.table_rows(name, runs))
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
    from tbq import calibration, problems

    # the distance to the exact posterior takes thousands of runs: not of the battery, unless it is asked for
    names = problem or [name for name in problems.names() if name != "battery"]
    unknown = sorted(set(names) - set(problems.names()))
    if unknown:
        raise typer.BadParameter(f"there is no problem {unknown[0]!r}; there are {', '.join(problems.names())}")

    def seeds(name: str) -> range:
        return range(seed, seed + (runs or calibration.repeats(name)))

    with _progress(sum(len(seeds(n)) for n in names)) as report:
        finished = calibration.study(names, seeds, jobs, out, report)
    _print_table("calibration", calibration.COLUMNS, calibration.table_rows(finished))
    print(f"Runs and tables are in {out}")


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
