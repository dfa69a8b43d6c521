"""Models on UM-Bridge servers: what they return, and every way in which a server can fail or mislead."""

import contextlib
import http.server
import json
import pickle
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tbq.common import errors
from tbq.simulate import umbridge as client
from tbq.simulate.umbridge import UmBridgeModel

THETA = np.array([1.5, -2.0, 0.25])


@pytest.fixture(scope="module")
def url():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    script = Path(__file__).parents[1] / "umbridge_server.py"
    with subprocess.Popen([sys.executable, str(script), str(port)], stdout=subprocess.DEVNULL) as server:
        address = f"http://127.0.0.1:{port}"
        UmBridgeModel(address, "forward", retries=7, pause=0.2).models()
        yield address
        server.terminate()


def test_a_model_on_a_real_server(url):
    model = UmBridgeModel(url, "forward")
    model.check(3)
    np.testing.assert_array_equal(model(THETA), [-0.5, 0.375])
    np.testing.assert_array_equal(UmBridgeModel(url + "/", "forward", {"factor": 10})(THETA), [-5.0, 0.375])
    np.testing.assert_array_equal(UmBridgeModel(url, "two vectors")(THETA), THETA)
    np.testing.assert_array_equal(UmBridgeModel(url, "numpy")(THETA), THETA[1:])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(THETA), [-0.5, 0.375])


def test_it_agrees_with_umbridges_own_client(url):
    umbridge = pytest.importorskip("umbridge")
    theirs = umbridge.HTTPModel(url, "forward")([[1 / 3], [0.1, 1e-300]])
    np.testing.assert_array_equal(UmBridgeModel(url, "forward")(np.array([1 / 3, 0.1, 1e-300])), theirs[0])


def test_what_is_not_finite_comes_through_as_it_is(url):
    np.testing.assert_array_equal(UmBridgeModel(url, "nan")(THETA), [1.0, np.nan])
    np.testing.assert_array_equal(UmBridgeModel(url, "infinite")(THETA), [-np.inf, 1.0])


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("raises", errors.ServerError, "/Evaluate answered 500 Internal Server Error"),
        ("wrong size", errors.ServerError, "reported InvalidOutput: Output vector 0 has invalid length"),
        ("mute", errors.ServerError, "reported UnsupportedFeature: Evaluate not supported by model"),
        ("absent", errors.ServerError, "reported ModelNotFound: Model absent not found"),
        ("words", errors.OutputError, r"/Evaluate answered what is not JSON: .*'one', 'two'"),
        ("nothing", errors.OutputError, "answered what is not JSON: .*None"),
        ("empty", errors.OutputError, "model 'empty' at http.* returned no numbers"),
        ("nonsense sizes", errors.OutputError, "/InputSizes answered what is not JSON"),
    ],
)
def test_errors_of_a_real_server(url, name, kind, message, monkeypatch):
    never = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: pytest.fail("it is tried again"))
    monkeypatch.setattr(client, "time", never)
    with pytest.raises(kind, match=message):
        UmBridgeModel(url, name)(THETA)


def test_a_model_that_takes_too_long(url):
    with pytest.raises(errors.SimulatorTimeoutError, match=r"/Evaluate gave no answer within 0.3 s"):
        UmBridgeModel(url, "slow", timeout=0.3)(THETA)


def test_the_server_is_asked_before_a_run(url):
    with pytest.raises(errors.ServerError, match="has no model 'foward'; it has forward, two vectors, "):
        UmBridgeModel(url, "foward").check(3)
    with pytest.raises(errors.ServerError, match=r"takes 3 parameters, in vectors of \[1, 2\]; got 4"):
        UmBridgeModel(url, "forward").check(4)


@pytest.fixture
def scripted():
    """A server that plays a list of answers: (code, body) in turn, or None to hang up."""
    servers, sent = [], []

    def start(*answers):
        left = list(answers)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                answer = left.pop(0) if len(left) > 1 else left[0]
                if answer is None:
                    self.close_connection = True
                    return
                code, body, *length = answer
                self.send_response(code)
                self.send_header("Content-Length", str(*length or [len(body)]))
                self.end_headers()
                for byte in body.encode():
                    self.wfile.write(bytes([byte]))
                    sent.append(byte)
                    time.sleep(0.1 if length == [1000] else 0)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.handle_error = lambda *_: None
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return UmBridgeModel(f"http://127.0.0.1:{server.server_port}", "m", retries=2, pause=0.01)

    start.sent = sent
    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


