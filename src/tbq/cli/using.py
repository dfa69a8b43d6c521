"""Commands that use what runs found: ``tbq compare``, ``predict``, ``verify`` and ``export``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from tbq.cli.folder import Folder as RunFolder
from tbq.cli.speaking import Folder, Json, answer, plain, spoken
from tbq.common.errors import ArgumentError, TbqError
from tbq.common.words import printable
from tbq.result.result import Result

Seed = Annotated[int | None, typer.Option(min=0, help="Makes the draws repeatable.", show_default=False)]


def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs of two or more models.", show_default=False)],
    assume_normalized: Annotated[
        bool,
        typer.Option("--assume-normalized", help="Log-likelihoods that models return themselves lack no factor."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare models of the same data by their evidences; each is the folder of its run, finished or not."""
    from tbq.result.compare import compare as compare_results

    with spoken("compare"):
        results = {name: RunFolder(folder).result() for name, folder in _names(folders).items()}
        found = compare_results(results, assume_normalized=assume_normalized)
        if not as_json:
            typer.echo(printable(found.summary()))
            return
        low, high = found.probability_interval()
        models = {
            name: {
                "log_evidence": result.log_evidence,
                "log_evidence_sd": result.log_evidence_sd,
                "converged": result.converged,
                "probability": found.probabilities[i],
                "probability_90": [low[i], high[i]],
            }
            for i, (name, result) in enumerate(found.results.items())
        }
        verdicts = [found.verdict(found.names[0], other) for other in found.names[1:]]
        answer({"models": models, "verdicts": verdicts, "note": found.note})


def predict(
    folder: Folder,
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Posterior draws at which the model is run.")] = 100,
    csv: Annotated[
        Path | None, typer.Option(help="File for the draws, a column per output.", show_default=False)
    ] = None,
    seed: Seed = None,
    without_discrepancy: Annotated[
        bool, typer.Option("--no-discrepancy", help="Without what the data say that the model lacks.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run the model at posterior draws: what would be measured, with the noise of the data where there are any."""
    from tbq.result.export import write_csv

    with spoken(folder):
        result, model, executor = _with_model(folder)
        own = None if result.likelihood else model
        found = result.predict(own, n, executor=executor, seed=seed, discrepancy=not without_discrepancy)
        if csv is not None:
            write_csv(csv, found.names, found.draws)
        if as_json:
            quantiles = found.quantile([0.05, 0.5, 0.95])
            rows = zip(found.names, found.mean, found.sd, *quantiles, strict=True)
            heads = ("mean", "sd", "q05", "median", "q95")
            outputs = {name: dict(zip(heads, numbers, strict=True)) for name, *numbers in rows}
            answer({"outputs": outputs, "draws": len(found.draws), "failed": len(found.failures), "noise": found.noise})
        else:
            typer.echo(printable(found.summary()) + (f"\nThe draws are in {csv}" if csv else ""))


def verify(
    folder: Folder,
    n: Annotated[int, typer.Option("--n", "-n", min=2, help="True runs at fresh posterior draws.")] = 20,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Spend true runs on posterior draws, to check and correct what a run found."""
    with spoken(folder):
        result, model, executor = _with_model(folder)
        found = result.verify(n, None if result.likelihood else model, executor=executor, seed=seed)
        if as_json:
            names = ("log_evidence", "log_evidence_sd", "before", "agrees", "effective_sample_size", "sentence")
            answer({name: getattr(found, name) for name in names})
        else:
            typer.echo(printable(found.sentence))


def export(
    folder: Folder,
    csv: Annotated[Path | None, typer.Option(help="Posterior draws and their log density.", show_default=False)] = None,
    netcdf: Annotated[
        Path | None, typer.Option(help="Draws, prior and data for ArviZ and xarray.", show_default=False)
    ] = None,
    to_json: Annotated[
        Path | None, typer.Option("--json", help="Numbers and findings; '-' prints them.", show_default=False)
    ] = None,
    runs: Annotated[Path | None, typer.Option(help="Every run, as CSV.", show_default=False)] = None,
) -> None:
    """Write what a run found, or knows so far, for other programs. Each option takes a file."""
    from tbq.report.summary import as_dict
    from tbq.result import export as formats

    with spoken(folder):
        if not any((csv, netcdf, to_json, runs)):
            raise ArgumentError("nothing to write: give --csv FILE, --netcdf FILE, --json FILE or --runs FILE")
        result = RunFolder(folder).result()
        if csv is not None:
            formats.to_csv(result, csv)
        if netcdf is not None:
            formats.to_netcdf(result, netcdf)
        if runs is not None:
            formats.runs_to_csv(result, runs)
        if to_json is not None and str(to_json) == "-":
            answer(as_dict(result))
        elif to_json is not None:
            to_json.write_text(json.dumps(plain(as_dict(result)), indent=2, ensure_ascii=False), encoding="utf-8")
        for path in (csv, netcdf, runs, to_json):
            if path is not None and str(path) != "-":
                typer.echo(str(path), err=str(to_json) == "-")


def _names(folders: list[Path]) -> dict[str, Path]:
    """A model is called as its folder; by its whole path where two are called alike."""
    names = [RunFolder(folder).name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    if len(set(names)) < len(names) or len(names) < 2:
        raise ArgumentError("give the folders of two or more runs, each once")
    return dict(zip(names, folders, strict=True))


def _with_model(folder: Path) -> tuple[Result, Callable[[Any], Any], Any]:
    """The result of a folder, its model, and the executor that its case asks for."""
    run = RunFolder(folder)
    result = run.result()
    if run.case is None:
        raise TbqError("there is no case file here that names the model; in Python: tbq.load(folder).predict(model)")
    return result, run.case.simulator(folder.resolve() / "work"), run.case.arguments().get("executor")


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (compare, predict, verify, export):
        app.command(command.__name__)(command)
