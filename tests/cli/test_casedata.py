"""Noise, groups, gaps and replicates in a case file, against the same in Python."""

import sys

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import tbq
from tbq.cli.app import app
from tbq.cli.casefile import CaseError, load

MODEL = "import numpy as np\nT = np.arange(6) / 2\n\ndef outputs(theta):\n    return theta[0] * np.exp(-theta[1] * T)\n"
HEAD = """
[parameters]
A = {distribution = "uniform", low = 0.2, high = 3.0}
k = {distribution = "uniform", low = 0.1, high = 3.0}

[model]
python = "decays:outputs"

[data]
"""
T = np.arange(6) / 2
THETA = np.array([1.3, 0.8])
LEVEL = stats.loguniform(0.01, 1.0)
PRIOR = '{prior = {distribution = "loguniform", low = 0.01, high = 1.0}}'


def curve(theta):
    return theta[..., :1] * np.exp(-theta[..., 1:2] * T)


@pytest.fixture
def case(tmp_path):
    name = f"decays_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODEL)

    def loaded(data):
        (tmp_path / "case.toml").write_text((HEAD + data).replace("decays:", f"{name}:"))
        return load(tmp_path / "case.toml")

    yield loaded
    sys.path[:] = [p for p in sys.path if p != str(tmp_path)]


def likelihood(case):
    return case.log_likelihood(case.simulator())


def same(case, expected):
    """As the Python one, also after it was written down with every choice made."""
    folder = case.model.path
    for one in (case, load_text(case.resolved(1).to_toml(), folder)):
        found = likelihood(one)
        assert found.noise_prior.names == expected.noise_prior.names
        assert found(THETA) == pytest.approx(expected(THETA), rel=1e-12)


def load_text(text, folder):
    from pathlib import Path

    path = Path(folder) / "again.toml"
    path.write_text(text)
    return load(path)


ONE = "[1.2, 0.9, nan, 0.4, 0.25, 0.2]"
DATA = np.array([1.2, 0.9, np.nan, 0.4, 0.25, 0.2])


def test_an_unknown_noise_and_gaps(case):
    same(case(f"observed = {ONE}\nnoise = {PRIOR}"), tbq.GaussianLikelihood(curve, DATA, LEVEL))


def test_correlation_discrepancy_and_relative_noise(case):
    data = f"""observed = {ONE}
noise = {PRIOR}
relative = 0.05
coordinates = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
correlation = {{length = {PRIOR}}}
discrepancy = {{amplitude = {PRIOR}, length = 0.7}}
"""
    expected = tbq.GaussianLikelihood(
        curve, DATA, LEVEL, relative=0.05, coordinates=T, correlation=tbq.Exponential(LEVEL),
        discrepancy=tbq.Discrepancy(LEVEL, 0.7),
    )  # fmt: skip
    same(case(data), expected)


def test_smooth_correlation_and_outliers(case):
    smooth = f"observed = {ONE}\nnoise = {PRIOR}\ncoordinates = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]\n"
    smooth += 'correlation = {kind = "squared_exponential", length = 0.4, white = 0.1}\n'
    expected = tbq.GaussianLikelihood(
        curve, DATA, LEVEL, coordinates=T, correlation=tbq.SquaredExponential(0.4, white=0.1)
    )
    same(case(smooth), expected)
    same(
        case(f"observed = {ONE}\nnoise = {PRIOR}\nfreedom = 4"), tbq.GaussianLikelihood(curve, DATA, LEVEL, freedom=4.0)
    )


def test_groups_by_tables(case):
    data = f"""observed = {ONE}
noise = 0.1
coordinates = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]

[data.groups.early]
data = ":3"
noise = {PRIOR}

[data.groups.late]
data = [3, 4, 5]
correlation = {{length = {PRIOR}}}
"""
    expected = tbq.GaussianLikelihood(
        curve, DATA, {"early": LEVEL, "late": 0.1}, coordinates=T, groups={"early": slice(3), "late": [3, 4, 5]},
        correlation={"late": tbq.Exponential(LEVEL)},
    )  # fmt: skip
    same(case(data), expected)