SIZES = (200, '{"inputSizes": [3]}')


def test_connections_that_fail_are_tried_again(scripted):
    busy, cut = (503, "no worker is free"), (200, '{"output": [[1', 100)
    model = scripted(None, busy, SIZES, busy, cut, (200, '{"output": [[1, 2], [3]]}'))
    np.testing.assert_array_equal(model(THETA), [1, 2, 3])


def test_a_server_that_stays_busy_or_away_is_given_up(scripted):
    with pytest.raises(errors.ServerUnreachableError, match="503 Service Unavailable: no worker is free; tried 3 tim"):
        scripted((503, "no worker is free"))(THETA)
    with pytest.raises(errors.ServerUnreachableError, match=r"could not be reached: .*; tried 3 times"):
        scripted(None)(THETA)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with pytest.raises(ConnectionError, match=r"could not be reached: .*refused; tried 2 times"):
        UmBridgeModel(f"http://127.0.0.1:{port}", "m", retries=1, pause=0.01)(THETA)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("<html>hello</html>", "what is not JSON: <html>hello</html>"),
        ("[1]", r"answered nonsense: \[1\]"),
        ("{}", "answered nonsense: there is no 'output'; got {}"),
        ('{"output": 3}', "output is not a list of vectors"),
        ('{"output": [1, 2]}', "output is not a list of vectors"),
        ('{"output": [["a"]]}', 'answered nonsense: "a" is not a number'),
        ('{"output": [[true]]}', "true is not a number"),
        ('{"output": [[null]]}', "null is not a number"),
    ],
)
def test_nonsense_is_called_so(scripted, body, message):
    with pytest.raises(errors.OutputError, match=message):
        scripted(SIZES, (200, body))(THETA)


def test_an_error_in_a_good_answer_is_an_error(scripted):
    answer = {"error": {"type": "Fishy", "message": "negative mass"}}
    with pytest.raises(errors.ServerError, match="reported Fishy: negative mass"):
        scripted(SIZES, (200, json.dumps(answer)))(THETA)
    with pytest.raises(errors.ServerError, match="reported out of licences"):
        scripted(SIZES, (400, '{"error": "out of licences"}'))(THETA)


def test_an_answer_that_trickles_in_is_a_timeout(scripted):
    content = '{"output": [[1, 2], [3]]}' + " " * 40
    model = scripted(SIZES, (200, content, 1000))
    with pytest.raises(errors.SimulatorTimeoutError, match=r"no answer within 0.5 s"):
        UmBridgeModel(model.url, "m", timeout=0.5)(THETA)
    assert len(scripted.sent) < len(SIZES[1]) + len(content)  # it was left before its end


def test_a_network_that_gives_up_before_us_is_no_timeout_of_ours(monkeypatch):
    def connect(*_, **__):
        raise TimeoutError(110, "Connection timed out")

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(
        errors.ServerUnreachableError, match="could not be reached: Connection timed out; tried 2 times"
    ):
        UmBridgeModel("http://far.away", "m", retries=1, pause=0.01)(THETA)


# --- servers that mislead -----------------------------------------------------------------------------------


