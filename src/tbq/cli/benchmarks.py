"""``tbq bench``: the studies behind the tables of the documentation."""

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

from tbq.common.errors import TbqError

bench_app = typer.Typer(help="Benchmarks.", no_args_is_help=True)


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


@bench_app.command("scale")
def bench_scale(
    case: Annotated[list[str] | None, typer.Option(help="Only this case; may be repeated.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each case.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the first run; the others follow.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the runs and tables.")] = Path("docs/benchmarks"),
) -> None:
    """Run the default with many parameters and many outputs: errors against stored references, and our own time."""
    from tbq.bench import scale

    names = case or scale.NAMES
    _check_known(names, scale.NAMES)
    with _progress(len(names) * runs) as report:
        rows = scale.study(names, range(seed, seed + runs), out, report)
    _print_table("many parameters, many outputs", scale.COLUMNS, scale.table_rows(rows))
    print(f"Runs and tables are in {out}")


@bench_app.command("noise")
def bench_noise(
    case: Annotated[list[str] | None, typer.Option(help="Only this case; may be repeated.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each case.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the first run; the others follow.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder of the runs and tables.")] = Path("docs/benchmarks"),
) -> None:
    """Run the default where noise is unknown, correlated or wrong: errors against brute force with the true model."""
    from tbq.bench import noise

    names = case or noise.NAMES
    _check_known(names, noise.NAMES)
    with _progress(len(names) * runs) as report:
        rows = noise.study(names, range(seed, seed + runs), out, report)
    _print_table("noise that is not known", noise.COLUMNS, noise.table_rows(rows))
    print(f"Runs and tables are in {out}")


@bench_app.command("levels")
def bench_levels(
    case: Annotated[list[str] | None, typer.Option(help="Only this case; may be repeated.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each case.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the first run; the others follow.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder of the runs and tables.")] = Path("docs/benchmarks"),
) -> None:
    """Run the default with a coarse model beside the fine one, and without: fine runs, cost, and errors."""
    from tbq.bench import levels

    names = case or levels.NAMES
    _check_known(names, levels.NAMES)
    with _progress(len(names) * runs) as report:
        rows = levels.study(names, range(seed, seed + runs), out, report)
    _print_table("a coarse model beside the fine one", levels.COLUMNS, levels.table_rows(rows))
    print(f"Runs and tables are in {out}")


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