def test_replicates_and_gaps_in_a_file(case, tmp_path):
    (tmp_path / "tests.csv").write_text(
        "time,first,second,name\n0,1.2,1.3,a\n0.5,,0.8,b\n1,0.6,0.5,c\n1.5,0.4,NA,d\n2,0.3,0.2,e\n2.5,0.2,nan,f\n"
    )
    data = f"""observed = {{file = "tests.csv", columns = ["first", "second"]}}
coordinates = {{file = "tests.csv", column = "time"}}
noise = {PRIOR}
"""
    n = np.nan
    both = np.array([[1.2, n, 0.6, 0.4, 0.3, 0.2], [1.3, 0.8, 0.5, n, 0.2, n]])
    loaded = case(data)
    same(loaded, tbq.GaussianLikelihood(curve, both, LEVEL))
    assert likelihood(loaded).names == tuple("abcdef")
    single = case(f'observed = {{file = "tests.csv", column = "first"}}\nnoise = {PRIOR}')
    same(single, tbq.GaussianLikelihood(curve, both[0], LEVEL))


def test_an_index_of_outputs(case):
    same(
        case(f"observed = [1.2, 1.3, 0.2]\nindex = [0, 0, 5]\nnoise = {PRIOR}"),
        tbq.GaussianLikelihood(curve, [1.2, 1.3, 0.2], LEVEL, index=[0, 0, 5]),
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "data: noise is missing; give it here, or in all of data.groups"),
        ("noise = {prior = 0.3}", "data.noise: must be a table such as"),
        ("noise = {prier = 0.3}", "data.noise: 'prier' is not a key"),
        (
            f"noise = {PRIOR}\ncorrelation = {{lenght = 1}}",
            "data.correlation.lenght is not a key; did you mean 'length'?",
        ),
        (
            f"noise = {PRIOR}\ncorrelation = {{length = 1, kind = 'x'}}",
            "data.correlation.kind must be 'exponential' or",
        ),
        (f"noise = {PRIOR}\n[data.groups.a]\ndata = 'x'", "data.groups.a.data: must be a range such as '0:21'"),
        (
            f"noise = {PRIOR}\n[data.groups.a]\ndata = ':3'\nnose = 1",
            "data.groups.a.nose is not a key; did you mean 'noise'",
        ),
    ],
)
def test_what_is_wrong_is_said_by_its_key(case, data, message):
    with pytest.raises(CaseError) as error:
        case(f"observed = {ONE}\n{data}")
    assert message in str(error.value)


def test_what_the_likelihood_refuses_is_said_by_its_table(case):
    with pytest.raises(CaseError, match=r"data\.groups must have each datum once; got datum 3 in none"):
        likelihood(case(f"observed = {ONE}\nnoise = {PRIOR}\n[data.groups.a]\ndata = ':3'"))


def test_a_case_with_groups_is_checked_and_run(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case(f"""observed = {ONE}

[data.groups.early]
data = ":3"
noise = {PRIOR}

[data.groups.late]
data = "3:"
noise = 0.03

[run]
max_evaluations = 11
population = 256
seed = 1
""")
    checked = CliRunner().invoke(app, ["check", "case.toml"])
    assert checked.exit_code == 0, checked.output
    assert "noise early: unknown, late: standard deviation 0.03" in checked.output
    assert "not measured" in checked.output
    ran = CliRunner().invoke(app, ["run", "case.toml"])
    assert ran.exit_code in (0, 3), ran.output
    assert (tmp_path / "runs/case/samples.csv").read_text().startswith("A,k,noise.early")
    assert tbq.load(tmp_path / "runs/case").prior.names == ("A", "k", "noise.early")
    resumed = CliRunner().invoke(app, ["resume", "runs/case", "--max-evaluations", "12"])
    assert resumed.exit_code in (0, 3), resumed.output
    for command in (["status"], ["predict", "-n", "3"], ["verify", "-n", "3"], ["export", "--csv", "x.csv"]):
        done = CliRunner().invoke(app, [command[0], "runs/case", *command[1:]])
        assert done.exit_code in (0, 3), done.output


def test_predictions_of_a_folder_are_with_the_discrepancy_or_without(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case(f"""observed = {ONE}
coordinates = {T.tolist()}
noise = 0.05
discrepancy = {{amplitude = 0.3, length = 0.7}}

[run]
max_evaluations = 10
population = 256
seed = 1
""")
    ran = CliRunner().invoke(app, ["run", "case.toml"])
    assert ran.exit_code in (0, 3), ran.output
    for options, said in (([], ", with the discrepancy"), (["--no-discrepancy"], ", without the discrepancy")):
        done = CliRunner().invoke(app, ["predict", "runs/case", "-n", "3", *options])
        assert done.exit_code == 0, done.output
        assert said in done.output
