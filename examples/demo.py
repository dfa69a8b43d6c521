"""The main job on a built-in problem: posterior, evidence, a picture and a report. `make demo` runs it."""

import sys
import time
from pathlib import Path

import tbq
from tbq.report import plots, style


def main(name: str = "u3", folder: str = "demo") -> tbq.Result:
    problem = tbq.problems.get(name)
    print(f"Problem {name}: {problem.title}, {problem.prior.dim} parameters.\n")
    start = time.perf_counter()
    result = tbq.infer(problem.log_likelihood, problem.prior, seed=1)
    seconds = time.perf_counter() - start
    error = result.evidence / problem.reference.evidence - 1.0
    text = f"{result.summary()}\n\nexact evidence {problem.reference.evidence:.4e}: we are {100 * error:+.1f} % off"
    print(f"{text}\ntime           {seconds:.1f} s")

    out = Path(folder)
    out.mkdir(exist_ok=True)
    (out / f"{name}.txt").write_text(text + "\n")
    with style.look():
        figure = beside_exact(problem, result) if problem.prior.dim == 2 else plots.pairs(result)
        figure.savefig(out / f"{name}.png", dpi=110)
    result.report(out / f"{name}.html", title=problem.title)
    print(f"\nPicture, report and summary are in {out / name}.png, .html and .txt")
    return result


def beside_exact(problem: tbq.problems.Problem, result: tbq.Result) -> style.Figure:
    """The exact posterior of two parameters, what was found with how many runs, and the evidence closing in."""
    figure, (exact, found, evidence) = plots.pyplot().subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    plots.exact_density(problem, exact)
    plots.contours(result, found)
    found.set(xlim=exact.get_xlim(), ylim=exact.get_ylim())
    found.set_title(f"{result.n_evaluations} runs: regions of 50 and 90 %, evidence {result.evidence:.4g}")
    plots.convergence(result, evidence)
    evidence.axhline(problem.reference.log_evidence, color=style.VERMILION, lw=1, ls=":", label="exact")
    evidence.legend()
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:2])