@pytest.fixture
def raw():
    """A server that is given each connection and may do with it what it likes; its address."""
    servers = []

    def start(serve):
        listener = socket.create_server(("127.0.0.1", 0))
        servers.append(listener)

        def loop():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=one, args=(connection,), daemon=True).start()

        def one(connection):
            with connection, contextlib.suppress(OSError):
                serve(connection)

        threading.Thread(target=loop, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in servers:
        listener.close()


def answer(body, status="200 OK", *headers):
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


@pytest.mark.parametrize("code", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_redirects_are_not_followed(raw, code, method):
    asked = []
    thief = raw(lambda c: (asked.append(c.recv(65536)), c.sendall(answer(b'{"output": [[6.66]], "models": ["m"]}'))))
    url = raw(lambda c: (c.recv(65536), c.sendall(answer(b"", code, f"Location: {thief}/Evaluate"))))
    ask = UmBridgeModel(url, "m").models if method == "GET" else lambda: UmBridgeModel(url, "m")(THETA)
    with pytest.raises(errors.ServerError, match=rf"sends us on to {thief}/Evaluate; that is not followed: give the"):
        ask()
    assert asked == []


HEAD = answer(b'{"output": [[1, 2, 3]]}' + b" " * 200)


@pytest.mark.parametrize("start", [0, 20, len(HEAD) - 150])  # in the first line, the head, the body
@pytest.mark.parametrize("chunked", [False, True])
def test_one_deadline_for_the_whole_answer_however_slowly_it_drips(raw, start, chunked):
    data = HEAD if not chunked else HEAD.replace(b"Content-Length: 223", b"Transfer-Encoding: chunked")
    data = data.replace(b"\r\n\r\n", b"\r\n\r\nfff\r\n") if chunked else data

    def drip(connection):
        request = connection.recv(65536)
        if b"InputSizes" in request:
            return connection.sendall(answer(b'{"inputSizes": [3]}'))
        connection.sendall(data[:start])
        for byte in data[start:]:
            connection.sendall(bytes([byte]))
            sent.append(byte)
            time.sleep(0.05)
        return None

    sent = []
    model = UmBridgeModel(raw(drip), "m", timeout=0.4)
    with pytest.raises(errors.SimulatorTimeoutError, match=r"gave no answer within 0.4 s"):
        model(THETA)
    assert len(sent) < len(data) - start  # it was left before its end, 0.05 s a byte


def test_an_error_that_drips_is_a_timeout_too(raw):
    def drip(connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 500 Oh\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            connection.sendall(b"x")
            sent.append(0)
            time.sleep(0.05)

    sent = []
    with pytest.raises(errors.SimulatorTimeoutError):
        client._request(raw(drip), b"{}", 0.4)
    assert len(sent) < 1000


def test_an_endless_answer_is_cut_off(raw, monkeypatch):
    monkeypatch.setattr(client, "_MOST", 2**20)

    def flood(connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b" " * 65536)

    with pytest.raises(errors.OutputError, match="answered more than 1 MiB"):
        client._request(raw(flood), b"{}", 20.0)


@pytest.mark.parametrize("part", [b"[],", b"0,", b"{},"])
def test_an_answer_of_too_many_parts_is_not_unpacked(raw, monkeypatch, part):
    monkeypatch.setattr(client, "_MOST_PARTS", 1000)
    url = raw(lambda c: (c.recv(65536), c.sendall(answer(b'{"output": [[' + part * 1001 + b"0]]}"))))
    with pytest.raises(errors.OutputError, match="answered more than 1000 numbers and lists"):
        client._request(url, b"{}", 20.0)


@pytest.mark.parametrize("code", [408, 429, 502, 503, 504])
def test_a_gateway_that_is_busy_is_an_outage(raw, code):
    url = raw(lambda c: (c.recv(65536), c.sendall(b"HTTP/1.1 %d x\r\nContent-Length: 0\r\n\r\n" % code)))
    with pytest.raises(errors.ServerUnreachableError, match=f"answered {code}"):
        client._request(url, b"{}", 20.0)


@pytest.mark.parametrize(
    "info", ["{}", '{"models": "forward"}', '{"models": [1]}', '{"models": {"m": 1}}', '{"models": null}']
)
def test_malformed_info_is_refused(raw, info):
    url = raw(lambda c: (c.recv(65536), c.sendall(answer(info.encode()))))
    with pytest.raises(errors.OutputError, match="answered nonsense to Info; is it a UM-Bridge server"):
        UmBridgeModel(url, "forward").check(3)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("[" * 2000, "answered what is not JSON"),
        (f'{{"output": [[1{"0" * 400}]]}}', r"answered nonsense: 10000.* is too large for a float"),
        ('{"error": {"type": "Fishy"}}', "reported Fishy: "),
        ('{"error": [1]}', r"reported \[1\]"),
    ],
)
def test_more_nonsense(scripted, body, message):
    with pytest.raises(errors.SimulatorError, match=message):
        scripted(SIZES, (200, body))(THETA)


def test_sizes_that_are_no_numbers_are_refused(scripted):
    with pytest.raises(errors.OutputError, match="answered nonsense to InputSizes"):
        scripted((200, '{"inputSizes": [true, true, true]}'))(THETA)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("localhost:4242", "m"), "url must start with http:// or https://; got 'localhost:4242'"),
        (("http://localhost", "m", {}, -1.0), "timeout must be a positive number"),
        (("http://localhost", "m", {}, None, -1), "retries must not be negative; got -1"),
    ],
)
def test_wrong_servers_are_refused(arguments, message):
    with pytest.raises(errors.ArgumentError, match=message):
        UmBridgeModel(*arguments)
