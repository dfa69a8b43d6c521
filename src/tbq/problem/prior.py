"""The prior: named marginals, a Gaussian copula between them, and a constraint on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import linalg, special, stats
from scipy.stats import qmc

from tbq.common import markup
from tbq.common.arguments import generator, whole
from tbq.common.errors import ArgumentError
from tbq.common.types import Array, ArrayLike, BoolArray, Distribution
from tbq.common.words import described, steers
from tbq.problem.coordinates import LEVELS, Axis, choose_axis
from tbq.problem.copula import log_copula, nataf, normal_score, whitening
from tbq.problem.families import describe, together

Method = Literal["random", "lhs", "sobol"]
_FEW_STRATA = 8  # of a Latin hypercube, which then has their middle halves: two whole ones may leave a quarter empty
Seed = int | np.random.Generator | None

_VOLUME_POINTS = 2**16  # Sobol points that measure the constraint's fraction of the prior
_FEWEST_FLOATS = 1e5  # that must lie between a marginal's outer quantiles: differences are taken over 1e-4 of its width
_LEAST_MASS = 1e-3  # of a constraint: below, drawing from the prior takes thousands of tries, and its mass is a guess
_AT_ONCE = 2**20  # points drawn at once
_SHOWN = 8  # parameters that a repr describes
_TAIL = 1e-9  # an unbounded axis is searched between these quantiles


class Prior:
    """Independent or correlated marginals, optionally restricted to a region.

    Parameters
    ----------
    marginals
        Name → ``scipy.stats`` frozen continuous distribution, bounded or not (or pairs of them). The order is
        the order of ``theta``.
    correlation
        Correlation matrix of the parameters. They are joined by a Gaussian copula whose own correlation,
        ``copula``, is solved for so that the parameters have this one (the Nataf model).
    constraint
        Predicate on one ``theta``; the prior is renormalised over the region where it holds, and evidences
        refer to that renormalised prior.
    units
        Name → unit, for tables and pictures.

    Examples
    --------
    >>> tbq.Prior({"k": stats.lognorm(0.5, scale=2.0), "m": stats.uniform(0.0, 3.0)}, units={"k": "N/m"}).labels
    ('k [N/m]', 'm')
    """

    is_computed = False  # whether its density comes out of linear algebra, and has fewer digits

    def __init__(
        self,
        marginals: Mapping[str, Distribution] | Iterable[tuple[str, Distribution]],
        *,
        correlation: ArrayLike | None = None,
        constraint: Callable[[Array], bool] | None = None,
        units: Mapping[str, str] | None = None,
    ) -> None:
        pairs = _pairs(marginals)
        _check_names([name for name, _ in pairs])
        self.marginals = dict(pairs)
        for name, marginal in pairs:
            _check_marginal(name, marginal)
        if constraint is not None and not callable(constraint):
            raise ArgumentError(f"Prior: constraint must be a function of theta; got {type(constraint).__name__}")
        self.constraint = constraint
        self.units = _check_units(units or {}, self.names)
        self.axes = tuple(choose_axis(m) for m in self.marginals.values())
        self.correlation = None if correlation is None else _check_correlation(correlation, self.names)
        self.copula = None if self.correlation is None else nataf(self.correlation, self.marginals)
        self.mixing = None if self.copula is None else whitening(self.copula)
        if constraint is not None and self.constraint_mass < _LEAST_MASS:
            raise ArgumentError(self._too_small())

    def __repr__(self) -> str:
        shown = list(self.marginals.items())[:_SHOWN]
        parts = ", ".join(f"{k}: {describe(m)}" for k, m in shown)
        parts += f", … {self.dim - _SHOWN} more" if self.dim > _SHOWN else ""
        extra = ("" if self.copula is None else ", correlated") + ("" if self.constraint is None else ", constrained")
        return f"Prior({parts}{extra})"

    def _repr_html_(self) -> str:
        """For notebooks: a row for each parameter."""
        quantiles = [(m.mean(), m.std(), *m.ppf([0.05, 0.95])) for m in self.marginals.values()]
        rows = [
            [label, describe(m), *(f"{v:.4g}" for v in numbers)]
            for label, m, numbers in zip(self.labels, self.marginals.values(), quantiles, strict=True)
        ]
        tied = ("" if self.copula is None else "correlated ") + ("" if self.constraint is None else "constrained")
        heads = ["parameter", "distribution", "mean", "sd", "5 %", "95 %"]
        return markup.table(heads, rows) + markup.paragraphs(tied.strip())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.marginals)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names with their units, for pictures."""
        return tuple(f"{n} [{self.units[n]}]" if n in self.units else n for n in self.names)

    @property
    def dim(self) -> int:
        return len(self.marginals)

    @property
    def simulated(self) -> Prior:
        """The prior of the parameters that the simulator sees: the first ones. Those of the noise come after them."""
        return self

    # --- sampling -------------------------------------------------------------------------------------------

    def sample(self, n: int, seed: Seed = None, method: Method = "random", *, rng: Seed = None) -> Array:
        """``n`` draws, shape (n, d): independent, Latin hypercube (``lhs``) or scrambled Sobol points."""
        n, rng = whole("Prior.sample: n", n, 0), generator("Prior.sample", seed, rng)
        if self.constraint is None or n == 0:
            return self.from_uniform(_uniform(n, self.dim, method, rng))
        size = int(1.2 * n / self.constraint_mass) + 8
        kept = np.empty((0, self.dim))
        while len(kept) < n:  # ends: the constraint holds on a measurable fraction of the prior
            whole_design = size <= _AT_ONCE  # beyond, a design so thinned out is no better than random points
            u = _uniform(min(size, _AT_ONCE), self.dim, method if whole_design else "random", rng)
            theta = self.from_uniform(u)
            kept = np.vstack([kept[:0] if whole_design else kept, theta[self._feasible(theta)]])
            size *= 2
        return kept[:n]

    def from_uniform(self, u: Array) -> Array:
        """Map points of the unit cube to parameters, before any constraint."""
        if self.copula is not None:
            u = special.ndtr(special.ndtri(u) @ linalg.cholesky(self.copula, lower=True).T)
        return np.column_stack([m.ppf(u[:, i]) for i, m in enumerate(self.marginals.values())])

    # --- density --------------------------------------------------------------------------------------------

    def log_density(self, theta: ArrayLike) -> Array:
        """Log-density at one θ (a scalar) or at the rows of an array; −inf outside the support."""
        points, single = as_rows(theta, self.dim, "Prior.log_density")
        columns = list(zip(self.marginals.values(), points.T, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.sum([np.sum(f.logpdf(points[:, i]), axis=1) for f, i in self._families], axis=0)
        value[np.isnan(value)] = -np.inf
        inside = np.isfinite(value)
        if self.copula is not None and inside.any():
            normal = np.column_stack([normal_score(m, x[inside]) for m, x in columns])
            value[inside] += log_copula(normal, self.copula)
        if self.constraint is not None and inside.any():
            feasible = inside.copy()
            feasible[inside] = self._feasible(points[inside])
            value = np.where(feasible, value - np.log(self.constraint_mass), -np.inf)
        return value[0] if single else value

    @cached_property
    def _families(self) -> list[tuple[Distribution, list[int]]]:
        """Marginals of one family as one distribution of several columns: SciPy takes as long for one as for thirty."""
        found: dict[Any, list[int]] = {}
        marginals = list(self.marginals.values())
        for i, m in enumerate(marginals):
            of_scipy = type(getattr(stats, m.dist.name, None)) is type(m.dist)
            found.setdefault((m.dist.name, len(m.args), *sorted(m.kwds)) if of_scipy else i, []).append(i)
        return [(together([marginals[i] for i in columns]), columns) for columns in found.values()]

    def contains(self, theta: ArrayLike) -> BoolArray:
        """Whether θ has positive prior density (inside the support, and the constraint holds)."""
        return np.isfinite(self.log_density(theta))

    @cached_property
    def constraint_mass(self) -> float:
        """Share of the unconstrained prior on which the constraint holds."""
        return 1.0 if self.constraint is None else float(self._feasible(self._volume_points).mean())

    @property
    def _volume_points(self) -> Array:
        return self.from_uniform(_uniform(_VOLUME_POINTS, self.dim, "sobol", np.random.default_rng(0)))

    @property
    def constraint_mass_error(self) -> float:
        """Relative standard error of ``constraint_mass``; quasi-random points do better than this."""
        mass = self.constraint_mass
        return float(np.sqrt((1.0 - mass) / (mass * _VOLUME_POINTS)))

    def _too_small(self) -> str:
        """Why the region of the constraint cannot be drawn from, and where it was seen."""
        theta = self._volume_points
        inside = theta[self._feasible(theta)]
        where = "the region is empty or too small; widen it or tighten the marginals"
        if len(inside):
            ranges = zip(self.names, inside.min(axis=0), inside.max(axis=0), strict=True)
            seen = ", ".join(f"{name} from {low:.4g} to {high:.4g}" for name, low, high in ranges)
            where = (
                f"too few to draw from. Tighten the marginals to where it holds, as far as it was seen: {seen}; or "
                "choose parameters by which it always holds, such as differences in the place of an order"
            )
        return f"Prior: constraint holds at {len(inside) or 'none'} of {_VOLUME_POINTS} points of the prior: {where}"

    def _feasible(self, theta: Array) -> BoolArray:
        assert self.constraint is not None
        try:
            return np.array([bool(self.constraint(row)) for row in theta], dtype=bool)
        except Exception as error:
            raise ArgumentError(f"Prior: constraint failed with {described(error)}") from error

    # --- working coordinates --------------------------------------------------------------------------------

    def to_working(self, theta: Array) -> Array:
        """Parameters → working coordinates, row by row."""
        u = np.column_stack([a.forward(theta[:, i]) for i, a in enumerate(self.axes)])
        return u if self.mixing is None else linalg.solve_triangular(self.mixing, u.T, lower=True, check_finite=False).T

    def from_working(self, z: Array) -> Array:
        """Working coordinates → parameters, row by row."""
        u = self._unmixed(z)
        return np.column_stack([a.inverse(u[:, i]) for i, a in enumerate(self.axes)])

    def log_density_working(self, z: Array) -> Array:
        """Log-density of the prior in working coordinates."""
        u = self._unmixed(z)
        slope = np.sum([a.log_slope(u[:, i]) for i, a in enumerate(self.axes)], axis=0)
        if self.mixing is not None:
            slope = slope + np.log(np.diag(self.mixing)).sum()
        return np.asarray(self.log_density(self.from_working(z)) + slope)

    def _unmixed(self, z: Array) -> Array:
        """Coordinates of single parameters, which strongly correlated ones are whitened from."""
        return z if self.mixing is None else z @ self.mixing.T

    @cached_property
    def working_bounds(self) -> tuple[Array, Array]:
        """Box in working coordinates that holds the prior's support, or all but its outermost tails."""
        low = np.array([a.forward(np.array([m.ppf(_TAIL)]))[0] for a, m in self._axes_marginals()])
        high = np.array([a.forward(np.array([m.isf(_TAIL)]))[0] for a, m in self._axes_marginals()])
        if self.mixing is None:
            return low, high
        inverse = linalg.inv(self.mixing)
        up, down = np.maximum(inverse, 0.0), np.minimum(inverse, 0.0)
        return up @ low + down @ high, up @ high + down @ low

    @property
    def unmixed(self) -> Prior:
        """The same prior with a working coordinate for each parameter, however correlated they are."""
        if self.mixing is None:
            return self
        same = copy(self)
        same.mixing = None
        same.__dict__.pop("working_bounds", None)
        return same

    def _axes_marginals(self) -> Iterable[tuple[Axis, Distribution]]:
        return zip(self.axes, self.marginals.values(), strict=True)


def check_prior(prior: Any) -> None:
    """Refuse what is no prior."""
    if not isinstance(prior, Prior):
        raise ArgumentError(f"prior must be a tbq.Prior; got {type(prior).__name__}")


# --- checks -------------------------------------------------------------------------------------------------


def _pairs(marginals: Any) -> list[tuple[str, Distribution]]:
    try:
        return [(name, m) for name, m in (marginals.items() if isinstance(marginals, Mapping) else marginals)]
    except (TypeError, ValueError):
        raise ArgumentError(
            'Prior: marginals must give each parameter a name, as {"a": stats.norm()} does, or be such pairs; '
            f"got {type(marginals).__name__}"
        ) from None


def _check_names(names: list[str]) -> None:
    if not names:
        raise ArgumentError("Prior: at least one parameter is needed; got none")
    for name, times in Counter(names).items():
        if not isinstance(name, str) or not name.strip() or any(map(steers, name)):
            raise ArgumentError(
                f"Prior: a parameter name must be text on one line, without control characters; got {name!r}"
            )
        if times > 1:
            raise ArgumentError(f"Prior: the name {name!r} is used {times} times; names must differ")


def _check_marginal(name: str, marginal: Distribution) -> None:
    family = getattr(marginal, "dist", None)
    if isinstance(family, stats.rv_discrete):
        raise ArgumentError(f"Prior: {name!r} must be continuous; got the discrete distribution {describe(marginal)}")
    if not isinstance(family, stats.rv_continuous):
        hint = " (call it with its parameters to freeze it)" if isinstance(marginal, stats.rv_continuous) else ""
        raise ArgumentError(
            f"Prior: {name!r} must be a scipy.stats frozen distribution such as stats.uniform(0, 1); "
            f"got {type(marginal).__name__} {marginal!r}{hint}"
        )
    arguments = (*marginal.args, *marginal.kwds.values())
    if any(np.ndim(a) > 0 or np.asarray(a).dtype.kind not in "biuf" for a in arguments):
        raise ArgumentError(
            f"Prior: {name!r} must be the distribution of one parameter, made of single numbers; "
            f"got {family.name} of {', '.join(map(repr, arguments))}"
        )
    quantiles = np.asarray(marginal.ppf(LEVELS))
    if not np.all(np.isfinite(quantiles)) or not np.all(np.diff(quantiles) > 0):
        raise ArgumentError(
            f"Prior: {name!r} is degenerate: the quantiles of {describe(marginal)} are "
            f"{np.array2string(quantiles, precision=4)}; its scale must be positive and its shape valid"
        )
    with np.errstate(over="ignore"):
        ends = np.array([marginal.ppf(_TAIL), marginal.isf(_TAIL)])
    if not np.all(np.isfinite(ends)):
        raise ArgumentError(
            f"Prior: {name!r} has tails beyond all floating-point numbers: the outermost {_TAIL:g} of "
            f"{describe(marginal)} begin at {ends[0]:.3g} and {ends[1]:.3g}; use its logarithm as the parameter"
        )
    if quantiles[-1] - quantiles[0] < _FEWEST_FLOATS * np.spacing(np.abs(quantiles).max()):
        raise ArgumentError(
            f"Prior: {name!r} is so narrow for its size that floating-point numbers cannot tell its values apart: "
            f"{describe(marginal)}; use what it differs by from {quantiles[2]:.3g} as the parameter"
        )


def _check_units(units: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    for name, unit in units.items():
        if name not in names or not isinstance(unit, str) or any(map(steers, unit)):
            raise ArgumentError(
                f"Prior: units must be text on one line for names among {', '.join(names)}; got {name!r}: {unit!r}"
            )
    return dict(units)


def _check_correlation(correlation: ArrayLike, names: tuple[str, ...]) -> Array:
    d = len(names)
    try:
        matrix = np.asarray(correlation, dtype=float)
    except (TypeError, ValueError):
        raise ArgumentError(f"Prior: correlation must be a {d} × {d} matrix; got {correlation!r}") from None
    if matrix.shape != (d, d):
        raise ArgumentError(f"Prior: correlation must be a {d} × {d} matrix; got shape {matrix.shape}")
    if not np.allclose(matrix, matrix.T) or not np.allclose(np.diag(matrix), 1.0):
        raise ArgumentError("Prior: correlation must be symmetric with ones on its diagonal")
    smallest = linalg.eigvalsh(matrix)[0]
    if not smallest > 1e-10:
        raise ArgumentError(f"Prior: correlation is not positive definite (smallest eigenvalue {smallest:.3g})")
    return matrix


def as_rows(theta: ArrayLike, dim: int, where: str) -> tuple[Array, bool]:
    try:
        points = np.asarray(theta, dtype=float)
    except (TypeError, ValueError):
        raise ArgumentError(f"{where}: theta must be numbers; got {theta!r}") from None
    if points.ndim not in (1, 2) or points.shape[-1] != dim:
        raise ArgumentError(f"{where}: theta must have shape ({dim},) or (n, {dim}); got {points.shape}")
    return np.atleast_2d(points), points.ndim == 1


# --- sampling ------------------------------------------------------------------------------------------------


def _uniform(n: int, d: int, method: Method, rng: np.random.Generator) -> Array:
    if method == "lhs":
        u = qmc.LatinHypercube(d, rng=rng).random(n)
        if n < _FEW_STRATA:
            u = 0.5 * u + 0.5 * (np.floor(n * u) + 0.5) / n
    elif method == "sobol":  # a full power of two: scipy warns of any other size
        u = qmc.Sobol(d, rng=rng).random_base2(max(n - 1, 0).bit_length())[:n]
    elif method == "random":
        u = rng.random((n, d))
    else:
        raise ArgumentError(f"Prior.sample: method must be 'random', 'lhs' or 'sobol'; got {method!r}")
    return np.clip(u, 1e-15, 1.0 - 1e-15)
