"""Hugging Face's hub: the files of a model in its cache, downloaded if need be.

What a name means is left to ``naming``. Pickled weights are never fetched.
"""

import os
from contextlib import suppress
from pathlib import Path

from vesalius.errors import UnknownModel, Unreachable, nearest
from vesalius.families import HUB_NAMES, names

WANTED = (
    *("config.json", "generation_config.json", "preprocessor_config.json"),
    *("model.safetensors", "model.safetensors.index.json", "model-*.safetensors"),
    *("tokenizer.json", "vocab.json", "merges.txt", "vocab.txt", "tokenizer_config.json"),
)


def fetch(name: str, revision: str | None = None, local_files_only: bool = False) -> Path:
    """The folder of a model; a named size is asked for under its name at the hub.

    The hub redirects old names such as gpt2, so that caches may hold a model under either.
    """
    try:
        return _fetch(HUB_NAMES.get(name, name), revision, local_files_only)
    except Unreachable as error:
        if name not in HUB_NAMES:
            raise
        with suppress(Unreachable):
            return _fetch(name, revision, local_files_only=True)
        raise Unreachable(f"{name}: {error}") from error


def _fetch(name: str, revision: str | None, local_files_only: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        folder = snapshot_download(
            name, revision=revision, allow_patterns=[*WANTED], local_files_only=local_files_only
        )
        return Path(folder)
    except RevisionNotFoundError as error:
        raise UnknownModel(f"{name} has no revision {revision!r}") from error
    except GatedRepoError as error:
        raise Unreachable(f"{name} is gated; ask for access and log in to Hugging Face") from error
    except RepositoryNotFoundError as error:
        raise UnknownModel(
            f"there is no folder and no Hugging Face model {name!r}; {nearest(name, names())}"
        ) from error
    except HFValidationError as error:
        raise UnknownModel(f"{name!r} cannot be a Hugging Face name: {error}") from error
    except Exception as error:  # of the library, its transport, or the disk
        offline = local_files_only or os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0")
        reason = "the network is not to be used" if offline else "the network does not answer"
        raise Unreachable(
            f"{name!r} is no folder here and not in Hugging Face's cache, and {reason}"
        ) from error
