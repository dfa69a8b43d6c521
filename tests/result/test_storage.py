"""Files of results from strangers: nothing in them runs, and whatever is wrong with them is one sentence."""

import dataclasses
import io
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fuzz_files import ASSET, header, packed, unpacked
from scipy import stats

import tbq
from tbq.problem.families import families, frozen
from tbq.problem.tuning import Tuning
from tbq.result import archive
from tbq.result.stored_surrogates import Context, describe, rebuilt
from tbq.surrogate import selection
from tbq.surrogate.data import Data
from tbq.surrogate.warp import Frame

TEXT = "result.json"
SCRIPT = Path(__file__).parents[1] / "fuzz_files.py"


@pytest.fixture
def crafted(tmp_path):
    """Write the stored file with changes of its members; ``text`` changes the parsed description."""

    def write(text=None, source=ASSET, **changes):
        members = unpacked(source.read_bytes())
        if text is not None:
            description = json.loads(members[TEXT])
            text(description)
            members[TEXT] = json.dumps(description).encode()
        members |= {name.replace("__", "."): content for name, content in changes.items()}
        path = tmp_path / "crafted.tbq"
        path.write_bytes(packed({name: content for name, content in members.items() if content is not None}))
        return path

    return write


def refused(path, match, **given):
    with pytest.raises(tbq.TbqError, match=match) as caught:
        tbq.load(path, **given)
    words = str(caught.value)
    assert words.isprintable()  # one line that steers no terminal
    assert len(words) < 500
    return words


def marginal(**changes):
    return lambda text: text["prior"]["marginals"][0].update(changes)


def npy(array):
    with io.BytesIO() as file:
        np.save(file, array, allow_pickle=True)
        return file.getvalue()


# --- code ---------------------------------------------------------------------------------------------------


def test_a_file_cannot_make_scipy_run_anything(crafted, tmp_path):
    marker = tmp_path / "ran"
    (tmp_path / "test_evil.py").write_text(f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n")
    arguments = {"extra_argv": ["-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path / "test_evil.py")]}
    path = crafted(marginal(distribution="test", args=["fast"], kwds=arguments))
    refused(path, "is damaged: 'test' is not a continuous distribution of scipy.stats")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"distribution": "poisson"}, "'poisson' is not a continuous distribution"),
        ({"distribution": "rv_continuous"}, "'rv_continuous' is not a continuous distribution"),
        ({"distribution": "gaussian_kde", "args": [[1, 2, 3]]}, "'gaussian_kde' is not a continuous distribution"),
        ({"distribution": "__class__"}, "is not a continuous distribution"),
        ({"distribution": ["norm"]}, "is not a continuous distribution"),
        ({"args": ["0", 4.0]}, "uniform takes numbers for loc, scale; got other arguments"),
        ({"args": [[0.0], 4.0]}, "takes numbers"),
        ({"args": [True, 4.0]}, "takes numbers"),
        ({"args": [0.0, 1.0, 2.0]}, "takes numbers"),
        ({"kwds": {"momtype": 1.0}}, "takes numbers"),
        ({"args": [0.0, {"number": "nan"}]}, "takes numbers"),
        ({"args": [0.0, -1.0]}, "degenerate"),
        ({"distribution": "irwinhall", "args": [1e9]}, "irwinhall is computed for an n of at most 1000; got 1e"),
        ({"distribution": "ksone", "args": [], "kwds": {"n": 1e9}}, "ksone is computed for an n of at most 1000"),
    ],
)
def test_only_continuous_distributions_of_numbers_are_made(crafted, changes, message):
    refused(crafted(marginal(**changes)), message)


def test_every_distribution_of_scipy_that_can_be_a_prior_is_known():
    theirs = {n for n in dir(stats) if isinstance(getattr(stats, n), stats.rv_continuous)}
    assert set(families()) == theirs
    assert len(theirs) > 100
    assert frozen("norm", [1.0], {"scale": 2.0}).std() == 2.0


