"""The server answers one person at one computer, and nobody's page but its own."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import httpx
import pytest

from vesalius.explorer.guards import AT_ONCE, BODY, Guard

RUN = {"model": "gpt", "text": "He shook his"}


def raw(port, request):
    """What comes back for bytes as they are, which no client would send."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as opened:
        opened.sendall(request)
        answer = b""
        while chunk := opened.recv(65536):
            answer += chunk
    return answer


def test_the_token_becomes_a_cookie_that_no_script_and_no_other_site_can_use(served):
    with httpx.Client(base_url=served.base) as client:
        path = f"/gpt/dissect/mu%5B3,4%5D?at=2,1&token={served.token}"
        answer = client.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/gpt/dissect/mu%5B3%2C4%5D?at=2%2C1"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert client.get("/api/models").status_code == 200  # by the cookie alone


def test_a_redirect_never_leaves_the_server(served):
    with httpx.Client(base_url=served.base) as client:
        answer = client.get(f"{served.base}//evil.example/?token={served.token}")
        assert answer.headers["location"] == "/evil.example/"


@pytest.mark.parametrize("token", ["", "x", "é", "0" * 4000])
def test_another_token_is_refused(served, token):
    assert httpx.get(f"{served.base}/", params={"token": token}).status_code == 403


@pytest.mark.parametrize("path", ["/api/models", "/api/equations", "/api/runs/x", "/api/nothing"])
def test_nothing_is_told_without_the_cookie(served, path):
    for cookie in ("", "other=1", f"vesalius-{served.port}=", f"vesalius-{served.port}=wrong"):
        answer = httpx.get(f"{served.base}{path}", headers={"cookie": cookie})
        assert answer.status_code == 403
        assert "vesalius explore" in answer.text


HOSTS = (
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1",
    "127.0.0.1:1",
    "127.0.0.1.evil.example:{port}",
    "evil.example@127.0.0.1:{port}",
    "0.0.0.0:{port}",
    "127.0.0.1:{port}.evil.example",
    "LOCALHOST.:{port}",
    "localhost.evil.example:{port}",
    "localhost:{port}@evil.example",
    "localhost:0{port}",
    "127.1:{port}",
    "2130706433:{port}",
    "0x7f.1:{port}",
    "127.0.0.2:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "::1:{port}",
    "127.0.0.1:{port}/",
    "",
)


def test_a_host_that_is_not_the_loopback_with_our_port_is_refused(served, client):
    assert len(HOSTS) == 20
    for host in HOSTS:
        named = host.format(port=served.port)
        answer = client.get("/api/models", headers={"host": named})
        assert answer.status_code == 400, named
        assert "models" not in answer.text


@pytest.mark.parametrize(
    ("exposed", "host", "answered"),
    [
        ("192.168.0.7", "192.168.0.7:8731", True),
        ("192.168.0.7", "localhost:8731", True),
        ("192.168.0.7", "192.168.0.8:8731", False),
        ("192.168.0.7", "192.168.0.7:8732", False),
        ("192.168.0.7", "192.168.0.7", False),
        ("192.168.0.7", "[192.168.0.7]:8731", False),
        ("0.0.0.0", "10.1.2.3:8731", True),
        ("0.0.0.0", "10.1.2.3.evil.example:8731", False),
        ("0.0.0.0", "evil.example:8731", False),
        ("0.0.0.0", "167838211:8731", False),
        ("::", "[fe80::1]:8731", True),
        ("::", "fe80::1:8731", False),
    ],
)
def test_exposed_it_answers_to_addresses_and_to_no_name(exposed, host, answered):
    guard = Guard(None, 8731, "token", exposed=ip_address(exposed))
    assert guard._is_ours(host) is answered


def test_hosts_that_come_twice_or_not_at_all_are_refused(served):
    good = f"127.0.0.1:{served.port}".encode()
    twice = b"GET / HTTP/1.1\r\nHost: " + good + b"\r\nHost: evil.example\r\n\r\n"
    assert b" 400 " in raw(served.port, twice).split(b"\r\n")[0]
    assert b" 400 " in raw(served.port, b"GET / HTTP/1.0\r\n\r\n").split(b"\r\n")[0]


