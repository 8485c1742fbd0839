"""Hugging Face names: found in the cache without a network, refused clearly where they are not."""

import pytest
from processes import code

import vesalius
from vesalius.errors import Unreachable

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path):
    """A cache as huggingface_hub lays it out, with one model in one revision."""
    repository = tmp_path / "hub" / "models--someone--tiny-gpt2"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(REVISION)
    model = vesalius.create("gpt2", layers=1, embedding=12, vocabulary=9, context=5)
    model.save(repository / "snapshots" / REVISION, layout="huggingface")
    return tmp_path


def run(cache, text, **environment):
    """Where the cache is, huggingface_hub asks once in a process."""
    home = {"HF_HOME": str(cache), "HF_HUB_CACHE": str(cache / "hub")}
    return code(f"import vesalius as vs\n{text}", **home, **environment)


def test_a_model_in_the_cache_is_loaded_by_its_name(cache):
    text = "print(vs.load('someone/tiny-gpt2', local_files_only=True).config.vocabulary)"
    assert run(cache, text).stdout == "9\n"
    offline = "print(vs.load('someone/tiny-gpt2').config.vocabulary)"
    assert run(cache, offline, HF_HUB_OFFLINE="1").stdout == "9\n"


def test_a_revision_is_taken_by_its_name(cache):
    text = "print(vs.load('someone/tiny-gpt2', revision={!r}, local_files_only=True).family)"
    assert run(cache, text.format(REVISION)).stdout == "gpt2\n"
    missing = run(cache, text.format("f" * 40))
    assert "Unreachable" in missing.stderr


def test_a_local_folder_comes_before_the_hub(cache, tmp_path):
    folder = tmp_path / "someone" / "tiny-gpt2"
    vesalius.create("lstm", embedding=4, vocabulary=5).save(folder)
    text = f"import os; os.chdir({str(tmp_path)!r}); print(vs.load('someone/tiny-gpt2').family)"
    assert run(cache, text).stdout == "lstm\n"


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("bert-tiny", "google/bert_uncased_L-2_H-128_A-2"),
        ("bert_uncased_L-4_H-256_A-4", "google/bert_uncased_L-4_H-256_A-4"),
        ("gpt2", "openai-community/gpt2"),
        ("gpt2", "gpt2"),  # as the hub called it once, and caches still do
        ("bert-base-uncased", "google-bert/bert-base-uncased"),
        ("vit-base-patch16-224", "google/vit-base-patch16-224"),
        ("prajjwal1/bert-tiny", "prajjwal1/bert-tiny"),
    ],
)
def test_a_named_size_is_found_under_the_name_it_is_published_by(cache, name, published):
    (held,) = (cache / "hub").iterdir()
    held.rename(cache / "hub" / f"models--{published.replace('/', '--')}")
    text = f"print(vs.load({name!r}, local_files_only=True).config.vocabulary)"
    assert run(cache, text).stdout == "9\n"


def test_the_hub_is_asked_for_the_published_name(monkeypatch):
    asked = []

    def fetch(name, **_settings):
        asked.append(name)
        raise ConnectionError("refused")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    with pytest.raises(Unreachable, match="bert-tiny: 'google/bert_uncased_L-2_H-128_A-2' is no "):
        vesalius.load("bert-tiny")
    assert asked == ["google/bert_uncased_L-2_H-128_A-2", "bert-tiny"]  # the latter of the cache
    with pytest.raises(Unreachable):
        vesalius.load("prajjwal1/bert-tiny")  # who says whose is given theirs
    assert asked[2:] == ["prajjwal1/bert-tiny"]


def test_what_is_not_cached_is_unreachable_without_a_network(cache):
    done = run(cache, "vs.load('someone/else')", HF_HUB_OFFLINE="1")
    assert "Unreachable: 'someone/else' is no folder here and not in Hugging Face's cache" in (
        done.stderr
    )
