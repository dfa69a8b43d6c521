"""Every public name is described, and the examples of the descriptions are what happens."""

import doctest
import inspect

import numpy as np
import pytest
from scipy import stats

import tbq

PUBLIC = [name for name in tbq.__all__ if callable(getattr(tbq, name))]
CALLED = ["GaussianLikelihood", "Prior", "Session", "check", "compare", "infer", "integrate", "load"]  # by users


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_described(name):
    thing = getattr(tbq, name)
    assert len(inspect.getdoc(thing) or "") > 20
    if inspect.isclass(thing):
        for method, value in vars(thing).items():
            if not method.startswith("_") and inspect.isfunction(value):
                assert inspect.getdoc(value), f"{name}.{method}"


@pytest.mark.parametrize("name", CALLED)
def test_examples_are_what_happens(name):
    thing = getattr(tbq, name)
    example = doctest.DocTestParser().get_doctest(
        inspect.getdoc(thing), {"tbq": tbq, "np": np, "stats": stats}, name, None, None
    )
    assert example.examples
    failed, _ = doctest.DocTestRunner(verbose=False).run(example)
    assert failed == 0


@pytest.mark.parametrize("name", ["check", "compare", "infer", "load"])
def test_what_is_returned_and_raised_is_said(name):
    text = inspect.getdoc(getattr(tbq, name))
    order = [text.index(f"\n{head}\n---") for head in ("Parameters", "Returns", "Raises", "Examples")]
    assert order == sorted(order)
    if name == "infer":
        assert text.index("max_evaluations") < order[1]  # options are among the parameters
