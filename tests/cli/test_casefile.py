"""The case file: what it may say, what it becomes, and what is said when it is wrong."""

import inspect
import pickle
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.cli import casefile, distributions
from tbq.cli.casefile import CaseError, RunTable, load
from tbq.common.errors import ArgumentError
from tbq.simulate.command import CommandModel
from tbq.simulate.umbridge import UmBridgeModel

GOOD = """
[parameters]
k1 = {distribution = "uniform", low = 0.1, high = 1.0}
k2 = {distribution = "lognormal", median = 1.0, log_sd = 0.5}

[model]
python = "spring:outputs"

[data]
observed = [1.0, 2.0]
noise = 0.1
"""
SPRING = "def outputs(theta):\n    return [theta[0], theta[0] * theta[1]]\n\nbroken = 3\n"


@pytest.fixture
def case(tmp_path):
    """Load a case: ``GOOD`` with some of its text replaced."""
    name = f"spring_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(SPRING)

    def loaded(*changes, text=GOOD):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "case.toml").write_text(text.replace("spring:", f"{name}:"))
        return load(tmp_path / "case.toml")

    yield loaded
    sys.path[:] = [p for p in sys.path if p != str(tmp_path)]


# --- distributions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ({"distribution": "uniform", "low": -1, "high": 3}, stats.uniform(-1, 4)),
        ({"distribution": "loguniform", "low": 0.1, "high": 10}, stats.loguniform(0.1, 10)),
        ({"distribution": "normal", "mean": 2, "sd": 0.5}, stats.norm(2, 0.5)),
        ({"distribution": "lognormal", "median": 2, "log_sd": 0.5}, stats.lognorm(0.5, scale=2)),
        (
            {"distribution": "truncated_normal", "mean": 1, "sd": 2, "low": 0, "high": 4},
            stats.truncnorm(-0.5, 1.5, 1, 2),
        ),
        ({"distribution": "truncated_normal", "mean": 1, "sd": 2, "low": 0}, stats.truncnorm(-0.5, np.inf, 1, 2)),
        ({"distribution": "truncated_normal", "mean": 1, "sd": 2, "high": 4}, stats.truncnorm(-np.inf, 1.5, 1, 2)),
        ({"distribution": "gamma", "a": 2.0, "scale": 3.0}, stats.gamma(2.0, scale=3.0)),
        ({"distribution": "uniform", "loc": 1, "scale": 2}, stats.uniform(1, 2)),
        ({"distribution": "beta", "a": 2, "b": 3}, stats.beta(2, 3)),
    ],
)
def test_distributions_by_name(description, expected):
    q = np.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(distributions.marginal(description).ppf(q), expected.ppf(q))


def test_a_lognormal_by_its_moments():
    m = distributions.marginal({"distribution": "lognormal", "mean": 3.0, "sd": 1.2})
    np.testing.assert_allclose([m.mean(), m.std()], [3.0, 1.2])


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"low": 0, "high": 1}, "distribution is missing"),
        ({"distrbution": "normal"}, "distribution is missing; is 'distrbution' meant for it?"),
        ({"distribution": "unifrom"}, "distribution 'unifrom' is not known; did you mean 'uniform'?"),
        ({"distribution": 3}, "distribution 3 is not known"),
        ({"distribution": "poisson", "mu": 3}, "distribution 'poisson' is not known"),
        ({"distribution": "normal", "mean": 0, "std": 1}, "normal needs mean, sd; got mean, std; did you mean 'sd'?"),
        ({"distribution": "uniform"}, "uniform needs low, high or loc (optional), scale (optional); got nothing"),
        ({"distribution": "gamma", "scale": 2}, "gamma needs a, loc (optional), scale (optional); got scale"),
        ({"distribution": "uniform", "low": 2, "high": 1}, "low must be below high; got low = 2 and high = 1"),
        ({"distribution": "normal", "mean": 0, "sd": -1}, "sd must be positive; got -1"),
        ({"distribution": "loguniform", "low": 0, "high": 1}, "low must be positive; got 0"),
        ({"distribution": "normal", "mean": "0", "sd": 1}, "mean must be a finite number; got '0'"),
        ({"distribution": "normal", "mean": True, "sd": 1}, "mean must be a finite number; got True"),
    ],
)
def test_wrong_distributions(description, message):
    with pytest.raises(ArgumentError) as caught:
        distributions.marginal(description)
    assert str(caught.value) == message


