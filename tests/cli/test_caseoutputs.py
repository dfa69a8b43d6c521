"""``[[outputs]]`` of a case file: read, measured and named together, or refused with the key."""

import numpy as np
import pytest
from scipy import stats

from tbq.cli.casefile import CaseError, load
from tbq.common.errors import OutputError

PARAMETERS = '[parameters]\na = {distribution = "uniform", low = 1, high = 2}\n'
PROGRAM = '[model]\ncommand = ["sh", "sim.sh", "{a}"]\nfiles = ["sim.sh"]\n'
SCRIPT = """echo "f = $1 Hz"
printf 'time drift\\n0 0\\n1 2\\n3 4\\n' > history.txt
echo '{"w": [1.5, -2]}' > r.json
"""
OUTPUTS = """
[[outputs]]
name = "f"
file = "stdout.txt"
pattern = 'f = (\\S+)'
observed = 1.4
noise = 0.1
unit = "Hz"

[[outputs]]
name = "drift"
file = "history.txt"
column = "drift"
against = "time"
coordinates = [0.5, 2.0]
observed = [1.0, 3.5]
noise = [0.2, 0.3]

[[outputs]]
name = "w"
file = "r.json"
key = "w"
observed = [1.0, -1.0]
noise = [[0.5, 0.1], [0.1, 0.7]]
"""


@pytest.fixture
def case(tmp_path):
    def loaded(*changes, text=PARAMETERS + PROGRAM + OUTPUTS):
        (tmp_path / "sim.sh").write_text(SCRIPT)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "case.toml").write_text(text)
        return load(tmp_path / "case.toml")

    return loaded


def test_all_outputs_together_are_the_data(case):
    c = case()
    outputs = c.simulator()(np.array([1.5]))
    np.testing.assert_allclose(outputs, [1.5, 1.0, 3.0, 1.5, -2.0])
    expected = stats.norm.logpdf([1.4, 1.0, 3.5], [1.5, 1.0, 3.0], [0.1, 0.2, 0.3]).sum()
    expected += stats.multivariate_normal([1.5, -2.0], [[0.5, 0.1], [0.1, 0.7]]).logpdf([1.0, -1.0])
    assert c.log_likelihood(c.simulator())(np.array([1.5])) == pytest.approx(expected)


def test_standard_deviations_stay_what_they_are_without_a_covariance(case):
    c = case(("[[0.5, 0.1], [0.1, 0.7]]", "0.4"))
    assert c.data.noise == [0.1, 0.2, 0.3, 0.4, 0.4]


def test_the_resolved_case_is_the_same_and_can_be_read_again(case, tmp_path):
    c = case().resolved(seed=3)
    (tmp_path / "again.toml").write_text(c.to_toml())
    assert load(tmp_path / "again.toml") == c


def test_a_resolved_case_with_gaps_can_be_read_again(case, tmp_path):
    c = case(("observed = [1.0, 3.5]", "observed = [nan, 3.5]")).resolved(seed=3)
    (tmp_path / "again.toml").write_text(c.to_toml())
    np.testing.assert_array_equal(load(tmp_path / "again.toml").data.observed, [1.4, np.nan, 3.5, 1.0, -1.0])


def test_as_many_numbers_are_taken_as_were_observed(case):
    with pytest.raises(CaseError, match=r"f: take names 2 numbers; 1 were observed"):
        case(('unit = "Hz"', "take = [1, 2]"))


def test_a_scale_beside_outputs_stays_in_the_data(case):
    c = case(
        ("a = {", 's = {distribution = "uniform", low = 1, high = 2}\na = {'),
        ("[model]", '[data]\nscale = "s"\n[model]'),
    )
    assert c.data.scale == "s"
    assert len(c.data.observed) == 5


def test_a_model_that_returns_outputs_itself_may_name_them(case, tmp_path):
    (tmp_path / "spring_of_outputs.py").write_text("def run(theta):\n    return [theta[0], 2 * theta[0]]\n")
    measured = '[[outputs]]\nname = "x"\nobserved = [1.0, 2.0]\nnoise = 0.1\n'
    text = PARAMETERS + '[model]\npython = "spring_of_outputs:run"\n' + measured
    c = case(text=text)
    assert c.log_likelihood(c.simulator())(np.array([1.0])) == pytest.approx(2 * stats.norm.logpdf(0, 0, 0.1))
    with pytest.raises(CaseError, match=r"outputs.x: the model returns its outputs itself; nothing is read from files"):
        case(('name = "x"', 'name = "x"\nfile = "out.txt"'), text=text)


