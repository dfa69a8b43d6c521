"""What the README and the documentation show is what runs, and the site that is made of it is whole."""

import importlib
import re
import runpy
import shutil
import socket
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import matplotlib
import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.problem.evaluation import Status

matplotlib.use("Agg")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import pages  # noqa: E402

README = ROOT / "README.md"
PAGES = [p for p in pages.pages() if p != README and pages.runs(p.read_text())]
name = lambda page: str(page.relative_to(ROOT))

NEEDED = {
    "tutorials/battery.md": ["skfem"],
    "tutorials/levels.md": ["skfem"],
    "tutorials/opensees.md": ["openseespy.opensees"],
    "howto/cluster.md": ["distributed", "mpi4py"],
    "howto/simulator.md": ["umbridge"],
    "sharing.md": ["arviz", "corner", "getdist"],
}
PROGRAMS = {"tutorials/calculix.md": ("ccx", "CalculiX is not installed: apt-get install calculix-ccx")}


def compare(page, done, folder):
    """What a page prints, and the figures that it leaves, are those that it shows."""
    text = page.read_text()
    shown = pages.shown(text)
    for block, output in done.printed:
        if block.line in shown:
            assert pages.shape(shown[block.line].body) == pages.shape(output), f"{page}, line {block.line}"
        else:
            assert block.kind != "python" or not output.strip(), f"{page}, line {block.line}: the output is not shown"
    for figure in pages.figures(text):
        assert (folder / figure).stat().st_size > 5_000
        assert (pages.FIGURES / figure).exists()


@pytest.mark.filterwarnings("ignore")  # of other libraries, about each other
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_does_what_it_shows(page, tmp_path):
    where = str(page.relative_to(ROOT / "docs"))
    for module in NEEDED.get(where, []):
        try:
            importlib.import_module(module)
        except (ImportError, RuntimeError):  # which OpenSees raises where there is no BLAS library
            pytest.skip(f"{module} cannot be imported")
    program, why = PROGRAMS.get(where, ("sh", ""))
    if shutil.which(program) is None:
        pytest.skip(why)
    compare(page, pages.run(page, tmp_path), tmp_path)


def test_every_figure_of_a_page_is_shown_somewhere():
    shown = {figure for page in pages.pages() for figure in pages.figures(page.read_text())}
    assert {p.name for p in pages.FIGURES.iterdir()} == shown


def test_outputs_are_compared_without_their_digits_but_not_without_their_words():
    assert pages.shape("a 1.5e-3 ± 0.2\n1 2 %\n2 3 %\n") == pages.shape("a −17 ± 4\n1 2 %\n")
    assert pages.shape("took 0.3 s") == pages.shape("took 2.0 min")
    assert pages.shape("converged: True") != pages.shape("converged: False")


def test_every_block_is_of_a_kind_that_is_run_or_known():
    for page in pages.pages():
        for block in pages.blocks(page.read_text()):
            is_file = block.body.startswith("# file: ") or page == README
            assert block.kind in ("python", "sh", "run", "text") or is_file, f"{page}, line {block.line}: {block.kind}"


def test_commands_that_are_not_run_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for page in pages.pages():
        text = page.read_text()
        assert set(re.findall(r"\bmake (\w+)", "".join(re.findall(r"```sh\n(.*?)```", text, re.S)))) <= targets
        for wanted in re.findall(r"pip install '[\w.]+\[([\w,]+)\]'", text):
            assert set(wanted.split(",")) <= extras, page


def test_the_table_of_acquisition_functions_is_that_of_the_runs():
    page = runpy.run_path(str(ROOT / "benchmarks/acquisitions.py"))["page"]()
    assert (ROOT / "docs/benchmarks/acquisitions.md").read_text() == page


def test_the_tables_of_the_readme_are_those_of_the_runs():
    overview = runpy.run_path(str(ROOT / "benchmarks/overview.py"))
    for page in overview["PAGES"]:
        assert overview["fill"](page.read_text()) == page.read_text()
        assert overview["table"]() in page.read_text()


# --- the README ---------------------------------------------------------------------------------------------


def frame_log_evidence():
    """Of the frame of the case files, by quadrature over the prior's quantiles."""
    u = (np.arange(1200) + 0.5) / 1200
    k1 = 29.7e6 * stats.lognorm(0.498, scale=1.67).ppf(u)[:, None]
    k2 = 29.7e6 * stats.lognorm(0.627, scale=1.18).ppf(u)[None, :]
    m1, m2 = 16.5e3, 16.1e3
    half, product = ((k1 + k2) / m1 + k2 / m2) / 2, k1 * k2 / (m1 * m2)
    frequencies = [np.sqrt(half + sign * np.sqrt(half**2 - product)) / (2 * np.pi) for sign in (-1, 1)]
    log_likelihood = stats.norm.logpdf(frequencies[0], 3.13, 0.1) + stats.norm.logpdf(frequencies[1], 9.83, 0.3)
    return np.log(np.mean(np.exp(log_likelihood)))


@pytest.mark.skipif(find_spec("umbridge") is None, reason="needs umbridge: pip install umbridge")
def test_the_readme_does_what_it_shows(tmp_path):
    with socket.socket() as s:
        if s.connect_ex(("127.0.0.1", 4242)) == 0:
            pytest.skip("something else uses port 4242")
    done = pages.run(README, tmp_path)
    compare(README, done, tmp_path)
    result = done.scope["result"]
    assert result.evidence == pytest.approx(1.51e-3, rel=0.15)
    assert 0.3 < np.mean(result.samples[:, 0] < result.samples[:, 1]) < 0.7  # both frames are found
    rows = re.findall(r"^\| `(result\..*?)\` \|", README.read_text(), re.M)
    assert all(hasattr(result, attribute) for attribute in re.findall(r"result\.(\w+)", " ".join(rows)))
    for run in ("case", "umbridge"):
        summary = (tmp_path / "runs" / run / "summary.txt").read_text()
        found = re.search(r"log evidence +(\S+) ± (\S+)", summary)
        assert float(found[1]) == pytest.approx(frame_log_evidence(), abs=3 * float(found[2]))
    assert (tmp_path / "runs/case/report.html").exists()