# --- good cases ---------------------------------------------------------------------------------------------


def test_a_case_becomes_prior_and_log_likelihood(case):
    c = case()
    prior, log_likelihood = c.prior(), c.log_likelihood(c.simulator())
    assert prior.names == ("k1", "k2")
    theta = np.array([0.9, 2.1])
    expected = stats.norm.logpdf([1.0, 2.0], [0.9, 1.89], 0.1).sum()
    assert log_likelihood(theta) == pytest.approx(expected)
    assert pickle.loads(pickle.dumps(log_likelihood))(theta) == log_likelihood(theta)


def test_correlation_and_covariance(case):
    c = case(
        ("[parameters]", "correlation = [[1.0, 0.4], [0.4, 1.0]]\n[parameters]"), ("0.1\n", "[[1, 0.5], [0.5, 2]]\n")
    )
    np.testing.assert_array_equal(c.prior().correlation, [[1, 0.4], [0.4, 1]])
    expected = stats.multivariate_normal([0.9, 1.89], [[1, 0.5], [0.5, 2]]).logpdf([1.0, 2.0])
    assert c.log_likelihood(c.simulator())(np.array([0.9, 2.1])) == pytest.approx(expected)


def test_data_from_files(case, tmp_path):
    (tmp_path / "m.csv").write_text("mode,f,sd\nfirst,3,0.1\nsecond,4,0.2\n")
    (tmp_path / "cov.csv").write_text("1.0,0.5\n0.5,2.0\n")
    c = case(("[1.0, 2.0]", '{file = "m.csv", column = "f"}'), ("noise = 0.1", 'noise = {file = "cov.csv"}'))
    assert c.data.observed == [3.0, 4.0]
    assert c.data.noise == [[1.0, 0.5], [0.5, 2.0]]
    (tmp_path / "m.csv").unlink()
    assert "m.csv" not in c.to_toml()


def test_outputs_have_the_names_of_the_file_or_of_the_case(case, tmp_path):
    (tmp_path / "m.csv").write_text("name;unit;value;at\nfirst mode;Hz;1,0;0,5\nsag;mm;2,0;1,5\n")
    from_file = ("observed = [1.0, 2.0]", 'observed = {file = "m.csv", column = "value"}')
    likelihood = lambda *changes: case(*changes).log_likelihood(lambda theta: theta)
    named = likelihood(from_file)
    assert named.names == ("first mode", "sag")
    assert named.units == ("Hz", "mm")
    coordinates = 'noise = 0.1\ncoordinates = {file = "m.csv", column = "at"}\nnames = ["p", "q"]\nunits = "m"'
    given = likelihood(from_file, ("noise = 0.1", coordinates))
    assert given.names == ("p", "q")
    assert given.units == ("m", "m")
    np.testing.assert_array_equal(given.experiments[0].labels.coordinates, [0.5, 1.5])
    assert likelihood().names == ("y1", "y2")
    resolved = case(from_file).resolved(1).to_toml()
    assert tomllib.loads(resolved)["data"]["names"] == ["first mode", "sag"]
    (tmp_path / "plain.csv").write_text("value\n1.0\n2.0\n")
    assert likelihood((from_file[0], 'observed = {file = "plain.csv", column = "value"}')).names == ("y1", "y2")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("names = [1, 2]", r"data.names: must be texts, or a table such as .*; got \[1, 2\]"),
        ('names = {file = "m.csv"}', "data.names: must name the column of m.csv that has the words"),
        ('names = {file = "m.csv", column = "x"}', "data.names: m.csv has no column 'x'; its header is name, value"),
        ('names = {file = "m.csv", colum = "name"}', "data.names: 'colum' is not a key; did you mean 'column'"),
        ("coordinates = [1.0]", r"data.coordinates must be 2 numbers; got shape \(1,\)"),
        ('names = ["p"]', r"data.names must be 2 texts on one line each; got \['p'\]"),
    ],
)
def test_names_that_do_not_fit_are_said_by_their_key(case, tmp_path, key, message):
    (tmp_path / "m.csv").write_text("name,value\nu,1\nv,2\n")
    with pytest.raises(ArgumentError, match=message):
        case(("noise = 0.1", f"noise = 0.1\n{key}")).log_likelihood(lambda theta: theta)


