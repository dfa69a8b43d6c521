"""Two competing models of a rubber bearing under a load test: is it linear, or does it stiffen?

Both explain the data with an unknown stiffness; the second has one parameter more, which its evidence has to pay for.
The measurements are synthetic. Takes a few seconds. Needs matplotlib: pip install 'tbq[plot]'.
Run: python examples/compare.py
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import tbq
from tbq.report import plots

LOADS = np.array([5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0])  # kN
MEASURED = np.array([2.54, 4.88, 7.53, 9.53, 11.36, 13.66, 15.86, 17.41])  # mm; made with k = 2, c = 0.0012 and noise
NOISE = 0.4  # mm
BEYOND = 60.0  # kN: a load that was never tested
COLOURS = {"linear": "#D55E00", "stiffening": "#0072B2"}


def linear(theta: Any, loads: Any = LOADS) -> Any:
    """Displacement of a spring of k kN/mm."""
    return loads / theta[0]


def stiffening(theta: Any, loads: Any = LOADS) -> Any:
    """Displacement x where k x + c x³ equals the load."""
    k, c = theta
    root = np.sqrt(k / (3.0 * c))
    return 2.0 * root * np.sinh(np.arcsinh(1.5 * loads / (k * root)) / 3.0)


PRIORS = {
    "linear": tbq.Prior({"k": stats.lognorm(0.3, scale=2.2)}, units={"k": "kN/mm"}),
    "stiffening": tbq.Prior(
        {"k": stats.lognorm(0.3, scale=2.2), "c": stats.lognorm(1.0, scale=2e-3)}, units={"k": "kN/mm", "c": "kN/mm³"}
    ),
}
MODELS = {"linear": linear, "stiffening": stiffening}


def main(folder: str = "demo") -> tbq.Comparison:
    results = {
        name: tbq.infer(
            tbq.GaussianLikelihood(model, MEASURED, NOISE, units="mm", coordinates={"load [kN]": LOADS}),
            PRIORS[name],
            seed=0,
        )
        for name, model in MODELS.items()
    }
    comparison = tbq.compare(results)
    print(comparison.summary())

    models = {name: partial(model, loads=BEYOND) for name, model in MODELS.items()}
    prediction = comparison.predict(models, 2000, noise=NOISE, seed=0)
    low, high = prediction.quantile([0.05, 0.95])[:, 0]
    print(
        f"\nAt {BEYOND:.0f} kN both models together expect {prediction.mean[0]:.1f} mm, 90 % {low:.1f} to {high:.1f}."
    )

    out = Path(folder)
    out.mkdir(exist_ok=True)
    draw(comparison, out / "compare.png")
    comparison.report(out / "compare.html", title="Is the bearing linear, or does it stiffen?")
    print(f"\nThe picture is in {out}/compare.png, the report in {out}/compare.html")
    return comparison


def draw(comparison: tbq.Comparison, path: Path) -> None:
    """What each model predicts, within the test and beyond, and which one to believe."""
    figure, axes = plots.pyplot().subplot_mosaic("ab;ac", figsize=(11, 4.5), layout="constrained")
    left = axes["a"]
    loads = np.linspace(1.0, BEYOND, 60)
    for name, result in comparison.results.items():
        found = result.predict(partial(MODELS[name], loads=loads), 500, noise=NOISE, seed=0)
        low, middle, high = found.quantile([0.05, 0.5, 0.95])
        left.fill_between(loads, low, high, color=COLOURS[name], alpha=0.3, lw=0)
        left.plot(loads, middle, color=COLOURS[name], label=f"{name}, 90 %")
    left.errorbar(LOADS, MEASURED, yerr=NOISE, fmt="o", ms=4, color="black", label="measured")
    left.set(xlabel="load [kN]", ylabel="displacement [mm]")
    left.legend(frameon=False)
    comparison.plot([axes["b"], axes["c"]])
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
