"""The command line."""

from __future__ import annotations

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
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("runs", total=len(wanted) * repeats)
        runs = bench.study(wanted, range(seed, seed + repeats), jobs, out, lambda n: progress.update(task, completed=n))
    console = Console(width=max(Console().width, 150))
    for name in dict.fromkeys(r.table for r in runs):
        rows = Table(*bench.COLUMNS, title=name, box=SIMPLE)
        for row in bench.table_rows(name, runs):
            rows.add_row(*row)
        console.print(rows)
    print(f"Runs and tables are in {out}")
