"""The main job on a built-in problem: posterior and evidence, a summary and a picture. `make demo` runs it."""

import sys
import time
from pathlib import Path

import tbq
from tbq.report import plots


def main(name: str = "u3", folder: str = "demo") -> tbq.Result:
    problem = tbq.problems.get(name)
    print(f"Problem {name}: {problem.title}, {problem.prior.dim} parameters.\n")
    start = time.perf_counter()
    result = tbq.infer(problem.log_likelihood, problem.prior, seed=1)
    seconds = time.perf_counter() - start
    error = result.evidence / problem.reference.evidence - 1.0
    report = f"{result.summary()}\n\nexact evidence {problem.reference.evidence:.4e}: we are {100 * error:+.1f} % off"
    print(f"{report}\ntime           {seconds:.1f} s")

    out = Path(folder)
    out.mkdir(exist_ok=True)
    (out / f"{name}.txt").write_text(report + "\n")
    figure, axes = plots.pyplot().subplots(1, 3, figsize=(14, 4), layout="constrained")
    plots.exact_density(problem, axes[0])
    plots.posterior_density(result, axes[1])
    plots.density_error(result, axes[2])
    figure.savefig(out / f"{name}.png", dpi=110)
    print(f"\nPicture and summary are in {out / name}.png and {out / name}.txt")
    return result


if __name__ == "__main__":
    main(*sys.argv[1:2])