def test_a_parameter_can_scale_the_noise_and_the_model_is_not_given_it(case):
    c = case(
        ("k2 =", 's = {distribution = "uniform", low = 0.5, high = 3}\nk2 ='),
        ("noise = 0.1", 'noise = 0.1\nscale = "s"'),
    )
    value = c.log_likelihood(c.simulator())(np.array([0.9, 2.0, 2.1]))
    assert value == pytest.approx(stats.norm.logpdf([1.0, 2.0], [0.9, 1.89], 0.2).sum())


def test_a_model_can_return_the_log_likelihood(case):
    text = GOOD.partition("[data]")[0]
    c = case(('"spring:outputs"', '"spring:outputs"\nreturns = "log_likelihood"'), text=text)
    simulator = c.simulator()
    assert c.log_likelihood(simulator) is simulator


def test_a_command_with_paths_from_the_case_file(case, tmp_path):
    (tmp_path / "sim.sh").write_text("#!/bin/sh\ncat in.txt > out.txt\n")
    (tmp_path / "sim.sh").chmod(0o755)
    (tmp_path / "in.txt").write_text("{k1} {k2}\n")
    c = case(('python = "spring:outputs"', 'command = ["./sim.sh"]\ntemplate = "in.txt"\noutput = "out.txt"'))
    model = c.simulator(tmp_path / "work")
    assert isinstance(model, CommandModel)
    np.testing.assert_array_equal(model(np.array([0.25, 3.0])), [0.25, 3.0])
    assert c.model.command == [str(tmp_path / "sim.sh")]


def test_a_server(case):
    c = case(('python = "spring:outputs"', 'url = "http://localhost:1"\nname = "m"\ntimeout = 3\nconfig = {level = 2}'))
    assert c.simulator() == UmBridgeModel("http://localhost:1", "m", {"level": 2}, 3.0, 2)


def test_the_resolved_case_is_the_same_case_wherever_it_lies(case, tmp_path):
    c = case(("[data]", "[data]\nnormalized = false")).resolved(seed=7)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/case.toml").write_text(c.to_toml())
    again = load(tmp_path / "elsewhere/case.toml")
    assert again == c
    assert again.settings() == c.settings()
    assert again.resolved(seed=7) == c
    stored = tomllib.loads(c.to_toml())["run"]
    assert (stored["seed"], stored["n_initial"], stored["max_evaluations"], stored["population"]) == (7, 10, 200, 2048)
    theta = np.array([0.9, 2.1])
    first, second = (x.log_likelihood(x.simulator())(theta) for x in (c, again))
    assert first == second


def test_how_it_is_run(case):
    settings = ("[data]", "[run]\nworkers = 3\ntimeout = 5\nretries = 1\n[data]")
    a = case(settings).arguments()
    assert (a["batch_size"], a["timeout"], a["retries"]) == (3, 5.0, 1)
    with a["executor"]() as pool:
        assert isinstance(pool, ProcessPoolExecutor)
    c = case(settings, ('python = "spring:outputs"', 'command = ["echo", "{k1}", "{k2}"]\noutput = "stdout.txt"'))
    assert c.simulator().timeout == 5.0
    assert c.arguments()["timeout"] is None
    with c.arguments()["executor"]() as pool:
        assert isinstance(pool, ThreadPoolExecutor)
    assert "executor" not in case().arguments()


