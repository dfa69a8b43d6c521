"""A finite-element model on a process pool: cooling of a battery module, thirteen parameters, two runs at a time.

Needs scikit-fem: pip install 'tbq[fem,plot]'. Takes a minute or two. Run: python examples/battery.py

Every run is in the journal in demo/battery: interrupted, the same command goes on where it was.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from pathlib import Path

import tbq
from tbq.problems import battery
from tbq.report import plots

PROCESSES = 2
INFLUENTIAL = ("q_normal", "q_faulty", "h")


def pool() -> ProcessPoolExecutor:
    """Made anew should a worker die and take the pool with it."""
    return ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn"))


def main(folder: str = "demo", max_evaluations: int | None = None) -> tbq.Result:
    problem = tbq.problems.get("battery")
    result = tbq.infer(
        problem.log_likelihood,
        problem.prior,
        executor=pool,
        batch_size=PROCESSES,
        max_evaluations=max_evaluations,
        journal=f"{folder}/battery",
        seed=1,
    )
    error = result.evidence / problem.reference.evidence - 1.0
    print(f"{result.summary()}\n\nreference evidence {problem.reference.evidence:.3e}: we are {100 * error:+.1f} % off")
    out = Path(folder)
    out.mkdir(exist_ok=True)
    draw(result, out)
    print(f"\nPictures are in {out}/battery_marginals.png and {out}/battery_pairs.png")
    return result


def draw(result: tbq.Result, out: Path) -> None:
    """Every marginal, and the pairs of the three parameters that the measurements say something about."""
    prior, draws = result.prior, result.sample(20_000, seed=0)
    truth = dict(zip(prior.names, battery.TRUE, strict=True))
    figure, axes = plots.pyplot().subplots(3, 5, figsize=(15, 7), layout="constrained")
    for axis, name in zip(axes.flat, prior.names, strict=False):
        plots.marginal(prior, draws, name, axis, truth=truth[name])
    for axis in axes.flat[prior.dim :]:
        axis.set_axis_off()
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="lower right", frameon=False, fontsize=12)
    figure.savefig(out / "battery_marginals.png", dpi=80)

    figure, axes = plots.pyplot().subplots(1, 3, figsize=(13, 4), layout="constrained")
    for axis, (a, b) in zip(axes, combinations(INFLUENTIAL, 2), strict=True):
        plots.pair(prior, draws, (a, b), axis, truth=(truth[a], truth[b]))
    figure.savefig(out / "battery_pairs.png", dpi=80)


if __name__ == "__main__":
    main()
