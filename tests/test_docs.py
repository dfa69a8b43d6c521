"""What the README and the docs show is what runs."""

import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import tbq
from tbq.evaluation import Status

matplotlib.use("Agg")
ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(scope="module")
def readme_result():
    return runpy.run_path(str(ROOT / "examples/readme.py"))["result"]


def test_the_readmes_example_is_the_file_that_is_run():
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert blocks == [(ROOT / "examples/readme.py").read_text()]
    assert sum(bool(line.strip()) for line in blocks[0].splitlines()) <= 15


def test_the_readmes_case_is_the_file_that_is_run():
    text = (ROOT / "README.md").read_text()
    assert re.findall(r"```toml\n(.*?)```", text, re.S) == [(ROOT / "examples/external/case.toml").read_text()]


def test_every_key_of_a_case_is_documented():
    from tbq import config

    sections = re.split(r"^## ", (ROOT / "docs/case_file.md").read_text(), flags=re.M)
    keys = {s.split("`")[1]: set(re.findall(r"`(\w+)`", s)) for s in sections}
    assert keys["[run]"] - {"infer"} == set(config.RunTable.model_fields)
    assert keys["[data]"] >= set(config.DataTable.model_fields)
    for table in (config.PythonTable, config.CommandTable, config.UmBridgeTable):
        assert keys["[model]"] >= set(table.model_fields)


def test_the_readmes_output_is_real(readme_result):
    text = (ROOT / "README.md").read_text()
    printed = re.search(r"log evidence   (-?[\d.]+) ± ([\d.]+)", text)
    assert printed is not None
    # other processors round differently and may take another path: the claim is the number and its error
    sd = np.hypot(float(printed[2]), readme_result.log_evidence_sd)
    assert readme_result.log_evidence == pytest.approx(float(printed[1]), abs=3 * sd)
    same = lambda summary: summary[summary.index("log evidence") : summary.index("\nstage")]  # on any processor
    shape = lambda summary: [re.sub(r"[-\d.e+]+", "0", line).split()[:1] for line in same(summary).splitlines()]
    output = re.search(r"```text\n(.*?)```", text, re.S)
    assert output is not None
    assert shape(output[1]) == shape(readme_result.summary())


def test_the_readmes_claims_about_its_example(readme_result):
    assert readme_result.evidence == pytest.approx(1.51e-3, rel=0.15)
    below = np.mean(readme_result.samples[:, 0] < readme_result.samples[:, 1])
    assert 0.3 < below < 0.7  # both frames are found


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_attribute_in_the_readmes_table_exists(readme_result):
    rows = re.findall(r"^\| `(result\..*?)\` \|", (ROOT / "README.md").read_text(), re.M)
    for name in re.findall(r"result\.(\w+)", " ".join(rows)):
        assert hasattr(readme_result, name)


def test_the_demo_leaves_a_picture_and_a_summary(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    demo = runpy.run_path(str(ROOT / "examples/demo.py"))
    result = demo["main"]("u2")
    assert (tmp_path / "demo/u2.png").stat().st_size > 10_000
    assert "exact evidence" in (tmp_path / "demo/u2.txt").read_text()
    assert "Picture and summary are in" in capsys.readouterr().out
    assert result.converged


@pytest.mark.skipif(find_spec("skfem") is None, reason="needs scikit-fem: pip install 'tbq[fem]'")
def test_the_battery_runs_on_a_process_pool_and_leaves_pictures(tmp_path, capsys):
    example = runpy.run_path(str(ROOT / "examples/battery.py"))
    result = example["main"](str(tmp_path), max_evaluations=28)
    assert len(tbq.journal.read(tmp_path / "battery").evaluations) == 28
    assert [e.status for e in result.evaluations] == [Status.OK] * 28
    assert not result.converged
    assert "reference evidence 2.336e-04" in capsys.readouterr().out
    for name in ("marginals", "pairs"):
        assert (tmp_path / f"battery_{name}.png").stat().st_size > 10_000


def test_plots_say_what_they_need():
    from tbq import plots

    result = tbq.infer(lambda theta: -0.5 * theta[0] ** 2, tbq.Prior({"x": tbq_normal()}), seed=0, max_evaluations=28)
    with pytest.raises(tbq.TbqError, match="needs two parameters; the result has 1"):
        plots.posterior_density(result, plots.pyplot().figure().gca())
    axes = plots.convergence(result, plots.pyplot().figure().gca())
    assert axes.get_xlabel() == "runs"
    plots.pyplot().close("all")


def tbq_normal():
    from scipy import stats

    return stats.norm()