def test_outages_are_part_of_a_case(case, tmp_path):
    run = "[run]\noutage_after = [3, inf]\npatience = 7\nretry_failed = true\n[data]"
    command = 'command = ["echo", "{k1}", "{k2}"]\noutput = "stdout.txt"\ntransient = [75, 69]'
    c = case(("[data]", run), ('python = "spring:outputs"', command))
    a = c.arguments()
    assert (a["outage_after"], a["patience"], a["retry_failed"]) == ((3, np.inf), 7.0, True)
    assert c.simulator().transient == [75, 69]
    (tmp_path / "again.toml").write_text(c.to_toml())
    assert casefile.load(tmp_path / "again.toml") == c


def test_run_settings_are_the_arguments_of_infer():
    ours = {name: field.default for name, field in RunTable.model_fields.items() if name != "workers"}
    theirs = {p.name: p.default for p in inspect.signature(tbq.infer).parameters.values() if p.kind is p.KEYWORD_ONLY}
    not_for_files = {"executor", "vectorized", "journal", "progress", "rng"}
    assert ours == {name: value for name, value in theirs.items() if name not in not_for_files}


# --- wrong cases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[data]", "[datum]", "datum is not a key; did you mean 'data'?"),
        (
            "noise = 0.1",
            "noise = 0.1\nsigma = 2",
            "data.sigma is not a key; there are observed, noise, scale, normalized",
        ),
        ("noise = 0.1", "niose = 0.1", "data.niose is not a key; did you mean 'noise'?"),
        ("high = 1.0", "hihg = 1.0", "parameters.k1: uniform needs low, high or loc (optional), scale (optional); "),
        ("high = 1.0", "hihg = 1.0", "got low, hihg; did you mean 'high'?"),
        ('k1 = {distribution = "uniform", low = 0.1, high = 1.0}', "k1 = 3", "parameters.k1: must be a table such as"),
        (
            '"uniform", low = 0.1, high = 1.0',
            '"gamma", a = -1.0',
            "parameters: 'k1' is degenerate: the quantiles of gamma",
        ),
        (
            "python =",
            "pyhton =",
            "model must have one of the keys python, command, url; got pyhton; did you mean 'python'?",
        ),
        (
            "python =",
            'url = "http://x"\npython =',
            "model must have one of the keys python, command, url; got url and python",
        ),
        ('python = "spring:outputs"', 'command = ["awk"]', "model.output is missing"),
        (
            '"spring:outputs"',
            '"spring:outputs"\ntimeout = 3',
            "model.timeout is not a key; there are python, path, returns",
        ),
        ('"spring:outputs"', "3", "model.python must be a valid string; got 3"),
        (
            '"spring:outputs"',
            '"x:y"\nreturns = "number"',
            "model.returns must be 'outputs' or 'log_likelihood'; got 'numb",
        ),
        (
            '"spring:outputs"',
            '"x:y"\nreturns = "log_likelihood"',
            "data has no use where model.returns = 'log_likelihood'",
        ),
        ("[data]\nobserved = [1.0, 2.0]\nnoise = 0.1", "", "data is missing; or say model.returns = 'log_likelihood'"),
        (
            "[1.0, 2.0]",
            '[1.0, "2"]',
            "data.observed: must be numbers, or a table such as {file = 'measured.csv'}; got '2'",
        ),
        ("[1.0, 2.0]", '{flie = "x"}', "data.observed: 'flie' is not a key; did you mean 'file'?"),
        ("[1.0, 2.0]", '{column = "x"}', "data.observed: must have a file, and a column of it if it has several"),
        ("[1.0, 2.0]", '{file = "nowhere.csv"}', "data.observed: there is no file '"),
        ("0.1\n", '0.1\nscale = "k3"', "data.scale must name a parameter; got 'k3'; there are k1, k2"),
        ("[data]", "[run]\ntolerence = 0.1\n[data]", "run.tolerence is not a key; did you mean 'tolerance'?"),
        ("[data]", '[run]\nalgorithm = "tqb"\n[data]', "run.algorithm must be one of 'tbq', 'bq'; got 'tqb'"),
        ("[data]", "[run]\ntolerance = 3\n[data]", "run.tolerance must be a number between 0 and 1, or a pair"),
        ("[data]", "[run]\nn_initial = 2.5\n[data]", "run.n_initial must be a valid integer; got 2.5"),
        (
            "[data]",
            "[run]\noutage_after = [1, 8]\n[data]",
            "run.outage_after: must be two whole numbers of at least 2, of failures in a row",
        ),
        ("[data]", "[run]\npatience = -1.0\n[data]", "run.patience must be greater than or equal to 0; got -1.0"),
        ("[data]", "[run]\nretry_failed = 1\n[data]", "run.retry_failed must be a valid boolean; got 1"),
        (
            'python = "spring:outputs"',
            'command = ["awk"]\noutput = "x"\ntransient = [true]',
            "model.transient[0] must be a valid integer; got True",
        ),
        ("[data]", "[run]\nworkers = 0\n[data]", "run.workers must be greater than or equal to 1; got 0"),
        (
            "[parameters]",
            "correlation = [[1.0, 2.0]]\n[parameters]",
            "correlation must be a 2 × 2 matrix; got shape (1, 2)",
        ),
        (
            "[parameters]",
            "correlation = [[1.0], [0.2, 1.0]]\n[parameters]",
            "correlation: must have rows of one length",
        ),
        ("[data]", "[run]\ntimeout = 0\n[data]", "run.timeout must be greater than 0; got 0"),
        (
            "[data]\nobserved = [1.0, 2.0]\nnoise = 0.1",
            "[run]\n[[data]]\nx = 1",
            "data must be a table; got [{'x': 1}]",
        ),
        ("[data]", "[data\n", "this is not TOML: "),
    ],
)
def test_what_is_wrong_is_said_by_its_key(case, old, new, message):
    with pytest.raises(CaseError) as caught:
        case((old, new))
    assert message in str(caught.value)