def test_the_readmes_example_is_the_file_that_is_run():
    text = README.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert blocks == [(ROOT / "examples/readme.py").read_text()]
    assert sum(bool(line.strip()) for line in blocks[0].splitlines()) <= 15
    assert re.findall(r"```toml\n(.*?)```", text, re.S) == [(ROOT / "examples/external/case.toml").read_text()]


# --- the site -----------------------------------------------------------------------------------------------


def build(source, target):
    pytest.importorskip("furo", reason="the site is built with Sphinx: pip install --group docs")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    return subprocess.run([*command, "-c", ROOT / "docs", source, target], check=False, capture_output=True, text=True)


class Links(HTMLParser):
    """Targets, and what a browser would fetch, of a page."""

    def __init__(self, page):
        super().__init__()
        self.anchors, self.links, self.fetched = set(), [], []
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[a] for a in ("id", "name") if a in attributes}
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        self.fetched += [attributes[a] for a in ("src", "srcset", "data") if a in attributes]
        if tag == "link":
            self.fetched.append(attributes["href"])


def test_the_site_is_built_without_a_warning_and_is_whole(tmp_path):
    built = build(ROOT / "docs", tmp_path)
    assert built.returncode == 0, built.stderr
    sites = {page.resolve(): Links(page) for page in tmp_path.rglob("*.html")}
    assert len(sites) > 25
    for page, found in sites.items():
        for link in found.links + found.fetched:
            url = urlsplit(link)
            if url.scheme:
                assert link in found.links, f"{page.name} fetches {link}"
                continue
            target = (page.parent / unquote(url.path)).resolve() if url.path else page
            assert target.exists(), f"{page.name} links to {link}"
            if url.fragment and target in sites:
                assert unquote(url.fragment) in sites[target].anchors, f"{page.name} links to {link}"
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text()), style
    theory = sites[(tmp_path / "theory.html").resolve()]
    assert sum(link.startswith("api/") for link in theory.links) > 40
    assert "<math" in (tmp_path / "theory.html").read_text()


def test_a_broken_name_link_or_formula_breaks_the_build(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source/index.md").write_text("# Title\n\n[x](#tbq.nothing) [y](nowhere.md) $\\nonsense$\n")
    built = build(tmp_path / "source", tmp_path / "site")
    assert built.returncode != 0
    for broken in ("tbq.nothing", "nowhere.md", "nonsense"):
        assert broken in built.stderr


@pytest.mark.parametrize("page", pages.pages(), ids=name)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_key_of_a_case_is_documented():
    from tbq.cli import casefile

    sections = re.split(r"^## ", (ROOT / "docs/case_file.md").read_text(), flags=re.M)
    keys = {s.split("`")[1]: set(re.findall(r"`(\w+)`", s)) for s in sections}
    assert keys["[run]"] - {"infer"} == set(casefile.RunTable.model_fields)
    assert keys["[data]"] >= set(casefile.DataTable.model_fields)
    assert keys["[[outputs]]"] >= set(casefile.OutputTable.model_fields)
    for table in (casefile.PythonTable, casefile.CommandTable, casefile.UmBridgeTable):
        assert keys["[model]"] >= set(table.model_fields)


def test_the_reference_of_the_command_line_is_that_of_its_parser():
    import commands

    assert commands.PAGE.read_text() == commands.reference(), "python docs/commands.py writes it"


# --- the examples -------------------------------------------------------------------------------------------


def test_the_demo_leaves_a_picture_and_a_summary(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    demo = runpy.run_path(str(ROOT / "examples/demo.py"))
    result = demo["main"]("u2")
    assert (tmp_path / "demo/u2.png").stat().st_size > 10_000
    assert "exact evidence" in (tmp_path / "demo/u2.txt").read_text()
    assert "Picture, report and summary are in" in capsys.readouterr().out
    assert result.converged


@pytest.mark.skipif(find_spec("skfem") is None, reason="needs scikit-fem: pip install 'tbq[fem]'")
def test_the_battery_runs_on_a_process_pool_and_leaves_pictures(tmp_path, capsys):
    example = runpy.run_path(str(ROOT / "examples/battery.py"))
    result = example["main"](str(tmp_path), max_evaluations=16)
    assert len(tbq.journal.read(tmp_path / "battery").evaluations) == 16
    assert [e.status for e in result.evaluations] == [Status.OK] * 16
    assert not result.converged
    assert "reference evidence 2.336e-04" in capsys.readouterr().out
    for picture in ("marginals", "pairs"):
        assert (tmp_path / f"battery_{picture}.png").stat().st_size > 10_000


def test_plots_say_what_they_need():
    from tbq.report import plots

    result = tbq.infer(lambda theta: -0.5 * theta[0] ** 2, tbq.Prior({"x": stats.norm()}), seed=0, max_evaluations=28)
    with pytest.raises(tbq.TbqError, match="needs two parameters; the result has 1"):
        plots.posterior_density(result, plots.pyplot().figure().gca())
    axes = plots.convergence(result, plots.pyplot().figure().gca())
    assert axes.get_xlabel() == "runs"
    plots.pyplot().close("all")
