"""Array types shared by the whole package."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]
ArrayLike = npt.ArrayLike
Distribution = Any  # a scipy.stats frozen distribution: scipy has no public name for the type