def test_every_problem_is_told_at_once(case):
    with pytest.raises(CaseError) as caught:
        case(("noise = 0.1", "niose = 0.1"), ("high", "hihg"), ("python =", "pyhton ="), ("[data]", "[rum]\n[data]"))
    assert [line.split()[0] for line in str(caught.value).splitlines()] == [
        "parameters.k1:",
        "model",
        "data.niose",
        "rum",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("spring:outputs", "spring", r"model.python must be 'module:function'; got 'spring"),
        ("spring:outputs", "no_such_module:f", r"model.python: there is no module 'no_such_module' in /"),
        ("spring:outputs", "spring:output", r"model.python: .*\.py has no function 'output'; did you mean 'outputs'\?"),
        ("spring:outputs", "spring:broken", r"model.python: .*\.py has no function 'broken'"),
        ('python = "spring:outputs"', 'url = "localhost"\nname = "m"', r"model.url must start with http://"),
        ('python = "spring:outputs"', 'command = ["awk"]\noutput = "x"', "model.k1: the parameter does not appear"),
        ("0.1\n", "[0.1, 0.2, 0.3]\n", "data.noise must have 1 or 2 standard deviations; got 3"),
        ("0.1\n", "[[1, 2], [2, 1]]\n", "data.noise as a covariance must be positive definite"),
    ],
)
def test_what_is_wrong_with_the_model_is_said_before_it_runs(case, old, new, message):
    def likelihood(c):
        return c.log_likelihood(c.simulator())

    with pytest.raises(CaseError, match=message):
        likelihood(case((old, new)))


def test_a_module_that_cannot_be_imported(case, tmp_path):
    (tmp_path / "torn_module.py").write_text("import no_such_thing\n")
    with pytest.raises(CaseError, match=r"importing 'torn_module' failed with ModuleNotFoundError: .*no_such_thing"):
        case(("spring:outputs", "torn_module:f")).simulator()


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(CaseError, match="the file cannot be read: No such file or directory"):
        casefile.load(tmp_path / "nowhere.toml")
