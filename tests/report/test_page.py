"""The report: one file, nothing from elsewhere, text of users only shown; in a real browser where there is one."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import tbq
from tbq.cli import casefile, live
from tbq.cli.app import app
from tbq.problem.evaluation import Status
from tbq.report import fit, history, parts
from tbq.report import page as pages
from tbq.report.summary import log_evidence
from tbq.run.session import Session

matplotlib.use("Agg")
BROWSER = next((b for b in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if b), None)
EVIL = "</script><script>document.title='run'</script><img src=x onerror=\"document.title='run'\">&<b>"
PRIOR = tbq.Prior({"k": stats.uniform(-4, 8), EVIL: stats.uniform(-4, 8)}, units={"k": "MN/m"})
WIDTHS = {"laptop": 1366, "phone": 390}


def log_likelihood(theta):
    if theta[0] > 3.2:
        raise ValueError(EVIL)
    return float(-2.0 * (theta[0] - 1) ** 2 - 2.0 * theta[1] ** 2)


@pytest.fixture(scope="module")
def result():
    return tbq.infer(log_likelihood, PRIOR, seed=0, population=512, max_evaluations=30)


@pytest.fixture(scope="module")
def path(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "run.html"
    pages.write(result, path, title=EVIL)
    return path


class Page(HTMLParser):
    """Tags with their attributes, and the text between them; unclosed tags are noticed."""

    VOID = frozenset(("meta", "link", "img"))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.open, self.scripts = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def page(path):
    return Page(path.read_text(encoding="utf-8"))


# --- what is in it ------------------------------------------------------------------------------------------


def test_it_says_what_the_summary_says(page, result):
    for line in result.summary().splitlines()[:2]:
        assert line in page.text
    assert f"log evidence {result.log_evidence:.4f} ± {result.log_evidence_sd:.4f}" in page.text
    assert "k [MN/m]" in page.text
    for f in tbq.diagnostics.findings(result):
        assert f.sentence in page.text
        assert (f.advice in page.text) is not f.ok
    assert tbq.diagnostics.unseen(result) in page.text
    for words in ("part of the error", "narrowed by", "effective points", "in the log-likelihood"):
        assert words in page.text


def pictures(page):
    return [a for tag, a in page.tags if tag == "svg" and a.get("role") == "img"]


def test_every_picture_is_there_and_has_a_caption(page):
    assert len(pictures(page)) == 11
    captions = [a["aria-label"] for a in pictures(page)]
    assert all(caption and caption in page.text for caption in captions)


def test_marks_of_pictures_are_their_own_and_colours_the_page_s(page, path):
    marks = [a["id"] for _, a in page.tags if "id" in a]
    assert len(marks) == len(set(marks))
    text = path.read_text(encoding="utf-8")
    used = set(re.findall(r'(?:href="#|url\(#)([^")]*)', text))
    assert used <= set(marks)
    assert "var(--ink, #1d2430)" in text
    assert not re.search(r"(fill|stroke): #1d2430", text)


def test_it_documents_the_calculation(page, result):
    for words in (
        "uniform from -4 to 4",
        "seed 0",
        "versions tbq",
        "max_evaluations 30",
        "What matters",
        "first order",
    ):
        assert words in page.text
    rows = page.text.partition(f"All {result.n_evaluations} runs in a table")[2]
    for e in result.evaluations:
        assert f"{e.theta[0]:.5g} {e.theta[1]:.5g}" in rows


def test_what_failed_runs_said_is_counted(page, result):
    failed = sum(e.status.is_failure for e in result.evaluations)
    assert failed > 0
    assert f"failed runs said times ValueError: {' '.join(EVIL.split())} {failed}" in page.text
    many = [replace(e, status=Status.FAILED, message=f"stuck at {i}") for i, e in enumerate(result.evaluations)]
    text = Page(history._failures(replace(result, evaluations=tuple(many)))).text
    assert "stuck at 0 1" in text
    assert f"{len(many) - 4} other messages, in the table of runs {len(many) - 4}" in text


def outputs(theta):
    return np.array([theta[0], theta[0] * theta[1], theta[1] ** 2])


@pytest.fixture(scope="module")
def fitted():
    names = ("sag", EVIL, "drift")
    likelihood = tbq.GaussianLikelihood(outputs, [1.0, 0.5, 0.3], 0.1, names=names, units=("mm", "", "%"))
    return tbq.infer(likelihood, PRIOR, seed=0, population=512, progress=False)


def test_the_fit_to_the_data_is_shown_by_name_with_true_runs_where_there_are_some(fitted, tmp_path):
    fitted.report(tmp_path / "a.html", true_runs=fitted.verify(6, seed=0))
    text = Page((tmp_path / "a.html").read_text(encoding="utf-8")).text
    assert "orange: by 6 true runs" in text
    assert "3 of 3 data lie in their 90 % predictive interval" in text
    assert "sag [mm] 1 0.1" in text
    of_data = lambda runs: fit.of_data(fitted, parts.Pictures(), runs)
    assert "orange: by 5 true runs" in of_data(fitted.predict(n=5, seed=0))
    with pytest.raises(
        tbq.TbqError, match=r"true_runs must be what result.verify or result.predict returned; got list"
    ):
        of_data([1.0])
    with pytest.raises(tbq.TbqError, match=r"true_runs must have the 3 outputs that were observed; got 1"):
        of_data(fitted.predict(lambda theta: theta[0], n=5, seed=0))


def test_a_table_that_would_fill_pages_is_not_printed(fitted):
    long = parts.details("All", "<p>many rows</p>", on_paper=False)
    assert long.startswith('<details class="screen">')
    assert 'class="screen"' not in pages.body(fitted)  # a few rows are


def test_modes_have_a_table_where_there_are_several():
    two = lambda t: float(np.logaddexp(*(-0.5 * ((t[0] - c) ** 2 + t[1] ** 2) / 0.3**2 for c in (-2.0, 2.0))))
    result = tbq.infer(two, PRIOR, seed=0, population=512, progress=False)
    text = Page(pages._modes(result)).text
    assert "The posterior has 2 separate modes" in text
    for mode in result.modes:
        assert f"{100 * mode.mass:.1f} ± {100 * mode.mass_sd:.1f} %" in text


def test_it_is_small_and_its_left_out_parameters_are_named(tmp_path):
    prior = tbq.Prior({f"x{i}": stats.norm(0, 1) for i in range(12)})
    result = tbq.infer(lambda t: -8.0 * float(t[:11] @ t[:11]), prior, seed=0, population=256, max_evaluations=40)
    result.report(tmp_path / "a.html")
    assert (tmp_path / "a.html").stat().st_size < 3_000_000
    shown = tbq.plots.most_narrowed(result)
    left = ", ".join(n for n in prior.names if n not in shown)
    page = Page((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert f"left out: {left}." in page.text
    first = json.loads(next(s for s in page.scripts if s.startswith("{")))["start"]  # columns; that of the runs is 0
    assert [prior.names[i - 1] for i in first] == tbq.plots.most_narrowed(result, 2)


def test_it_loads_nothing_from_elsewhere(page, path):
    links = [a[key] for _, a in page.tags for key in ("src", "href", "xlink:href") if key in a]
    assert all(link.startswith(("data:", "#")) for link in links)
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "@import" not in path.read_text(encoding="utf-8")
    assert not re.search(r"url\((?!#)", path.read_text(encoding="utf-8"))


def test_text_of_the_user_is_shown_and_never_run(page, result):
    assert any(e.message.endswith(EVIL) for e in result.evaluations)
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 2
    assert "b" not in {tag for tag, a in page.tags if tag == "b" and a}
    assert EVIL in page.text
    data = json.loads(next(s for s in page.scripts if s.startswith("{")))
    assert data["columns"] == ["run", "k [MN/m]", EVIL, "log-likelihood", "seconds"]


def test_the_explorer_has_every_run(page, result):
    data = json.loads(next(s for s in page.scripts if s.startswith("{")))
    assert len(data["runs"]) == result.n_evaluations
    for run, e in zip(data["runs"], result.evaluations, strict=True):
        assert run["values"][:3] == [e.id, *e.theta]
        assert run["values"][3] == (e.log_likelihood if np.isfinite(e.log_likelihood) else None)
        assert (run["status"], run["message"]) == (str(e.status), e.message)
    assert 200 < len(data["draws"]) <= 800


@pytest.mark.parametrize(("dim", "count"), [(1, 8), (3, 9)])
def test_reports_of_other_dimensions(dim, count, tmp_path):
    prior = tbq.Prior({f"x{i}": stats.norm() for i in range(dim)})
    result = tbq.infer(lambda t: -2.0 * float(t @ t), prior, seed=0, population=256, max_evaluations=20)
    result.report(tmp_path / "a.html")
    page = Page((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert len(pictures(page)) == count


def test_a_report_where_nothing_was_learned(tmp_path):
    def never(theta):
        raise ValueError("no licence")

    tbq.infer(never, PRIOR, seed=0, max_evaluations=12, outage_after=(np.inf, np.inf)).report(tmp_path / "a.html")
    page = Page((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert "Too few evaluations succeeded" in page.text
    assert "12 failed" in page.text
    assert "no licence" in "".join(page.scripts)


def test_a_path_that_cannot_be_written(tmp_path):
    result = tbq.Session(PRIOR).result()
    with pytest.raises(tbq.TbqError, match=r"report: .* cannot be written: No such file or directory"):
        result.report(tmp_path / "nowhere" / "a.html")
    with pytest.raises(tbq.TbqError, match=r"report: path must be the name of a file; got '\.'"):
        result.report(".")


def test_a_result_that_was_saved_is_reported_alike(result, page, tmp_path):
    result.save(tmp_path / "a.tbq")
    loaded = tbq.load(tmp_path / "a.tbq")
    assert loaded.prior.labels == result.prior.labels
    assert loaded.summary() == result.summary()


# --- of a run's folder --------------------------------------------------------------------------------------

CASE = """
title = "A <spring>"
[parameters]
k = {distribution = "uniform", low = 0.0, high = 2.0, unit = "N/m"}
[model]
python = "nobody:calls_it"
returns = "log_likelihood"
[run]
seed = 3
population = 256
max_evaluations = 20
tolerance = 1e-4
"""


def spring(theta):
    return float(-0.5 * ((theta[0] - 1.2) / 0.1) ** 2)


def tell(session, n):
    for _ in range(n):
        for p in session.ask(1):
            session.tell(p.id, log_likelihood=spring(p.theta), seconds=1.0)


def test_a_run_is_reported_while_it_goes_on_and_when_it_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "_EVERY", 0.05)
    (tmp_path / "case.toml").write_text(CASE)
    case = casefile.load(tmp_path / "case.toml")
    with Session.of(case.prior(), case.settings(), seed=3, journal=tmp_path) as session:
        pages = live.of_folder(tmp_path)
        tell(session, 4)
        early, goes_on = next(pages)
        assert goes_on
        assert 'http-equiv="refresh"' in early
        assert "The run is not finished." in Page(early).text
        tell(session, 12)
        later = Page(next(pages)[0])
        assert f"log evidence {log_evidence(session.result())}" in later.text
        assert "A <spring>" in later.text
        assert "k [N/m]" in later.text
        while not session.done:
            tell(session, 1)
        final = session.result()
    last, goes_on = next(pages)
    assert not goes_on
    assert 'http-equiv="refresh"' not in last
    assert f"log evidence {log_evidence(final)}" in Page(last).text
    assert list(pages) == []


def test_a_run_that_learns_outputs_is_replayed_with_its_likelihood(tmp_path):
    data = 'python = "nobody:calls_it"\n[data]\nobserved = [1.2, 1.4]\nnoise = 0.1\n'
    (tmp_path / "case.toml").write_text(
        re.sub(r'python = .*?\nreturns = "log_likelihood"\n', lambda _: data, CASE, flags=re.S)
    )
    case = casefile.load(tmp_path / "case.toml")
    likelihood = case.log_likelihood(lambda theta: np.array([theta[0], theta[0] ** 2]))
    result = tbq.infer(likelihood, case.prior(), journal=tmp_path, **case.arguments())
    assert "outputs" in result.surrogate.description
    ((text, goes_on),) = live.of_folder(tmp_path)
    assert not goes_on
    assert f"log evidence {log_evidence(result)}" in Page(text).text


def test_the_command_writes_the_report_of_a_folder(tmp_path):
    (tmp_path / "case.toml").write_text(CASE)
    case = casefile.load(tmp_path / "case.toml")
    tbq.infer(spring, case.prior(), journal=tmp_path, **case.arguments())
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.output.strip() == str(tmp_path / "report.html")
    assert "Can it be trusted?" in Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    done = CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(tmp_path / "b.html"), "--watch"])
    assert done.exit_code == 0
    assert (tmp_path / "b.html").exists()


def test_a_journal_without_a_case_has_its_prior_and_makes_the_whole_report(tmp_path):
    tbq.infer(spring, tbq.Prior({"k": stats.uniform(0, 2)}), journal=tmp_path, seed=0, max_evaluations=14)
    assert CliRunner().invoke(app, ["report", str(tmp_path)]).exit_code == 0
    assert "Can it be trusted?" in Page((tmp_path / "report.html").read_text(encoding="utf-8")).text


def test_a_journal_that_does_not_hold_its_prior_still_shows_its_runs(tmp_path):
    prior = tbq.Prior({"k": stats.uniform(0, 2)}, constraint=lambda theta: theta[0] < 1.9)
    result = tbq.infer(spring, prior, journal=tmp_path, seed=0, max_evaluations=14)
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 0, done.output
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert result.stop.value in page.text
    assert "has a constraint, which no file holds; give it: tbq.load(path, prior=...)" in page.text
    assert "result.report(path)" in page.text
    assert len(json.loads(next(s for s in page.scripts if s.startswith("{")))["runs"]) == result.n_evaluations


def test_a_folder_without_a_journal(tmp_path):
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 2
    assert "journal: there is none" in done.output


# --- in a browser -------------------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium found: apt-get install chromium")


def browse(path, folder, script, width=None, extra=()):
    """The page after its scripts and ours have run, and what they wrote to the console.

    A window cannot be as narrow as a phone's: there the page is in a frame of the ``width``.
    """
    text = path.read_text(encoding="utf-8").replace("</body>", f"<script>{script}</script></body>")
    if width is not None:
        text = f'<body style="margin:0"><iframe style="width:{width}px;height:900px;border:0" srcdoc="{escape(text)}">'
    copy = folder / "page.html"
    copy.write_text(text, encoding="utf-8")
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1600,900",
        "--virtual-time-budget=2000",
        "--dump-dom",
        *extra,
        f"file://{copy}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


MEASURE = """
const d = document.documentElement, small = [];
document.querySelectorAll("p, td, th, li, figcaption, svg text").forEach((e) => {
  if (parseFloat(getComputedStyle(e).fontSize) < 12) small.push(e.tagName);
});
const explorer = document.getElementById("explorer").getBoundingClientRect();
parent.document.documentElement.dataset.measured = [d.scrollWidth, innerWidth, small.length, explorer.width,
  document.querySelectorAll(".run").length, document.title === "run"].join(" ");
