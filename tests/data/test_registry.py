"""Corpora by name: found where they are, fetched whole or not at all, and never but over https."""

import gzip
import hashlib
import os
import re
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from urllib.request import build_opener, urlopen

import numpy as np
import pytest

from vesalius.arguments import silent
from vesalius.data import registry
from vesalius.data.registry import Corpus, File, Form, corpora, corpus, get, locate, verify
from vesalius.errors import BrokenFile, NotFetched, UnknownCorpus, Unreachable, Unwritable

KINDS = {"text", "labelled text", "tags", "questions", "images", "series", "vocabulary"}
REAL_DATA = os.environ.get("VESALIUS_DATA")
HELLO = b"hello, corpus\n"


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """An empty cache, and no data of one's own."""
    monkeypatch.setenv("VESALIUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("VESALIUS_DATA", raising=False)
    return tmp_path / "cache" / "data"


def form(content):
    return Form(len(content), hashlib.sha256(content).hexdigest())


def of(content, *addresses, path="text/hello.txt", also=()):
    return File(path, (form(content), *map(form, also)), addresses)


def put(folder, path, content):
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(content)
    return folder / path


@pytest.fixture
def known(monkeypatch):
    """Puts a corpus into the registry."""

    def add(*files, places=()):
        made = Corpus("hello", "words", "text", "mine", "https://example.org", files, places)
        monkeypatch.setitem(registry._registry(), "hello", made)
        return made

    return add


# what the registry says


@pytest.mark.parametrize("entry", corpora(), ids=lambda entry: entry.name)
def test_every_corpus_says_what_it_is_and_where_it_comes_from(entry):
    assert entry.kind in KINDS
    assert entry.title
    assert entry.licence
    assert entry.source
    assert re.fullmatch(r"[a-z0-9-]+", entry.name)
    for file in entry.files:
        path = PurePosixPath(file.path)
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert all(re.fullmatch(r"[0-9a-f]{64}", form.sha256) for form in file.forms)
        assert all(form.size > 0 for form in file.forms)
        assert all(address.startswith("https://") for address in file.addresses)
    assert entry.fetchable or not any(file.addresses for file in entry.files)


def test_no_two_corpora_claim_the_same_file():
    paths = [file.path for entry in corpora() for file in entry.files]
    assert len(paths) == len(set(paths))


def test_unknown_corpora_get_the_nearest_names():
    with pytest.raises(UnknownCorpus, match=r"'wikitext2'; did you mean wikitext-2"):
        corpus("wikitext2")


@pytest.mark.parametrize("entry", corpora(), ids=lambda entry: entry.name)
def test_the_real_files_are_what_the_registry_says(entry, monkeypatch):
    if not REAL_DATA:
        pytest.skip("set VESALIUS_DATA to the folder with text/, images/ and the others")
    monkeypatch.setenv("VESALIUS_DATA", REAL_DATA)
    states = {check.state for check in verify(entry.name)}
    if states == {"missing"}:
        if entry.places:
            pytest.skip(f"install the package with {entry.name}")
        pytest.skip(f"{entry.name} is not in VESALIUS_DATA")
    assert states <= {"whole"}
    assert len(locate(entry.name)) == len(entry.files)


def test_debians_pictures_are_the_publishers_with_another_gzip_header():
    """The publisher's labels are Debian's packed bytes after the header that gzip wrote in 2017."""
    file = next(f for f in corpus("fashion-mnist").files if "t10k-labels" in f.path)
    debians = Path(corpus("fashion-mnist").places[0]) / Path(file.path).name
    if not debians.exists():
        pytest.skip("install Debian's package dataset-fashion-mnist")
    packed = debians.read_bytes()
    header = b"\x1f\x8b\x08\x08" + (1504176627).to_bytes(4, "little") + b"\x00\x03"
    published = header + b"t10k-labels-idx1-ubyte\x00" + packed[10:]
    assert gzip.decompress(published) == gzip.decompress(packed)
    assert [form(published), form(packed)] == list(file.forms)


# where files are


def test_files_are_found_in_ones_own_folder_then_the_cache_then_the_system(
    known, cache, monkeypatch, tmp_path
):
    made = known(of(HELLO), places=(str(tmp_path / "system"),))
    system = put(tmp_path / "system", "hello.txt", HELLO)
    assert locate("hello") == [system]
    assert registry.whereabouts(made) == str(tmp_path / "system")
    fetched = put(cache, "text/hello.txt", HELLO)
    assert locate("hello") == [fetched]
    assert registry.whereabouts(made) == "cache"
    own = put(tmp_path / "own", "text/hello.txt", HELLO)
    monkeypatch.setenv("VESALIUS_DATA", str(tmp_path / "own"))
    assert locate("hello") == [own]
    assert registry.whereabouts(made) == "VESALIUS_DATA"


def test_the_same_content_in_other_bytes_will_do(known, cache):
    known(of(HELLO, also=[b"hello, corpus\r\n"]))
    path = put(cache, "text/hello.txt", b"hello, corpus\r\n")
    assert locate("hello") == [path]
    assert [check.state for check in verify("hello")] == ["whole"]


def test_a_file_cut_short_is_not_located(known, cache):
    known(of(HELLO, "https://example.org/hello"))
    put(cache, "text/hello.txt", HELLO[:-1])
    with pytest.raises(NotFetched, match=r"of 14 bytes .*vesalius data get hello"):
        locate("hello")
    assert [check.state for check in verify("hello")] == ["damaged"]


def test_a_file_of_the_right_size_but_other_bytes_is_told_by_its_hash(known, cache):
    known(of(HELLO))
    path = put(cache, "text/hello.txt", HELLO.upper())
    assert locate("hello") == [path]
    assert [(check.path, check.state) for check in verify("hello")] == [(path, "damaged")]


def test_what_no_address_gives_says_where_it_comes_from():
    for refuse in (locate, get):
        with pytest.raises(
            NotFetched, match=r"and 143 more .*Gutenberg.*set VESALIUS_DATA"
        ) as said:
            refuse("classics")
        first = registry.corpus("classics").files[0]
        place = registry.folders()[-1] / first.path
        assert f"Put the file with SHA-256 {first.sha256} at {place}, or" in str(said.value)
        assert "vesalius data info classics lists all" in str(said.value)


def test_stories_need_no_file():
    assert locate("stories") == get("stories") == verify("stories") == []
    assert registry.whereabouts(corpus("stories")) == "built in"


# fetching


@pytest.fixture
def server():
    """A real server on this machine; the dictionary that it gives is what it serves."""
    pages = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = pages.get(self.path, (404, b""))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", body.decode())
                body = b""
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *what):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        pages["address"] = f"http://127.0.0.1:{serving.server_address[1]}"
        yield pages
        serving.shutdown()
        thread.join()