def test_pickles_are_not_read(crafted, tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    refused(crafted(samples__npy=npy(np.array([Evil()], dtype=object))), "samples is not an array of floats")
    assert not (tmp_path / "ran").exists()


# --- size ---------------------------------------------------------------------------------------------------


def memory_of(action):
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


BOMB = 10**9  # bytes


@pytest.mark.parametrize(
    ("member", "content"),
    [
        (TEXT, b" " * (BOMB // 10)),
        ("samples.npy", header("<f8", f"({BOMB // 8},)")[:128] + bytes(BOMB // 10)),
        ("samples.npy", header("<f8", f"({BOMB * 1000},)")),
        (TEXT, b'{"format": 1, "a": [' + b"{}," * 3_000_000 + b"{}]}"),
        (TEXT, b'{"format": 1, "a": ' + b"[" * 10**6 + b"]" * 10**6 + b"}"),
    ],
)
def test_bombs_are_refused_before_they_go_off(crafted, member, content):
    path = crafted(**{member: content})
    assert (
        memory_of(lambda: refused(path, "it would unpack to|shape that it says|more than 2000000 parts|Recursion"))
        < 5e7
    )


def test_a_member_that_is_larger_than_it_says_is_not_unpacked(crafted):
    path = crafted(samples__npy=bytes(10**8))
    data = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):  # where directory and member tell the size
        name = data.rfind(b"samples.npy") if mark[2] == 1 else data.find(b"samples.npy")
        place = data.rfind(mark, 0, name)
        data[place + at : place + at + 4] = (1000).to_bytes(4, "little")
    path.write_bytes(data)
    assert memory_of(lambda: refused(path, "damaged")) < 3e7


def test_arrays_that_the_description_does_not_name_are_not_read(crafted):
    path = crafted(extra__npy=bytes(10**8))
    assert memory_of(lambda: tbq.load(path)) < 5e7
    assert tbq.load(path).log_evidence == tbq.load(ASSET).log_evidence


def test_processes_without_end_are_refused(crafted):
    n = 60_000  # whose covariance has 29 GB
    names = {f"surrogate__inner__gp__{k}__npy": npy(np.zeros(n)) for k in ("y", "noise")}
    path = crafted(**names, surrogate__inner__gp__x__npy=npy(np.zeros((n, 2))))
    assert memory_of(lambda: refused(path, "its surrogates need more than 2 GiB of memory")) < 5e7


def test_a_result_that_shrinks_like_a_bomb_can_be_saved_and_read(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_ROOM", 10**5)
    archive.write(tmp_path / "zeros.tbq", {"a": np.zeros(10**6)})
    np.testing.assert_array_equal(archive.read(tmp_path / "zeros.tbq")["a"], np.zeros(10**6))


def test_levels_are_bounded_on_both_sides(tmp_path, crafted):
    deep = {}
    for _ in range(300):
        deep = {"a": deep}
    with pytest.raises(tbq.TbqError, match="save: what is to be stored has more than 200 levels"):
        archive.write(tmp_path / "deep.tbq", deep)
    refused(crafted(lambda text: text.update(more=deep)), "its text has more than 200 levels")


# --- damage -------------------------------------------------------------------------------------------------


def samples(change):
    array = np.array(tbq.load(ASSET).samples)
    return {"samples__npy": npy(change(array))}


def with_nan(array):
    array[3, 1] = np.nan
    return array


@pytest.mark.parametrize(
    ("text", "members", "message"),
    [
        (None, samples(with_nan), "samples is not an array of finite numbers"),
        (None, samples(lambda a: a[:, :1]), r"samples has the shape \(\d+, 1\), which does not fit"),
        (None, samples(lambda a: a + 50.0), "draws outside the prior"),
        (None, samples(lambda a: a.astype("f4")), "samples is not an array of floats"),
        (None, {"samples__npy": None}, "There is no item named 'samples.npy'"),
        (None, {"result__json": None}, "There is no item named 'result.json'"),
        (None, {"result__json": b"[]"}, "its text is not a description"),
        (None, {"result__json": b"\xff\xfe{"}, "UnicodeDecodeError"),
        (lambda t: t.pop("errors"), {}, "there is no 'errors'"),
        (lambda t: t["errors"].update(check="much"), {}, "check of a ErrorBudget is 'much'"),
        (lambda t: t["errors"].update(colour=1.0), {}, "there is no 'colour'"),
        (lambda t: t.update(stop="\x1b[2JTIRED"), {}, r"there is no '\\x1b\[2JTIRED'"),
        (lambda t: t.update(format="\x1b]0;pwned\x07\n" * 99), {}, r"has format \\x1b\]0;pwned\\x07"),
        (lambda t: t.update(log_evidence=None), {}, "log_evidence is not a number"),
        (lambda t: t["errors"].update(check=10**400), {}, "too large to convert to float"),
        (lambda t: t["stages"][0].update(gamma=10**400), {}, "too large to convert to float"),
        (lambda t: t.update(log_evidence={"number": "nan"}), {}, "no runs, stages, draws or evidence"),
        (lambda t: t.update(evaluations=[]), {}, "no runs, stages, draws or evidence"),
        (lambda t: t.update(outage=["x", 1]), {}, "notes, outage or seed are not what they must be"),
        (None, samples(lambda a: a[:0]), "no runs, stages, draws or evidence"),
        (lambda t: t.update(samples=[[0.0, 1.0]]), {}, "samples is not an array"),
        (lambda t: t.update(squared_z=["x"]), {}, "weights or squared z-scores are not positive numbers"),
        (lambda t: t.update(stages=[]), {}, "no runs, stages"),
        (lambda t: t["evaluations"][0].update(theta=[0.0]), {}, "a run has no theta"),
        (lambda t: t["evaluations"][0].update(origin=3), {}, "a run has words for numbers"),
        (lambda t: t["prior"]["known_by"].update(names=["a", "c"]), {}, "prior must be the result's"),
        (lambda t: t["prior"]["known_by"]["log_density"].__setitem__(0, 9.0), {}, "prior must be the result's"),
        (lambda t: t["surrogate"].update(kind="oracle"), {}, "there is no 'oracle'"),
        (lambda t: t["surrogate"]["inner"]["gp"].update(kernel="magic"), {}, "there is no 'magic'"),
        (lambda t: t["surrogate"]["inner"]["gp"].update(basis="magic"), {}, "an unknown mean"),
        (lambda t: t["surrogate"]["inner"]["gp"].update(units=[0.0, 0.0]), {}, "numbers that no run has"),
        (lambda t: t["surrogate"]["inner"].update(inflation="big"), {}, "inflation is not a number"),
        (lambda t: t["surrogate"]["inner"].update(inflation=1e300), {}, "inflation is not a positive number"),
        (lambda t: t["surrogate"]["inner"]["warp"].update(top=[]), {}, "top is not a number"),
        (lambda t: t["likelihood"][0].update(scaled=3), {}, "does not say how its noise"),
        (lambda t: t.update(options={"tolerance": [0.1]}), {}, "options are not what they must be"),
        (
            lambda t: t.update(
                options={"tolerance": [0.1, 0.1], "tolerance_in_use": [0.1, 0.1], "max_evaluations": ""}
            ),
            {},
            "options are not what they must be",
        ),
        (
            lambda t: t["prior"]["marginals"].extend([t["prior"]["marginals"][0]] * 1000),
            {},
            "more than 1000 parameters",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(crafted, text, members, message):
    refused(crafted(text, **members), message)


def test_what_a_file_says_is_shown_by_a_terminal_and_not_obeyed(crafted):
    def steer(text):
        text["notes"], text["outage"] = ["\x1b[2Jnote"], "\x1b[2Joutage"
        for run in text["evaluations"][3:9]:
            run.update(status="failed", log_likelihood="nan", message="\x1b[2Jmessage")

    words = tbq.load(crafted(steer)).summary()
    assert "\x1b" not in words
    assert all(f"\\x1b[2J{said}" in words for said in ("note", "outage", "message"))


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    prior = tbq.Prior({"a": stats.uniform(-2, 4)})
    likelihood = tbq.GaussianLikelihood(lambda theta: [theta[0], 2.0 * theta[0]], [0.4, 0.9], 0.3)
    path = tmp_path_factory.mktemp("outputs") / "run.tbq"
    tbq.infer(likelihood, prior, algorithm="bq", seed=0, max_evaluations=14, population=200).save(path)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (lambda t: t["surrogate"]["components"][0].update(experiment=7), "belongs to no experiment"),
        (lambda t: t["surrogate"]["components"][0].update(logarithm_of=["x", 1.0]), "logarithm_of is not a number"),
        (lambda t: t["surrogate"].update(outside={"array": "samples"}), "outside is not an array"),
        (lambda t: t.update(likelihood=None), "there is no likelihood of them"),
        (lambda t: t["evaluations"][1].update(outputs=[1.0]), "a run has other outputs than were observed"),
    ],
)
def test_what_is_wrong_with_learned_outputs_is_said_too(crafted, outputs, text, message):
    refused(crafted(text, outputs), message)


def test_noise_parameters_that_their_prior_does_not_have_are_refused(tmp_path, crafted):
    prior = tbq.Prior({"a": stats.uniform(0, 2)})
    likelihood = tbq.GaussianLikelihood(lambda theta: theta * [1.0, 2.0], [1.0, 2.0], stats.halfnorm(0, 0.2))
    path = tmp_path / "noisy.tbq"
    tbq.infer(likelihood, prior, algorithm="bq", seed=0, max_evaluations=12, population=100).save(path)
    assert tbq.load(path).surrogate is not None
    phi = np.load(io.BytesIO(unpacked(path.read_bytes())["surrogate.rule.phi.npy"]))
    phi[3] = -1e300
    message = "noise parameters outside their prior"
    refused(crafted(None, path, surrogate__rule__phi__npy=npy(phi)), message)


def test_packing_that_we_do_not_use_is_refused(tmp_path):
    path = tmp_path / "packed.tbq"
    for packing in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path.write_bytes(packed(unpacked(ASSET.read_bytes()), packing))
        refused(path, "result.json is packed in a way that tbq does not use")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.tbq")
    refused(tmp_path / "pipe.tbq", "cannot be read: it is not a file")


def test_units_of_parameters_with_any_name_come_back(tmp_path):
    prior = tbq.Prior({"array": stats.uniform(0, 1)}, units={"array": "kg"})
    options = {"algorithm": "bq", "seed": 0, "max_evaluations": 12, "population": 100}
    tbq.infer(lambda theta: -theta[0], prior, **options).save(tmp_path / "run.tbq")
    assert tbq.load(tmp_path / "run.tbq").prior.units == {"array": "kg"}


def test_no_mutation_of_a_file_gets_anything_but_a_result_or_a_sentence():
    # the long version: python tests/fuzz_files.py 5000 SEED
    done = subprocess.run([sys.executable, str(SCRIPT), "200", "7"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["other"] == []
    assert found["refused"] + found["read"] == 200
    assert min(found["refused"], found["read"]) > 10
    assert found["grown"] < 300  # MiB


def test_files_tell_in_which_coordinates_a_surrogate_was_learned(tmp_path):
    prior = tbq.Prior({"a": stats.norm(), "b": stats.norm()}, correlation=[[1.0, 0.99], [0.99, 1.0]])
    run = lambda known: tbq.infer(lambda t: -0.5 * np.sum((t - 0.5) ** 2) / 0.04, known, max_evaluations=14, seed=1)
    result, early = run(prior), run(prior.unmixed)  # as results were before strong correlations were whitened
    for name, one in (("now", result), ("early", early)):
        one.save(tmp_path / name)
        again = tbq.load(tmp_path / name)
        np.testing.assert_array_equal(again.log_density(one.samples[:50]), one.log_density(one.samples[:50]))
    assert tbq.load(tmp_path / "early").prior.mixing is None
    assert tbq.load(tmp_path / "now").prior.mixing is not None


def test_a_local_surrogate_comes_back_with_its_guard():
    prior = tbq.Prior({"a": stats.uniform(-1, 2), "b": stats.uniform(-1, 2)})
    z = prior.to_working(prior.sample(40, 0))
    z[20:] *= 0.1
    y = -0.5 * np.sum((z / 0.05) ** 2, axis=1)
    data = Data(z, y, np.full(40, 1e-6), 1.0, Frame.of(z), Tuning(), far=True, found=True)
    _, memory = selection.fit(data, "auto", selection.Memory())
    model = next(m for m in memory.warm if m.local)
    surrogate, _ = selection.fit(data, "auto", dataclasses.replace(memory, model=model))
    again = rebuilt(describe(surrogate), Context(prior, None))
    assert surrogate.local
    assert again.local
    new = prior.to_working(prior.sample(50, 1))
    np.testing.assert_allclose(again.at(new).mean, surrogate.at(new).mean, rtol=1e-6)
    np.testing.assert_array_equal(np.isnan(again.left_out(z)[0]), np.isnan(surrogate.left_out(z)[0]))
    old = {k: v for k, v in describe(surrogate).items() if k != "local"}  # as files were before
    assert not rebuilt(old, Context(prior, None)).local