"""


@needs_browser
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_it_is_readable_and_quiet(path, result, tmp_path, width):
    dom, console = browse(path, tmp_path, MEASURE, width)
    assert console == []
    page, window, small, explorer, dots, hacked = re.search(r'data-measured="([^"]*)"', dom)[1].split()
    assert int(page) <= int(window) == width  # nothing sticks out; wide tables and pictures scroll in themselves
    assert int(small) == 0
    assert float(explorer) > 0.8 * width
    assert int(dots) == result.n_evaluations
    assert hacked == "false"


POINT = """
const choose = document.getElementById("y");
choose.value = "1";
choose.dispatchEvent(new Event("change"));
const dots = document.querySelectorAll(".run");
dots[2].dispatchEvent(new Event("mouseenter"));
document.documentElement.dataset.dots = dots.length;
"""


@needs_browser
def test_a_run_that_is_pointed_at_tells_its_story(path, result, tmp_path):
    dom, console = browse(path, tmp_path, POINT)
    assert console == []
    assert f'data-dots="{result.n_evaluations}"' in dom  # over the parameters, failed runs have a place too
    told = re.search(r'id="told"[^>]*>([^<]*)<', dom)[1]
    assert told.startswith(f"Run 2: {result.evaluations[2].status}, chosen by initial; run = 2, k [MN/m] = ")
    assert f"k [MN/m] = {float(f'{result.evaluations[2].theta[0]:.4g}')}" in told


SORT = """
const table = [...document.querySelectorAll("table.sortable")].pop();
const heads = [...table.tHead.rows[0].cells].map((h) => h.textContent);
const column = (name) => [...table.tBodies[0].rows].map((r) => r.cells[heads.indexOf(name)].textContent);
const button = table.tHead.rows[0].cells[heads.indexOf("log-likelihood")].querySelector("button");
button.click();
const up = column("log-likelihood");
button.click();
parent.document.documentElement.dataset.sorted = JSON.stringify([up, column("log-likelihood"), column("run")]);
"""


@needs_browser
def test_the_table_of_runs_is_sorted_by_numbers_and_what_is_missing_comes_last(path, result, tmp_path):
    dom, console = browse(path, tmp_path, SORT)
    assert console == []
    up, down, order = json.loads(unescape(re.search(r'data-sorted="([^"]*)"', dom)[1]))
    known = sorted(e.log_likelihood for e in result.evaluations if np.isfinite(e.log_likelihood))
    failed = result.n_evaluations - len(known)
    assert failed > 0
    np.testing.assert_allclose([float(v) for v in up[: len(known)]], known, rtol=1e-5)
    np.testing.assert_allclose([float(v) for v in down[: len(known)]], known[::-1], rtol=1e-5)
    assert up[len(known) :] == down[len(known) :] == [""] * failed
    best = max(result.evaluations, key=lambda e: e.log_likelihood if np.isfinite(e.log_likelihood) else -np.inf)
    assert order[0] == str(best.id)


SAVE = """
const saved = [];
HTMLAnchorElement.prototype.click = function () { saved.push(this.download + " " + this.href.slice(0, 40));
  document.documentElement.dataset.saved = saved.join("|");
  document.documentElement.dataset.svg = saved.length === 1 ? encodeURIComponent(decodeURIComponent(this.href)) : ""; };
