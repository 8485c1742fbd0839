"""What the tests of several verbs need."""

import pytest


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory):
    """A small GPT-2 with a tokenizer, in Hugging Face's layout."""
    from tokenizers import ByteLevelBPETokenizer

    from vesalius import create
    from vesalius.tokenizers import Tokenizer

    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(["I forgot to take my umbrella"] * 3, vocab_size=270)
    model = create("gpt2", layers=2, embedding=12, heads=3, vocabulary=270, context=9)
    model.tokenizer = Tokenizer(tokenizer)
    folder = tmp_path_factory.mktemp("gpt2")
    model.save(folder, layout="huggingface")
    return str(folder)
