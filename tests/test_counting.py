"""Counting by formula: the published totals, and any configuration against its actual arrays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import BLOCKS, WORDS, configurations

from vesalius import count
from vesalius.counting import parameters
from vesalius.equations import (
    bert_parameters,
    elman_parameters,
    gpt2_parameters,
    lstm_parameters,
    size,
)
from vesalius.families import FAMILIES, SIZES, configuration, names, random_parameters

TOTALS = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "bert-base-uncased": 109_482_240,
    "bert-base-cased": 108_310_272,
    "bert-large-uncased": 335_141_888,
    "bert-large-cased": 333_579_264,
    "bert-tiny": 4_385_920,
    "bert-small": 28_763_648,
    "bert-medium": 41_373_184,
    "vit-base-patch16-224": 86_567_656,
    "vit-large-patch16-224": 304_326_632,
    "vit-huge-patch14-224": 632_045_800,
    "vit-base-patch32-224": 88_224_232,
    "vit-large-patch32-224": 306_535_400,
    "zaremba-2014-large": 66_022_000,
}


@pytest.mark.parametrize("name", TOTALS)
def test_published_models_have_their_published_totals(name):
    assert count(name).total == TOTALS[name]


@pytest.mark.parametrize(
    ("name", "mlm", "both"),
    [
        ("bert-base-uncased", 110_104_890, 110_106_428),
        ("bert-large-uncased", 336_224_058, 336_226_108),
    ],
)
def test_berts_heads_are_counted_when_asked_for(name, mlm, both):
    assert count(name, mlm_head=True).total == mlm
    assert count(name, mlm_head=True, nsp_head=True).total == both
    assert list(count(name).also.values())[:2] == [mlm, both]


def test_totals_that_people_argue_over_are_explained():
    assert count("gpt2").also == {
        "with input and output embeddings not tied": 163_037_184,
        "without embeddings and positions": 85_056_000,
    }
    assert 109_514_298 in count("bert-base-uncased").also.values()


def test_a_model_goes_by_its_organisations_name_too():
    for alias, name in {
        "openai-community/gpt2-xl": "gpt2-xl",
        "google-bert/bert-base-cased": "bert-base-cased",
        "google/vit-base-patch16-224": "vit-base-patch16-224",
        "google/bert_uncased_L-2_H-128_A-2": "bert-tiny",
    }.items():
        assert count(alias).total == count(name).total


def test_sinusoidal_positions_cost_no_parameter():
    learned, fixed = (count("gpt2", positions=kind).total for kind in ("learned", "sinusoidal"))
    assert learned - fixed == 768 * 1024


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25)
@given(data=st.data())
def test_every_count_is_that_of_the_actual_arrays(family, data):
    config = data.draw(configurations(family))
    assert parameters(config) == size(random_parameters(config, 0))


@given(st.integers(1, 200), st.integers(1, 4))
def test_tied_recurrent_models_are_an_embedding_and_the_papers_layers(d_e, L):
    words = {"vocabulary": 7, "embedding": d_e, "layers": L}
    assert count("rnn", **words).total == 7 * d_e + L * elman_parameters(d_e)
    assert count("lstm", **words).total == 7 * d_e + L * lstm_parameters(d_e, d_e)


@given(st.fixed_dictionaries({**BLOCKS, **WORDS}))
def test_the_tables_add_up_to_equations_40_and_60(changes):
    for family, formula, heads in (
        ("gpt2", gpt2_parameters, {}),
        ("bert", bert_parameters, {"mlm_head": True}),
    ):
        config = configuration(family, **changes, **heads)
        s = config.symbols()
        letters = {name: s[name] for name in ("d_e", "V", "n", "L", "M", "d_k", "d_v", "d_f")}
        assert parameters(config) == formula(**letters, zeta=s["zeta"])


@pytest.mark.parametrize("name", names())
def test_the_rows_of_a_table_add_up_to_its_total(name):
    counted = count(name)
    leaves = [row for row in counted.rows if row.numbers]
    assert sum(row.count * row.times for row in leaves) == counted.total
    assert sum(row.share for row in leaves) == pytest.approx(1)
    assert counted.bytes["float32"] == 4 * counted.total


def test_sums_are_shown_as_sums():
    rows = {row.symbol: row.formula for row in count("gpt2").rows}
    assert rows["Φ"] == "L Φ[l]"
    assert rows["Φ[l]"] == "Γ[l] + Π[l] + Ξ₁[l] + Ξ₂[l]"
    assert count("gpt2").formula == "E + Λ + Ξₑ + Φ"
    assert count("ffnn", layers=3).formula == "E + Φ[1] + (L − 1) Φ[l] + U"


def test_every_named_size_belongs_to_a_family_and_every_family_has_one():
    assert all(family.sizes for family in FAMILIES.values())
    assert len(SIZES) == sum(len(family.sizes) for family in FAMILIES.values())


def test_a_configuration_of_ones_own_is_counted_as_it_is():
    config = configuration("gpt2", layers=1, key=10, value=3)
    assert count(config).total == gpt2_parameters(768, 50257, 1024, 1, 12, 10, 3, 3072, zeta=1)


def test_a_tagger_without_a_pooler_is_no_smaller_than_its_own_backbone():
    tagger = count("bert", labels=3, labelled="tokens", pooler=False)
    assert "backbone" not in tagger.also
    assert tagger.also["backbone with its pooler"] > tagger.total
