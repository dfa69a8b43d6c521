"""The live page: what it shows, whom it answers, and that a browser follows a run with it."""

import html
import http.client
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import tbq
from tbq.cli import watch
from tbq.run import journal

PRIOR = tbq.Prior({"a": stats.uniform(-2, 4), "b": stats.norm(0, 1)})
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def log_likelihood(theta):
    if theta[0] > 1.0:
        raise ValueError("<script>alert('mesh')</script>")
    return -0.5 * float(np.sum(((theta - [0.3, -0.2]) / [0.3, 0.4]) ** 2))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run and one that goes on, in one folder."""
    folder = tmp_path_factory.mktemp("runs")
    tbq.infer(
        log_likelihood, PRIOR, seed=0, population=256, tolerance=1e-6, max_evaluations=16, journal=folder / "finished"
    )
    session = tbq.Session(PRIOR, seed=0, journal=folder / "going")
    points = session.ask(3)
    session.tell(points[0].id, log_likelihood=-1.5, seconds=2.0)
    yield folder, session
    session.close()


@pytest.fixture
def server(runs):
    with watch.Server(watch.Site([runs[0]])) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server, path, host=None, method="GET"):
    connection = http.client.HTTPConnection(*server.server_address, timeout=300)
    headers = {} if host is None else {"Host": host}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def inside(server, path=""):
    return f"/{server.site.token}/{path}"


def test_the_list_has_every_run(server):
    answer, text = get(server, inside(server))
    assert answer.status == 200
    assert re.search(r'href="run/finished/">finished</a></td><td>not converged</td><td>16 of 16', text)
    assert re.search(r">going</a></td><td>running</td><td>1 of 200", text)
    assert answer.headers["Cache-Control"] == "no-store"


def test_the_page_of_a_run_has_its_progress_its_runs_and_its_failures(server):
    _, text = get(server, inside(server, "run/going/"))
    assert "1 of 12 initial runs are back" in text
    assert "Last runs" in text
    _, text = get(server, inside(server, "run/finished/"))
    assert "&lt;script&gt;alert" in text
    assert "<script>alert" not in text
    assert 'id="report"' in text


def test_only_this_machine_and_who_has_the_address_is_answered(server):
    assert server.server_address[0] == "127.0.0.1"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", server.address)
    for path in ("/", "/wrong/", f"/{server.site.token[:-1]}/", inside(server, "run/other/"), inside(server, "x")):
        assert get(server, path)[0].status == 404
    assert get(server, inside(server, "run/../../etc/"))[0].status == 404
    assert get(server, inside(server), host="evil.example")[0].status == 404
    assert get(server, inside(server), method="POST")[0].status == 501


def test_folders_and_questions_that_nobody_would_make(tmp_path):
    names = ["<img src=x onerror=alert(1)>", "q?#%2F &", "a/same", "b/same", os.fsdecode(b"bytes\xff")]
    for name in names:
        with tbq.Session(PRIOR, journal=tmp_path / name):
            pass
    with watch.Server(watch.Site([tmp_path])) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        _, text = get(server, inside(server))
        assert "<img" not in text
        links = [html.unescape(link) for link in re.findall(r'href="(run/[^"]*)"', text)]
        assert len(links) == len(names)
        for link in links:
            answer, text = get(server, inside(server, link))
            assert answer.status == 200
            assert "<img" not in text
            (up,) = re.findall(r'<p><a href="([^"]*)">all runs', text)
            assert link.count("/") == up.count("../")
        for path in ("x", "//[", "*", "/%ff/", "/%00/"):
            assert get(server, path)[0].status == 404
        server.shutdown()


def test_news_of_a_run_that_ended_is_told_once(server, runs):
    answer, text = get(server, inside(server, "run/finished/events"))
    assert answer.headers["Content-Type"] == "text/event-stream"
    (line,) = re.findall(r"^data: (.*)$", text, re.M)
    news = json.loads(line)
    assert news["ended"]
    assert news["version"] == len(journal.read(runs[0] / "finished").records)


def test_news_of_a_run_come_as_they_happen(runs, monkeypatch):
    monkeypatch.setattr(watch, "_LOOK", 0.0)
    folder, session = runs
    news = watch.events_of(watch.Site([folder]), "going", folder / "going")
    assert "1 of 12 initial runs are back" in json.loads(next(news))["html"]
    session.fail(session.pending[0].id, "mesh tangled")
    while "2 of 12 initial runs are back" not in (text := json.loads(next(news))["html"]):
        pass
    assert "mesh tangled" in text


def test_the_report_is_made_once_for_each_news(runs):
    pytest.importorskip("matplotlib")
    site = watch.Site([runs[0]])
    first = site.report(runs[0] / "finished")
    assert b"Can it be trusted?" in first
    assert site.report(runs[0] / "finished") is first


def test_folders_are_found_below_the_one_given(tmp_path):
    for name in ("a/one", "b/one", "deep/er/two"):
        with tbq.Session(PRIOR, journal=tmp_path / name):
            pass
    assert set(watch.find([tmp_path])) == {str(tmp_path / "a/one"), str(tmp_path / "b/one"), "two"}
    assert watch.find([tmp_path / "a/one"]) == {"one": tmp_path / "a/one"}
    assert watch.find([Path(tmp_path / "deep")]) == {"two": tmp_path / "deep/er/two"}


@pytest.mark.skipif(BROWSER is None, reason="no Chromium found: apt-get install chromium")
def test_a_browser_shows_it(server, tmp_path):
    pytest.importorskip("matplotlib")
    get(server, inside(server, "run/finished/report"))  # so that the browser does not wait for pictures
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
    address = f"{server.address}run/finished/"
    done = subprocess.run(
        [*command, "--virtual-time-budget=5000", address], capture_output=True, text=True, check=False, timeout=300
    )
    assert "16 of at most 16" in done.stdout
    assert re.search(r'<iframe id="report"[^>]*style="height: \d{3,}px', done.stdout), done.stdout[-2000:]
    assert re.search(r'<p id="link" class="away" hidden', done.stdout)
    assert re.search(r'<p id="making" hidden', done.stdout)  # the report has come