def test_names_of_the_loopback_are_answered(served, client):
    for name in ("127.0.0.1", "localhost", "[::1]"):
        headers = {"host": f"{name}:{served.port}"}
        assert client.get("/api/models", headers=headers).status_code == 200


ORIGINS = ("http://evil.example", "null", "https://127.0.0.1:{port}", "http://localhost:{port}", "")


@pytest.mark.parametrize("origin", ORIGINS)
def test_another_origin_is_refused(served, client, origin):
    headers = {"origin": origin.format(port=served.port)}
    assert client.post("/api/runs", json=RUN, headers=headers).status_code == 403
    assert client.get("/api/models", headers=headers).status_code == 403


def test_our_own_origin_is_answered_and_nobody_is_told_that_others_may_ask(served, client):
    mine = {"origin": served.base}
    answers = [client.post("/api/runs", json=RUN, headers=mine)]
    assert answers[0].status_code == 200
    asked = {**mine, "access-control-request-method": "POST"}
    answers.append(client.options("/api/runs", headers=asked))
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_another_site_is_refused_by_what_the_browser_says_of_it(client):
    for site in ("cross-site", "same-site"):
        answer = client.get("/api/models", headers={"sec-fetch-site": site})
        assert answer.status_code == 403


def test_every_answer_has_the_policy(served, client):
    answers = [
        client.get("/"),
        client.get("/api/models"),
        client.get("/nothing/here/at/all"),
        client.post("/api/runs", json={"model": "gpt", "text": ""}),
        client.get("/api/models", headers={"host": "evil.example"}),
        httpx.get(f"{served.base}/api/models"),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 422, 400, 403]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


PATHS = (
    "/../../../../etc/passwd",
    "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/assets/..%2f..%2fserver.py",
    "/assets/../../server.py",
    "//etc/passwd",
    "/gpt/../../server.py",
    "/page/index.html",
    "/gpt/dissect/../../../server.py",
    "/assets/%00",
    "/api/../../server.py",
    "/api/runs/..%2f..%2fmodels",
    "/api/models/..%2f..%2f..%2fetc",
    "/api/models/%2Fetc%2Fpasswd",
    "/api/runs/x/steps/..%2f..%2f..%2fetc%2fpasswd",
    "/assets/....//....//server.py",
    "/assets/%252e%252e%252fserver.py",
    "/assets/..%5c..%5cserver.py",
    "/gpt/dissect/%2e%2e%2f%2e%2e%2fserver.py/x",
)


def test_a_path_opens_no_file(served):
    for path in PATHS:
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        head += f"Cookie: {served.cookie['cookie']}\r\nConnection: close\r\n\r\n"
        answer = raw(served.port, head.encode())
        assert answer.split(b" ")[1] == b"404", path
        assert b"root:" not in answer
        assert b"import " not in answer


def test_an_address_of_nothing_leads_back(client):
    answer = client.get("/gpt/disect")
    assert answer.status_code == 404
    assert 'href="/gpt/dissect"' in answer.text


@pytest.mark.parametrize(
    "name", ["/etc", "../gpt", "./gpt", "specimen:gpt", "hub:gpt2", "gpt2", ""]
)
def test_a_model_is_one_of_the_list_and_never_a_path(client, name):
    answer = client.post("/api/runs", json={"model": name, "text": "He"})
    assert answer.status_code == 404
    assert answer.json()["error"] == "UnknownModel"


def test_large_bodies_are_refused_before_and_while_they_arrive(served, client):
    big = b'{"model": "gpt", "text": "' + b"a" * 2 * BODY + b'"}'
    assert client.post("/api/runs", content=big).status_code == 413
    chunks = (big[start : start + 65536] for start in range(0, len(big), 65536))
    answer = client.post("/api/runs", content=chunks)
    assert answer.request.headers["transfer-encoding"] == "chunked"
    assert answer.status_code == 413
    assert client.get("/api/models").status_code == 200


