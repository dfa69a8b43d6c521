"""What stands in the place of braces: arithmetic without Python's eval, formats, and fields that have an end."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbq.common import errors
from tbq.simulate.placeholders import check_places, fill, places, tight_places

VALUES = {"E": 210.0, "nu": 0.3, "k1": -2.0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{E*1e3:.6E}", "2.100000E+05"),
        ("{E / (2*(1 + nu)):.4f}", f"{210 / 2.6:.4f}"),
        ("{k1**2}", "4.0"),
        ("{-k1}", "2.0"),
        ("{sqrt(E)*pi:.8f}", f"{math.sqrt(210) * math.pi:.8f}"),
        ("{max(E, 300)} {min(nu, 0.2)} {abs(k1)}", "300.0 0.2 2.0"),
        ("{exp(log(E)):.3f} {log10(1000*nu/nu):.1f}", "210.000 3.0"),
        ("{sin(nu)**2 + cos(nu)**2:.12f} {tan(nu):.3f}", f"1.000000000000 {math.tan(0.3):.3f}"),
    ],
)
def test_arithmetic_of_parameters_is_computed(text, expected):
    assert fill(text, VALUES) == expected


@pytest.mark.parametrize(
    "text",
    ['{"E": 1}', "{E, nu}", "{E.real}", "{E[0]}", "{}", "{1 + 2}", "{x}", "{'E'*3}", "{lambda: E}", "{E if 1 else nu}",
     "{E and nu}", "{E == nu}", "{__import__('os')}", "{E;nu}", "{E\n}", "{True*E}", "{E**2j}", "{sqrt()*E}"],
)  # fmt: skip
def test_what_is_no_arithmetic_stays(text):
    assert fill(text, VALUES) == text


@pytest.mark.parametrize("call", ["open(E)", "eval(E)", "print(E)", "(lambda: E)()", "E()", "sqrt(x=E)", "E(3)"])
def test_nothing_but_the_listed_functions_is_called(call):
    assert fill(f"{{{call}}}", VALUES) == f"{{{call}}}"
    assert tight_places(f"{{{call}}}", ["E"]) == [
        f"line 1: {{{call}}} stays as it is: it is no arithmetic that can be computed"
    ]


def test_a_name_that_is_no_parameter_is_refused_with_those_there_are():
    with pytest.raises(errors.ArgumentError, match=r"\{E\*hight\}: there is no parameter hight; there are E, nu, k1"):
        fill("{E*hight}", VALUES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{min(E)}", r"\{min\(E\)\}: min does not take 1 number"),
        ("{sqrt(E, 2)}", "sqrt does not take 2 numbers"),
        ("{E:999999999.3f}", "is not a number format: more than 200 columns or digits"),
        ("{E:.999999999f}", "is not a number format: more than 200 columns or digits"),
        ("{E:999999999}", "is not a number format: more than 200 columns or digits"),
    ],
)
def test_what_can_be_computed_nowhere_is_refused_before_any_run(text, message):
    with pytest.raises(errors.ArgumentError, match=message):
        check_places(text, ["E"])


def test_a_parameter_with_a_name_of_its_own_is_not_computed_and_may_be_called_like_a_constant():
    assert fill("{E/steel:.1f} {pi*2}", {"E/steel": 3.0, "pi": 4.0}) == "3.0 8.0"
    assert fill("{µ*2}", {"µ": 4.0}) == "8.0"  # which Python spells with another letter
    assert check_places("{µ*2} {E}", ["µ", "E", "F"]) == {"µ", "E"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n{E/(nu - 0.3)}", r"line 2: \{E/\(nu - 0.3\)\} cannot be computed at E = 210, nu = 0.3: float division"),
        ("{sqrt(k1)}", r"cannot be computed at k1 = -2: math domain error"),
        ("{k1**0.5}", r"cannot be computed at k1 = -2: a root of a negative number"),
        ("{abs(k1**0.5)}", r"cannot be computed at k1 = -2: a root of a negative number"),
        ("{10**E**3}", r"cannot be computed at E = 210: it is too large"),
        ("{9**9**9*E}", r"cannot be computed at E = 210: it is too large"),
    ],
)
def test_what_cannot_be_computed_is_a_failure_of_the_run(text, message):
    with pytest.raises(errors.SimulatorError, match=message):
        fill(text, VALUES)


@pytest.mark.parametrize(
    ("text", "number", "expected"),
    [
        ("{x:8}|", 210000.0, "210000.0|"),
        ("{x:8}|", 1 / 3, "0.333333|"),
        ("{x:8}|", -1 / 3, "-0.33333|"),
        ("{x:8}|", -1.23456789e-7, "-1.23E-7|"),
        ("{x:8}|", 1.0, "     1.0|"),
        ("{x:8}|", 123456789.0, "1.2346E8|"),
        ("{x:16}|", math.pi, "   3.14159265359|"),
        ("{x:8.2e}|", 1.0, "1.00e+00|"),
        ("{x:>10.3f}|", -2.0, "    -2.000|"),
    ],
)
def test_a_width_is_that_of_the_field(text, number, expected):
    assert fill(text, {"x": number}) == expected


def test_a_value_that_does_not_fit_is_refused_and_never_written():
    with pytest.raises(errors.SimulatorError, match=r"line 1: \{x:8.2e\} is -1.00e\+00, of 9 characters, .* has 8;"):
        fill("{x:8.2e}", {"x": -1.0})
    with pytest.raises(errors.SimulatorError, match=r"\{x:5\}: -1.23457e-07 has less than 3 digits in 5 columns"):
        fill("{x:5}", {"x": -1.23456789e-7})
    with pytest.raises(errors.ArgumentError, match=r"\{x:4.2e\}: no number fits into its 4 columns"):
        check_places("{x:4.2e}", ["x"])


@given(st.floats(-1e300, 1e300, allow_subnormal=False), st.integers(10, 20))
def test_a_fitted_value_has_its_width_and_is_the_number_to_its_digits(number, width):
    text = fill(f"{{x:{width}}}", {"x": number})
    assert len(text) == width
    assert "." in text or "e" in text
    digits = min(12, width - 8)  # sign, point and an exponent of five characters take the others
    assert float(text) == pytest.approx(number, rel=10.0 ** (1 - digits), abs=1e-307)


def test_many_braces_cost_little():
    text = '{"a": 1}\n' * 50_000 + "{E}"
    assert places(text, ["E"])[0].line == 50_001