def test_a_function_of_the_directory_and_a_log_likelihood_that_is_read(case, tmp_path):
    code = "def value(directory):\n    return -2 * len(list(directory.iterdir()))\n"
    (tmp_path / "reading_for_a_case.py").write_text(code)
    output = '[[outputs]]\nname = "log_likelihood"\npython = "reading_for_a_case:value"\n'
    c = case(text=PARAMETERS + PROGRAM + 'returns = "log_likelihood"\n' + output)
    assert c.simulator()(np.array([1.0])) == [-10]  # sim.sh, stdout.txt, stderr.txt, history.txt, r.json


def test_calculix_by_its_keys(case):
    keys = 'file = "p.dat"\ncalculix = "displacements"\ncomponent = "z"\nset = "TIP"\nnodes = [5, 15]\ntime = 1.0'
    (f, *_) = case(("file = \"stdout.txt\"\npattern = 'f = (\\S+)'", f"{keys}\ntake = 2")).outputs
    reader = f.output().reader
    assert (reader.file, reader.quantity, reader.component, reader.set) == ("p.dat", "displacements", "z", "TIP")
    assert (reader.nodes, reader.time, reader.mode, f.output().take) == ([5, 15], 1.0, None, 2)


def test_a_mismatch_in_a_run_names_the_output_and_the_lines(case):
    c = case(("observed = [1.0, -1.0]", "observed = [1.0, -1.0, 3.0]"), ("[[0.5, 0.1], [0.1, 0.7]]", "0.1"))
    with pytest.raises(OutputError, match=r"outputs.w: 3 numbers were expected, .*; 2 came: 1.5 \(w 1\), -2 \(w 2\)"):
        c.simulator()(np.array([1.5]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('key = "w"', 'key = "w"\npattern = "(x)"', "outputs[2]: is read in one way; got pattern and key"),
        ('file = "r.json"\n', "", "outputs[2]: file is missing: that of the run's directory"),
        ('key = "w"', 'key = "w"\nafter = "x"', "outputs[2]: after belongs to column or row; got key"),
        ('key = "w"', 'key = "w"\ncomponent = "x"', "outputs[2]: component belongs to calculix; got key"),
        ('key = "w"', 'kye = "w"', "outputs[2].kye is not a key; did you mean 'key'?"),
        ("noise = 0.1\n", "", "outputs[0]: observed and noise belong together; give both, or neither"),
        ("observed = 1.4\nnoise = 0.1\n", "", "outputs.f: observed and noise are missing; the others have them"),
        ('name = "w"', 'name = "f"', "outputs: two are called 'f'"),
        ("[0.2, 0.3]", "[0.2, 0.3, 1]", "outputs[1]: noise has 3 rows, and observed 2 numbers"),
        ("coordinates = [0.5, 2.0]\n", "", "outputs[1]: drift: against needs coordinates"),
        ('column = "drift"', "column = true", "outputs[1].column: must be the name of a column, or its number;"),
        ("'f = (\\S+)'", "'f = '", "outputs[0]: pattern must have one group (...) around the number; got 0"),
        ('unit = "Hz"', 'take = "last"', "outputs[0].take: must be a whole number, or a list of them; got 'last'"),
        ('unit = "Hz"', "take = 0", "outputs[0]: f: take must be counted from 1"),
        ('"r.json"', '"../r.json"', "outputs[2]: file must be a file inside the run's directory; got '../r.json'"),
        ("[model]\n", '[model]\noutput = "o.txt"\n', "model.output got both: it says what is read, or [[outputs]] do"),
        ("[[outputs]]\nname = \"f\"", "[data]\nobserved = 3\nnoise = 1\n[[outputs]]\nname = \"f\"",
         "data.observed is what the outputs have together; leave it out"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_by_its_key(case, old, new, message):
    with pytest.raises(CaseError) as caught:
        case((old, new))
    assert message in str(caught.value)
