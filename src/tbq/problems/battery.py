"""Twenty battery cells cooled from below (the paper's Section 5.4): a transient finite-element model, 13 parameters.

The paper's model is a commercial toolbox's; this one has the same geometry, heat and cooling, on scikit-fem (the
``fem`` extra). Cells stand along x, through their plane; z points up. All starts at the ambient, so that the rise above
it does not depend on it: one solve serves both measurements.

``model``, ``OBSERVED`` and ``NOISE`` are the simulator, its data and their standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy import stats
from scipy.sparse.linalg import splu

from tbq.common.errors import MissingDependencyError
from tbq.common.types import Array, BoolArray, IntArray
from tbq.problem.likelihood import GaussianLikelihood
from tbq.problem.prior import Prior
from tbq.problems.base import Problem, Reference

Sparse = Any  # scipy's sparse matrices have no common public type

# name: true value, lowest, highest (the paper's table Betteryparameter; W, m, K, kg, J)
PARAMETERS = {
    "k_in_plane": (80.0, 80.0, 90.0),
    "k_through": (2.0, 1.5, 2.2),
    "k_tab": (386.0, 360.0, 400.0),
    "k_connector": (400.0, 380.0, 410.0),
    "rho_cell": (780.0, 760.0, 800.0),
    "rho_tab": (2700.0, 2500.0, 3100.0),
    "rho_connector": (540.0, 520.0, 550.0),
    "c_cell": (785.0, 750.0, 820.0),
    "c_tab": (890.0, 850.0, 920.0),
    "c_connector": (840.0, 820.0, 880.0),
    "q_normal": (15.0, 14.0, 25.0),
    "q_faulty": (25.0, 20.0, 28.0),
    "h": (100.0, 80.0, 102.0),
}
UNITS = {"k": "W/(m K)", "rho": "kg/m³", "c": "J/(kg K)", "q": "W", "h": "W/(m² K)"}  # by how names begin
TRUE = np.array([true for true, _, _ in PARAMETERS.values()])
AMBIENT = np.array([293.0, 308.0])  # K
OBSERVED = np.array([367.56, 363.55, 382.93, 378.53])  # K: top and bottom of cell 10 at each ambient, after two hours
NOISE = 1.0  # K
TWO_HOURS = 7200.0

CELLS, FAULTY = 20, 9  # the tenth cell, counted from 0
WIDTH, DEPTH, HEIGHT = 15.0, 150.0, 100.0  # mm, of a cell's body along x, y, z
_TAB_TOP = 105.0  # mm; the connectors lie on the tabs
_END_CONVECTION = 15.0  # W/(m²K), on the front face of the first and the back face of the last cell


def battery() -> Problem:
    """Temperatures at the top and bottom of the faulty cell at two ambients; the likelihood is normalised.

    The evidence is that of the mesh used here, by quadrature (benchmarks/battery_mesh.py). A converged mesh has
    2.314e-4 by the same rule, and 2.31e-4 by Monte Carlo on a reduced basis.
    """
    units = {name: UNITS[name.partition("_")[0]] for name in PARAMETERS}
    marginals = {name: stats.uniform(low, high - low) for name, (_, low, high) in PARAMETERS.items()}
    prior = Prior(marginals, units=units)
    title = "cooling of a battery module, finite elements"
    names = ("top, first ambient", "bottom, first ambient", "top, second ambient", "bottom, second ambient")
    likelihood = GaussianLikelihood(model, OBSERVED, NOISE, names=names, units="K")
    return Problem("battery", title, prior, likelihood, Reference(float(np.log(2.336e-04))))


def model(theta: Array) -> Array:
    """Temperatures in K after two hours: top and bottom of cell 10 at the first ambient, then at the second."""
    theta = np.asarray(theta, dtype=float)
    if theta.ndim > 1:
        return np.array([model(row) for row in theta])
    return (AMBIENT[:, None] + rise(theta, TWO_HOURS)).ravel()


def coarse_model(theta: Array) -> Array:
    """The same by linear elements on fewer lines and two modes of decay: a hundred times faster, 0.75 K too cold."""
    theta = np.asarray(theta, dtype=float)
    if theta.ndim > 1:
        return np.array([coarse_model(row) for row in theta])
    discrete = discretize(X_LINES, COARSE_Y_LINES, COARSE_Z_LINES, linear=True)
    return (AMBIENT[:, None] + rise(theta, TWO_HOURS, discrete, modes=2)).ravel()


def rise(
    theta: Array, seconds: float | Sequence[float], discrete: Discretization | None = None, modes: int = 12
) -> Array:
    """Rise above the ambient in K at the top and the bottom centre of cell 10; shape (..., 2) for times (...).

    Twelve modes leave 1e-4 K after a minute, 1e-7 K after ten.
    """
    discrete = discretize() if discrete is None else discrete
    stiffness = _sum(discrete.stiffness, (*theta[:4], theta[12], _END_CONVECTION))
    symmetric = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    solve = splu(stiffness.tocsc(), **symmetric).solve
    steady = solve(theta[10:12] @ discrete.load)
    slow, rates = _slow_modes(solve, _sum(discrete.mass, theta[4:7] * theta[7:10]), steady, modes)
    return steady[discrete.sensors] - np.exp(-np.multiply.outer(seconds, rates)) @ slow[:, discrete.sensors]


def _sum(matrices: tuple[Sparse, ...], factors: Sequence[float] | Array) -> Sparse:
    return sum(factor * matrix for factor, matrix in zip(factors, matrices, strict=True))


def _slow_modes(solve: Callable[[Array], Array], mass: Sparse, start: Array, most: int) -> tuple[Array, Array]:
    """Modes (rows) that sum to ``start`` and their rates of decay under M ẋ = −K x.

    Lanczos with K⁻¹M finds the slowest first, which are what is left after minutes, from the one factorisation of K.
    """
    basis, projected = np.zeros((most, len(start))), np.zeros((most, most))
    weighted = np.zeros_like(basis)  # basis times the mass: rows of the two are orthonormal to each other
    vector, size = start, most
    for i in range(most):
        image = mass @ vector
        norm = np.sqrt(vector @ image)
        if i and norm < 1e-10 * projected[0, 0]:  # the basis is complete: what is left is rounding
            size = i
            break
        basis[i], weighted[i] = vector / norm, image / norm
        vector = solve(weighted[i])
        projected[i] = weighted @ vector
        vector = vector - projected[i] @ basis
        vector -= (weighted @ vector) @ basis  # once more, against rounding
    times, rotation = np.linalg.eigh(projected[:size, :size])
    amount = np.sqrt(start @ (mass @ start)) * rotation[0]
    return amount[:, None] * (rotation.T @ basis[:size]), 1.0 / times


@dataclass(frozen=True)
class Discretization:
    """What does not depend on the parameters: matrices per unit of each coefficient."""

    stiffness: tuple[Sparse, ...]  # cells in plane, cells through plane, tabs, connectors, bottom faces, end faces
    mass: tuple[Sparse, ...]  # cells, tabs, connectors
    load: Array  # (2, n): per watt in every normal cell, in the faulty one
    sensors: IntArray  # unknowns at the top and at the bottom centre of cell 10


Lines = tuple[float, ...]
X_LINES: Lines = (0.0, 2.5, 7.5, 12.5, 15.0)  # mm, of each cell
Y_LINES: Lines = (0.0, 7.5, 22.5, 45.0, 75.0, 105.0, 127.5, 142.5, 150.0)
Z_LINES: Lines = (0.0, 50.0, 90.0, 100.0, 105.0, 108.0)
COARSE_Y_LINES: Lines = (0.0, 7.5, 22.5, 75.0, 127.5, 142.5, 150.0)
COARSE_Z_LINES: Lines = (0.0, 100.0, 105.0, 108.0)


@cache
def discretize(x: Lines = X_LINES, y: Lines = Y_LINES, z: Lines = Z_LINES, *, linear: bool = False) -> Discretization:
    """Quadratic or linear hexahedra between grid lines in mm, which must hold the edges of parts and cells' centres.

    The default lines leave an error below 0.1 K. Assembled once per process.
    """
    fem = _scikit_fem()
    box = fem.MeshHex.init_tensor(np.unique(np.add.outer(WIDTH * np.arange(CELLS), x)), np.array(y), np.array(z))
    mesh = box.restrict(np.flatnonzero(np.any(_parts(box), axis=0)))
    cells, tabs, connectors = _parts(mesh)
    faulty = cells & (_centres(mesh)[0] // WIDTH == FAULTY)
    bottoms = mesh.facets_satisfying(lambda p: p[2] == 0.0)
    ends = mesh.facets_satisfying(lambda p: ((p[0] == 0.0) | (p[0] == CELLS * WIDTH)) & (p[2] < HEIGHT))

    metres, element = mesh.scaled(1e-3), fem.ElementHex1() if linear else fem.ElementHex2()
    order = 2 if linear else 4  # exact for products of them

    def volume(part: BoolArray) -> Any:
        return fem.Basis(metres, element, elements=np.flatnonzero(part), intorder=order)

    def surface(facets: IntArray) -> Any:
        return fem.FacetBasis(metres, element, facets=facets, intorder=order)

    cell, tab, connector = volume(cells), volume(tabs), volume(connectors)
    in_plane = fem.BilinearForm(lambda u, v, w: u.grad[1] * v.grad[1] + u.grad[2] * v.grad[2]).assemble
    through = fem.BilinearForm(lambda u, v, w: u.grad[0] * v.grad[0]).assemble
    product = fem.BilinearForm(lambda u, v, w: u * v).assemble
    per_volume = fem.LinearForm(lambda v, w: v / (WIDTH * DEPTH * HEIGHT * 1e-9)).assemble
    return Discretization(
        stiffness=(
            in_plane(cell),
            through(cell),
            in_plane(tab) + through(tab),
            in_plane(connector) + through(connector),
            product(surface(bottoms)),
            product(surface(ends)),
        ),
        mass=(product(cell), product(tab), product(connector)),
        load=np.array([per_volume(volume(cells & ~faulty)), per_volume(volume(faulty))]),
        sensors=cell.nodal_dofs[0, [_vertex(mesh, height) for height in (HEIGHT, 0.0)]],
    )


def _scikit_fem() -> Any:
    try:
        import skfem
    except ImportError as error:
        raise MissingDependencyError("the battery model needs scikit-fem: pip install 'tbq[fem]'") from error
    return skfem


def _parts(mesh: Any) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Which elements are in a cell's body, in a tab, in a connector; those in none are air.

    A connector lies on each tab and reaches one edge of its cell. Neighbours mirror each other, so that connectors meet
    on the left and on the right in turn: the cells are in series.
    """
    x, y, z = _centres(mesh)
    within = x % WIDTH
    mirrored = np.where(x // WIDTH % 2 == 0, within, WIDTH - within)
    left, right = (y > 7.5) & (y < 22.5), (y > 127.5) & (y < 142.5)
    tabs = (left | right) & (within > 2.5) & (within < 12.5) & (z > HEIGHT) & (z < _TAB_TOP)
    connectors = ((left & (mirrored > 2.5)) | (right & (mirrored < 12.5))) & (z > _TAB_TOP)
    return z < HEIGHT, tabs, connectors


def _centres(mesh: Any) -> Array:
    return mesh.p[:, mesh.t].mean(axis=1)


def _vertex(mesh: Any, height: float) -> int:
    """The mesh's vertex on the axis of the faulty cell at that height."""
    place = np.array([WIDTH * (FAULTY + 0.5), DEPTH / 2.0, height])
    return int(np.flatnonzero(np.all(mesh.p == place[:, None], axis=0)).item())
