"""Where the battery's numbers come from: mesh convergence at the true parameters, evidence and posterior by quadrature.

Run: python benchmarks/battery_mesh.py (a few minutes); it writes docs/benchmarks/battery.md and
examples/battery.json, with `reference` behind it the latter alone.
"""

import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
from scipy.interpolate import BarycentricInterpolator

from tbq.common.types import Array
from tbq.problems import battery

LOW, HIGH = np.array(list(battery.PARAMETERS.values()))[:, 1:].T
SHAPE = (0, 1, 12)  # k_in_plane, k_through, h: what bends the rise; it is linear in the heats, and little else moves it
NODES = (2, 3, 5)  # finite-element runs along each; between them the rise per watt is interpolated
SINGULAR = (
    4.0 / 3.0
)  # order of convergence at the edges where tabs stand on cells: twice the exponent 2/3 of a 270° edge


def halved(lines: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(sorted([*lines, *(0.5 * (a + b) for a, b in zip(lines[1:], lines[:-1], strict=True))]))


def meshes() -> dict[str, Array]:
    """(unknowns, top, bottom) at the true parameters after two hours, on the default mesh and finer ones."""
    x, y, z = battery.X_LINES, battery.Y_LINES, battery.Z_LINES
    grids = {
        "default": (x, y, z),
        "x halved": (halved(x), y, z),
        "y halved": (x, halved(y), z),
        "z halved": (x, y, halved(z)),
        "all halved": (halved(x), halved(y), halved(z)),
    }
    rows = {}
    for name, grid in grids.items():
        discrete = battery.discretize.__wrapped__(*grid)
        rows[name] = np.array([discrete.load.shape[1], *battery.rise(battery.TRUE, battery.TWO_HOURS, discrete)])
        print(name, rows[name], flush=True)
    last = rows["all halved"][1:]
    limit = last + (last - rows["default"][1:]) / (2.0**SINGULAR - 1.0)
    return {**rows, "extrapolated": np.array([np.nan, *limit])}


def per_watt() -> Array:
    """Rise after two hours per watt at the nodes: (nodes of each of SHAPE..., heat, sensor)."""
    values = np.empty((*NODES, 2, 2))
    nodes = [gauss(n, LOW[i], HIGH[i])[0] for n, i in zip(NODES, SHAPE, strict=True)]
    for index in product(*map(range, NODES)):
        theta = 0.5 * (LOW + HIGH)
        theta[list(SHAPE)] = [x[i] for x, i in zip(nodes, index, strict=True)]
        for heat, watts in enumerate(np.eye(2)):
            theta[10:12] = watts
            values[(*index, heat)] = battery.rise(theta, battery.TWO_HOURS)
    return values


def evidence(unit: Array, factor: Array) -> float:
    """∫ likelihood × prior, with the rise at the two sensors multiplied by ``factor``."""
    return float(integrals(unit, factor)[0, 0])


def integrals(unit: Array, factor: Array) -> Array:
    """∫ θᵢᵏ × likelihood × prior for k = 0, 1, 2 (rows), of the two heats and h."""
    fine = [gauss(3), gauss(4), gauss(3, panels=20)]
    for axis, (n, (points, _)) in enumerate(zip(NODES, fine, strict=True)):
        unit = BarycentricInterpolator(gauss(n)[0], unit, axis=axis)(points)
    weights = np.einsum("i,j,k->ijk", *(w for _, w in fine)).ravel()
    normal, w_normal = gauss(8, LOW[10], HIGH[10], panels=40)
    faulty, w_faulty = gauss(16, LOW[11], HIGH[11])
    measured = (battery.OBSERVED.reshape(2, 2) - battery.AMBIENT[:, None])[:, None, None]
    total = np.zeros((3, 3))
    bent = np.broadcast_to(LOW[12] + fine[2][0] * (HIGH[12] - LOW[12]), [len(w) for _, w in fine]).ravel()
    powers = np.arange(3)
    for weight, h, (a, b) in zip(weights, bent, factor * unit.reshape(-1, 2, 2), strict=True):
        rise = np.multiply.outer(normal, a)[:, None] + np.multiply.outer(faulty, b)
        misfit = np.sum(((rise - measured) / battery.NOISE) ** 2, axis=(0, -1))
        likelihood = np.exp(-0.5 * misfit)
        over_faulty, over_normal = likelihood @ w_faulty, w_normal @ likelihood
        heats = [(normal[:, None] ** powers).T @ (w_normal * over_faulty)]
        heats.append((faulty[:, None] ** powers).T @ (w_faulty * over_normal))
        total += weight * np.column_stack([*heats, h**powers * heats[0][0]])
    return total / (battery.NOISE * np.sqrt(2.0 * np.pi)) ** 4


def write_reference(unit: Array) -> None:
    """Evidence and moments of the three parameters that the data say something about."""
    zeroth, first, second = integrals(unit, np.ones(2))
    mean = first / zeroth
    sd = np.sqrt(second / zeroth - mean**2)
    names = ("q_normal", "q_faulty", "h")
    found = {"log_evidence": float(np.log(zeroth[0])), "log_evidence_sd": 0.0}
    moments = {key: dict(zip(names, values.tolist(), strict=True)) for key, values in (("mean", mean), ("sd", sd))}
    Path("examples/battery.json").write_text(json.dumps({**found, **moments}, indent=2) + "\n")


def gauss(n: int, low: float = 0.0, high: float = 1.0, panels: int = 1) -> tuple[Array, Array]:
    """Nodes and weights of the mean over an interval."""
    x, w = np.polynomial.legendre.leggauss(n)
    unit = np.concatenate([(panel + 0.5 * (x + 1.0)) / panels for panel in range(panels)])
    return low + unit * (high - low), np.tile(0.5 * w, panels) / panels


def main() -> None:
    unit = per_watt()
    write_reference(unit)
    if sys.argv[1:] == ["reference"]:
        return
    rows = meshes()
    here = evidence(unit, np.ones(2))
    converged = evidence(unit, rows["extrapolated"][1:] / rows["default"][1:])
    lines = [
        "# The battery module",
        "",
        "Made by `python benchmarks/battery_mesh.py`. Rise above the ambient in K, two hours, true parameters:",
        "",
        "| mesh | unknowns | top | bottom |",
        "|---|---|---|---|",
        *(f"| {name} | {_count(n)} | {top:.3f} | {bottom:.3f} |" for name, (n, top, bottom) in rows.items()),
        "",
        "The temperature is singular along the edges where tabs stand on cells: the extrapolation takes halving",
        "all elements to divide the error by 2^(4/3), the order of such edges. Evidence by quadrature:",
        f"{here:.4e} on the default mesh, {converged:.4e} with the rise scaled to the extrapolated one.",
        "",
        "Posterior of a default run, two runs at a time (`examples/battery.py`): marginals, and pairs of the three",
        "parameters that the measurements say something about.",
        "",
        "![Marginal posteriors](../figures/battery_marginals.png)",
        "",
        "![Pairwise posteriors](../figures/battery_pairs.png)",
    ]
    Path("docs/benchmarks/battery.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def _count(n: float) -> str:
    return f"{n:.0f}" if np.isfinite(n) else ""


if __name__ == "__main__":
    main()