def test_what_never_ends_is_hung_up_on(served, client):
    def endless():
        while True:
            yield b"a" * 65536

    answer = None
    with suppress(httpx.NetworkError, httpx.RemoteProtocolError):
        answer = client.post("/api/runs", content=endless())
    assert answer is None or answer.status_code == 413
    assert client.get("/api/models").status_code == 200


def test_a_length_that_is_none_is_refused(served):
    for length in ("-1", "1e3", "99999999999999999999", "0x10"):
        head = f"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        head += f"Cookie: {served.cookie['cookie']}\r\nContent-Length: {length}\r\n"
        answer = raw(served.port, f"{head}Connection: close\r\n\r\n".encode())
        assert answer.split(b" ")[1] in (b"400", b"413")


def test_two_hundred_requests_at_once_are_answered_or_told_to_come_again(served):
    gate = threading.Barrier(200)

    def ask(k):
        with served.client() as one:
            gate.wait(60)
            return one.post("/api/runs", json={"model": "gpt", "text": f"He shook his {k % 4}"})

    with ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(ask, range(200)))
    codes = {answer.status_code for answer in answers}
    assert codes <= {200, 503}
    assert 200 in codes
    with served.client() as client:
        assert client.get("/api/models").status_code == 200


def test_one_request_more_than_there_is_room_for_is_told_so(served):
    head = f"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
    head += f"Cookie: {served.cookie['cookie']}\r\nContent-Length: 100\r\n\r\n"
    waiting = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(AT_ONCE)]
    for opened in waiting:
        opened.sendall(head.encode())
    with served.client() as client:
        full = until(lambda: client.get("/api/models"), 503)
        assert full.headers["retry-after"] == "1"
        for opened in waiting:
            opened.close()
        until(lambda: client.get("/api/models"), 200)


def until(ask, status, seconds=60):
    """Ask until the answer has a status."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = ask()
        if answer.status_code == status:
            return answer
    raise AssertionError(f"no {status} in {seconds} s, but {answer.status_code}")


EVIL = """<!doctype html><title>Evil</title><script>
const at = "http://127.0.0.1:PORT";
const ask = (path, more) => fetch(at + path, { credentials: "include", ...more })
  .then((answer) => answer.type, () => "refused");
const run = { method: "POST", body: '{"model": "gpt", "text": "He"}' };
const json = { headers: { "content-type": "application/json" } };
const load = (kind) => new Promise((done) => {
  const one = document.createElement(kind);
  one.onload = () => done("loaded");
  one.onerror = () => done("refused");
  one.src = at + "/api/equations";
  document.head.append(one);
});
Promise.all([
  ask("/api/models"), ask("/api/runs", { ...run, ...json }),
  ask("/api/runs/x", { method: "DELETE" }),
  ask("/api/models", { mode: "no-cors" }), ask("/api/runs", { ...run, mode: "no-cors" }),
  load("script"), load("img"),
]).then((found) => (document.body.textContent = found.join(" ")));
</script><body></body>"""


def test_a_page_of_another_origin_reads_nothing_though_the_browser_has_the_cookie(browser, served):
    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            body = EVIL.replace("PORT", str(served.port)).encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as evil:
        threading.Thread(target=evil.serve_forever, daemon=True).start()
        context = browser.new_context()
        page, asked = context.new_page(), []
        page.goto(f"{served.base}/?token={served.token}")  # the cookie is for every port
        mine = f":{served.port}/api/"
        page.wait_for_selector('.page[data-busy="no"]')
        page.on("request", lambda one: asked.append(one.url) if mine in one.url else None)
        page.goto(f"http://127.0.0.1:{evil.server_port}/")
        page.wait_for_function("() => document.body.textContent.includes(' ')")
        found = page.inner_text("body").split()
        assert found == ["refused"] * 7
        assert len(asked) >= 7
        context.close()
        evil.shutdown()