const buttons = [...document.querySelectorAll("figure .save")];
document.documentElement.dataset.buttons = buttons.length;
buttons[0].click(); document.documentElement.dataset.first = document.documentElement.dataset.svg;
buttons[1].click();
"""


@needs_browser
def test_pictures_are_saved_as_svg_and_png_that_need_no_page(path, page, tmp_path):
    dom, console = browse(path, tmp_path, SAVE)
    assert console == []
    assert f'data-buttons="{2 * len(pictures(page))}"' in dom
    svg, png = re.search(r'data-saved="([^"]*)"', dom)[1].split("|")
    assert svg.startswith("figure-1.svg data:image/svg+xml")
    assert png.startswith("figure-1.png data:image/png")
    text = unquote(re.search(r'data-first="([^"]*)"', dom)[1]).partition(",")[2]
    assert "var(" not in text
    assert ElementTree.fromstring(text).tag.endswith("svg")


DARK = """
const style = getComputedStyle(document.body), axis = document.querySelector("figure svg path[style*='--ink']");
document.documentElement.dataset.look = [style.backgroundColor, style.color,
  axis ? getComputedStyle(axis).stroke : ""].join("|");
"""


@needs_browser
@pytest.mark.parametrize(("scheme", "light"), [("1", True), ("0", False)], ids=["light", "dark"])
def test_pictures_follow_a_dark_page(path, tmp_path, scheme, light):
    dom, _ = browse(path, tmp_path, DARK, extra=[f"--blink-settings=preferredColorScheme={scheme}"])
    ground, ink, stroke = re.search(r'data-look="([^"]*)"', dom)[1].split("|")
    shade = lambda colour: sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
    assert (shade(ground) > 128) is light
    assert (shade(ink) < 128) is light
    assert abs(shade(ground) - shade(ink)) > 150
    assert stroke == ink


KEYS = """
const dots = document.querySelectorAll(".run");
const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
dots[0].focus(); press("ArrowRight"); press("ArrowRight"); press("ArrowLeft"); press("ArrowLeft"); press("ArrowLeft");
document.documentElement.dataset.stops = document.querySelectorAll('.run[tabindex="0"]').length;
"""


@needs_browser
def test_runs_can_be_gone_through_with_the_keyboard(path, result, tmp_path):
    dom, console = browse(path, tmp_path, KEYS)
    assert console == []
    assert 'data-stops="1"' in dom
    told = re.search(r'id="told"[^>]*>([^<]*)<', dom)[1]
    assert told.startswith(f"Run {result.evaluations[-1].id}: ")


@needs_browser
def test_a_report_is_printed_where_a_browser_is_installed(path, tmp_path):
    parts.write(tmp_path / "run.pdf", path.read_text(encoding="utf-8"))
    content = (tmp_path / "run.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert re.search(rb"/MediaBox ?\[0 0 59[45][.\d]* 84[12]", content)  # A4, in points
    assert list(tmp_path.iterdir()) == [tmp_path / "run.pdf"]


def test_without_a_browser_a_pdf_is_refused_with_a_sentence(result, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tbq.TbqError, match=r"a report as PDF needs Chromium, Chrome or Edge"):
        result.report(tmp_path / "run.pdf")


@needs_browser
def test_an_error_on_the_page_would_be_seen(path, tmp_path):
    _, console = browse(path, tmp_path, "nothing.at.all()")
    assert len(console) == 1
    _, console = browse(path, tmp_path, "document.body.append(Object.assign(new Image(), {src: 'https://x.org/a'}))")
    assert "Content Security Policy" in console[0]


def test_importing_tbq_does_not_import_matplotlib():
    code = "import sys, tbq; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_modules_that_not_every_program_needs_are_there_when_they_are_used():
    code = "import tbq; tbq.adapters, tbq.diagnostics.findings, tbq.export, tbq.plots.pairs; tbq.nothing"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "AttributeError: module 'tbq' has no attribute 'nothing'"
