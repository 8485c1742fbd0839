"""The server answers one person at one computer, and nobody's page but its own."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from unittest.mock import Mock

import httpx
import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from vesalius.explorer.guards import AT_ONCE, BODY, Guard
from vesalius.explorer.server import explorer
from vesalius.explorer.sessions import HEADER, Sessions
from vesalius.explorer.timeouts import impatient

RUN = {"model": "gpt", "text": "He shook his"}


def raw(port, request):
    """What comes back for bytes as they are, which no client would send."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as opened:
        opened.sendall(request)
        answer = b""
        while chunk := opened.recv(65536):
            answer += chunk
    return answer


@pytest.mark.parametrize("path", ["/api/models", "/api/equations", "/api/runs/x", "/api/nothing"])
def test_nothing_is_told_without_the_key(served, path):
    for key in ("", "other", served.key[:-1], f"{served.key}x", "é", "0" * 4000):
        answer = httpx.get(f"{served.base}{path}", headers={HEADER: key.encode()})
        assert answer.status_code == 403
        assert "vesalius explore" in answer.text
    answer = httpx.get(f"{served.base}{path}", headers={"cookie": f"{HEADER}={served.key}"})
    assert answer.status_code == 403


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
    guard = Guard(None, 8731, Sessions(), exposed=ip_address(exposed))
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
        head += f"{served.line}Connection: close\r\n\r\n"
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
        head += f"{served.line}Content-Length: {length}\r\n"
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


def test_slow_bodies_take_nobodys_place(served, client):
    head = f"POST /api/runs HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Length: 100\r\n"
    with ExitStack() as stack:
        for line in (*AT_ONCE * [""], *2 * AT_ONCE * [served.line]):
            opened = socket.create_connection(("127.0.0.1", served.port))
            stack.enter_context(opened).sendall(f"{head}{line}\r\n".encode())
        assert client.get("/api/models").status_code == 200
        assert client.get("/").status_code == 200


def test_one_request_more_than_there_is_room_for_is_told_so():
    """Of requests with the key, while as many as there is room for are worked on."""

    async def ask():
        enough, done, begun = asyncio.Event(), asyncio.Event(), []

        async def app(scope, receive, send):
            begun.append(scope["path"])
            if len(begun) == AT_ONCE:
                enough.set()
            if scope["path"] == "/api/long":
                await done.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        guard = Guard(app, 8731, Sessions())
        key, base = {HEADER: guard.sessions.key}, "http://127.0.0.1:8731"
        transport = httpx.ASGITransport(guard)
        async with httpx.AsyncClient(base_url=base, transport=transport, headers=key) as one:
            busy = [asyncio.create_task(one.get("/api/long")) for _ in range(AT_ONCE)]
            await enough.wait()
            answers = [await one.get("/api/short"), await one.get("/")]
            done.set()
            answers += [*await asyncio.gather(*busy), await one.get("/api/short")]
        return answers

    with ThreadPoolExecutor(1) as pool:  # Playwright may have a loop of its own in this thread
        full, page, *others = pool.submit(asyncio.run, ask()).result()
    assert (full.status_code, full.headers["retry-after"]) == (503, "1")
    assert page.status_code == 200
    assert {answer.status_code for answer in others} == {200}


class Clock:
    """Time that passes when it is told to."""

    def __init__(self):
        self.later = []

    def call_later(self, seconds, call, *given):
        handle = Mock(call=lambda: call(*given))
        handle.cancel.side_effect = lambda: self.later.remove(handle)
        self.later.append(handle)
        return handle

    def pass_(self):
        for handle in list(self.later):
            self.later.remove(handle)
            handle.call()


def test_whoever_reads_nothing_is_hung_up_on_and_whoever_reads_slowly_is_not():
    transport, clock = Mock(spec=asyncio.Transport), Clock()
    config = Config(None, http=impatient(10), lifespan="off", ws="none")
    protocol = impatient(10)(config, ServerState(), {}, Mock(wraps=clock))
    transport.get_extra_info.return_value = None
    protocol.connection_made(transport)
    protocol._arrived()  # a request
    transport.get_write_buffer_size.return_value = 900
    protocol.pause_writing()
    for left in (600, 300, 299):
        transport.get_write_buffer_size.return_value = left
        clock.pass_()
        transport.abort.assert_not_called()
    protocol.resume_writing()
    assert clock.later == []
    protocol.pause_writing()
    clock.pass_()
    transport.abort.assert_called_once_with()


def test_cookies_of_other_servers_do_not_lock_the_page_out():
    """A browser sends what any port of this machine has set: at most 180 of 4 KiB."""
    found = explorer(port=0)
    with found.listening:
        settings, transport, loop = found.server.config, Mock(), Mock()
        loop.create_task.side_effect = lambda work, **_: work.close() or Mock()
        settings.load()
        protocol = settings.http_protocol_class(settings, ServerState(), {}, loop)
        transport.get_extra_info.return_value = None
        protocol.connection_made(transport)
        cookies = "; ".join(f"session{k}={'a' * 4000}" for k in range(180))
        protocol.data_received(f"GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookies}\r\n\r\n".encode())
        assert protocol.scope["path"] == "/"
        transport.write.assert_not_called()  # a complaint


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


def test_a_page_of_another_origin_reads_nothing_though_the_browser_has_the_key(browser, served):
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
        served.open(page)
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