plainly = partial(urlopen, timeout=600)


def fetch(made, progress=silent):
    return registry._get(made, progress, plainly)


def left_over(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_corpus_is_fetched_into_the_cache_and_located_there(server, known, cache):
    body = np.random.default_rng(7).bytes(3 * registry.PIECE + 5)
    server["/a"], server["/b"] = (200, body), (200, HELLO)
    made = known(
        of(body, f"{server['address']}/a", path="images/a.gz"), of(HELLO, f"{server['address']}/b")
    )
    seen = []
    paths = fetch(made, lambda *news: seen.append(news))
    assert paths == [cache / "images/a.gz", cache / "text/hello.txt"] == locate("hello")
    assert paths[0].read_bytes() == body
    assert seen[-2:] == [("images/a.gz", len(body), len(body)), ("text/hello.txt", 14, 14)]
    assert len(seen) > 3
    assert left_over(cache) == sorted(paths)


def test_what_is_here_and_whole_is_not_fetched_again(known, cache):
    path = put(cache, "text/hello.txt", HELLO)
    known(of(HELLO, "https://example.invalid"))
    assert get("hello") == [path]


def test_a_damaged_copy_in_the_cache_is_fetched_anew(server, known, cache):
    server["/b"] = (200, HELLO)
    path = put(cache, "text/hello.txt", HELLO.upper())
    assert fetch(known(of(HELLO, f"{server['address']}/b"))) == [path]
    assert path.read_bytes() == HELLO


def test_a_damaged_file_of_ones_own_is_left_alone(server, known, monkeypatch, tmp_path):
    server["/b"] = (200, HELLO)
    path = put(tmp_path / "own", "text/hello.txt", HELLO.upper())
    monkeypatch.setenv("VESALIUS_DATA", str(tmp_path / "own"))
    with pytest.raises(BrokenFile, match="remove or replace it"):
        fetch(known(of(HELLO, f"{server['address']}/b")))
    assert path.read_bytes() == HELLO.upper()


@pytest.mark.parametrize(
    ("served", "got"),
    [
        (HELLO.upper(), "got 14 bytes"),
        (HELLO[:-3], "got 11 bytes"),
        (HELLO + bytes(1 << 20), "got more than 14 bytes"),
    ],
    ids=["other bytes", "cut short", "too much"],
)
def test_what_has_another_hash_is_not_kept(server, known, cache, served, got):
    server["/b"] = (200, served)
    with pytest.raises(BrokenFile, match=got) as told:
        fetch(known(of(HELLO, f"{server['address']}/b")))
    assert form(HELLO).sha256 in str(told.value)
    if len(served) < 1000:
        assert form(served).sha256 in str(told.value)
    assert left_over(cache) == []


def test_too_much_is_not_read_to_its_end(known, cache):
    class Endless:
        read_ = 0

        def read(self, size):
            self.read_ += size
            return bytes(size)

        def __enter__(self):
            return self

        def __exit__(self, *what):
            pass

    answer = Endless()
    with pytest.raises(BrokenFile):
        registry._get(known(of(HELLO, "https://a")), silent, lambda a: answer)
    assert answer.read_ == registry.PIECE


def test_the_next_address_is_asked_where_the_first_does_not_answer(server, known, cache):
    server["/b"] = (200, HELLO)
    made = known(of(HELLO, f"{server['address']}/gone", f"{server['address']}/b"))
    assert fetch(made) == [cache / "text/hello.txt"]


def test_an_address_that_does_not_answer_is_named(server, known, cache):
    with pytest.raises(
        Unreachable, match=r"/gone cannot be fetched: Not Found. Try .*text/hello.txt"
    ):
        fetch(known(of(HELLO, f"{server['address']}/gone")))
    with pytest.raises(Unreachable, match=r"127.0.0.1:9/x cannot be fetched: .*refused"):
        fetch(known(of(HELLO, "http://127.0.0.1:9/x")))
    assert left_over(cache) == []


def test_an_interrupted_download_leaves_nothing(server, known, cache):
    server["/b"] = (200, HELLO)

    def stop(what, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(known(of(HELLO, f"{server['address']}/b")), stop)
    assert left_over(cache) == []


def test_a_cache_that_cannot_be_written_is_named(server, known, tmp_path):
    server["/b"] = (200, HELLO)
    (tmp_path / "cache").write_text("a file in the place of the folder")
    with pytest.raises(Unwritable, match=r"cannot write .*hello.txt: .*set VESALIUS_CACHE"):
        fetch(known(of(HELLO, f"{server['address']}/b")))


def test_nothing_is_fetched_but_over_https(server, known, cache):
    server["/b"] = (200, HELLO)
    known(of(HELLO, f"{server['address']}/b"))
    with pytest.raises(Unreachable, match="is no https address"):
        get("hello")
    for address in ("ftp://example.org/x", "file:///etc/passwd", "/etc/passwd"):
        with pytest.raises(Unreachable, match="is no https address"):
            registry._open(address)


def test_no_redirect_leads_away_from_https(server, known, cache):
    server["/b"] = (200, HELLO)
    server["/moved"] = (302, f"{server['address']}/b".encode())
    made = known(of(HELLO, f"{server['address']}/moved"))
    strictly = partial(build_opener(registry.OnlySecure).open, timeout=600)
    with pytest.raises(Unreachable, match=r"/b is no https address"):
        registry._get(made, lambda file, size: None, strictly)
    assert fetch(made) == [cache / "text/hello.txt"]  # as it would be were it not for the rule
