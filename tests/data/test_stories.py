"""The stories' probabilities are exact, their text can be read back, and far words agree."""

import math
import os
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import islice, pairwise, product

import numpy as np
import pytest
from agreement import agree
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2

from vesalius import errors
from vesalius.data.stories import (
    END,
    Grammar,
    ImpossibleContext,
    UnusableGrammar,
    as_text,
    as_words,
    distributions,
    entropy,
    log_probabilities,
    log_probability,
    next_word,
    perplexity_floor,
    stories,
    story_grammar,
    stream,
    tags,
    text,
    vocabulary,
)

RAIN = "I knew it was going to rain but I forgot to take my umbrella."
SEEDS = st.integers(0, 2**32)


@pytest.fixture(scope="module")
def sample():
    """Some two hundred thousand words."""
    return list(stories(2024, 2500))


def listed(words):
    return words.split()


# A grammar small enough for all of its documents to be written down by other means.

TALE = """
Tale  = Start (2: Walk | Walk Rest)
Start = hero.name lived here . | 3: the house was hero.his .
Walk  = (hero.he | 2: hero.name) (saw | heard | heard) the people.man .
Rest  = 2: the people.man people.was there . | the house was (| 3: very) old .
"""
WORDS = {
    "PROPN": "ann bob tim",
    "PRON": "i she he her his my",
    "NOUN": "house man men",
    "VERB": "lived saw heard",
    "AUX": "was were",
    "DET": "the",
    "ADV": "here there very",
    "ADJ": "old",
    "PUNCT": ".",
}
HERO = """
       name he  his
    2: i    i   my
       ann  she her
       bob  he  his
       tim  he  his
"""
PEOPLE = """
       man was
    3: man was
       men were
"""
HEROES = [
    ("i", "i", "my", 2),
    ("ann", "she", "her", 1),
    ("bob", "he", "his", 1),
    ("tim", "he", "his", 1),
]
PEOPLES = [("man", "was", 3 / 4), ("men", "were", 1 / 4)]


def tale():
    return Grammar(TALE, WORDS, {"hero": HERO, "people": PEOPLE}, passing=["people"])


def all_tales():
    """Every document with its probability, by loops instead of rules."""
    probability = defaultdict(float)
    for name, he, his, weight in HEROES:
        starts = [(f"{name} lived here .", 1 / 4), (f"the house was {his} .", 3 / 4)]
        walks = [
            (f"{who} {verb} the {man} .", p * q * r)
            for (who, p), (verb, q), (man, _, r) in product(
                [(he, 1 / 3), (name, 2 / 3)], [("saw", 1 / 3), ("heard", 2 / 3)], PEOPLES
            )
        ]
        rests = [("", 2 / 3)]
        rests += [(f" the {man} {was} there .", 2 / 9 * p) for man, was, p in PEOPLES]
        rests += [(" the house was old .", 1 / 36), (" the house was very old .", 1 / 12)]
        for (start, p), (walk, q), (rest, r) in product(starts, walks, rests):
            words = f"{start} {walk}{rest} {END}"
            probability[tuple(words.split())] += weight / 5 * p * q * r
    return dict(probability)


def test_the_probabilities_of_all_documents_of_a_small_grammar_are_those_of_its_rules():
    grammar, tales = tale(), all_tales()
    agree(sum(tales.values()), 1)
    for words, probability in tales.items():
        agree(grammar.log_probabilities(words).sum(), math.log(probability))


def test_the_entropy_of_a_small_grammar_is_the_sum_over_all_of_its_documents():
    measure, tales = tale().measure, all_tales()
    agree(measure.nats, -sum(p * math.log(p) for p in tales.values()))
    agree(measure.words, sum(p * len(words) for words, p in tales.items()))
    agree(measure.entropy, measure.nats / measure.words)
    assert measure.longest == max(map(len, tales))


def test_next_words_of_a_small_grammar_are_the_shares_of_the_documents_that_go_on_so():
    grammar, following = tale(), defaultdict(lambda: defaultdict(float))
    for words, probability in all_tales().items():
        for n, word in enumerate(words):
            following[words[:n]][word] += probability
    for context, shares in following.items():
        found = grammar.next_word(context)
        assert set(found) == set(shares)
        for word, share in shares.items():
            agree(found[word], share / sum(shares.values()))


def test_documents_of_a_small_grammar_come_as_often_as_they_should():
    tales = all_tales()
    seen = Counter(tuple(stream(document)) for document in tale().documents(5, 10_000))
    assert set(seen) <= set(tales)
    statistic = sum((seen[t] - 10_000 * p) ** 2 / (10_000 * p) for t, p in tales.items())
    assert chi2.sf(statistic, len(tales) - 1) > 1e-4


# The stories.


@settings(max_examples=40)
@given(SEEDS, st.floats(0, 1))
def test_the_probabilities_of_the_next_word_sum_to_one(seed, cut):
    words = stream(next(stories(seed)))
    chances = next_word(words[: int(cut * len(words))])
    agree(sum(chances.values()), 1)
    assert all(p > 0 for p in chances.values())
    assert list(chances.values()) == sorted(chances.values(), reverse=True)
    assert set(chances) <= set(vocabulary())


@settings(max_examples=20)
@given(SEEDS)
def test_the_probability_of_a_document_is_the_product_over_its_next_words(seed):
    document = next(stories(seed))
    words = stream(document)
    chances = [next_word(words[:n])[word] for n, word in enumerate(words)]
    agree(log_probability(document), math.log(math.prod(chances)))
    agree(log_probabilities(words), np.log(chances))
    *before, after = distributions(words)
    agree([d[word] for d, word in zip(before, words, strict=True)], chances)
    assert after == next_word([])


def test_a_stream_begins_anew_after_the_end_of_a_document():
    first, second = (stream(document) for document in stories(3, 2))
    both = log_probabilities(first + second)
    agree(both, np.concatenate([log_probabilities(first), log_probabilities(second)]))
    assert next_word(first) == next_word([]) == next_word("")


def test_sampled_words_come_as_often_as_stated(sample):
    following = defaultdict(Counter)
    for words in map(stream, sample):
        for n in range(12):
            following[tuple(words[:n])][words[n]] += 1
    statistic, freedom = 0.0, 0
    for context in [context for context, seen in following.items() if seen.total() > 20]:
        seen, chances = following[context], next_word(context)
        total = seen.total()
        assert set(seen) <= set(chances)
        if len(chances) > 1 and total * min(chances.values()) > 5:
            statistic += sum((seen[w] - total * p) ** 2 / (total * p) for w, p in chances.items())
            freedom += len(chances) - 1
    assert freedom > 50
    assert chi2.sf(statistic, freedom) > 1e-4


def test_the_mean_loss_of_the_truth_over_a_long_sample_is_the_entropy(sample):
    words = np.array([len(stream(document)) for document in sample[:1200]])
    nats = np.array([-log_probability(document) for document in sample[:1200]])
    measure = story_grammar().measure
    for values, expected in ((nats, measure.nats), (words, measure.words)):
        assert abs(values.mean() - expected) < 4 * values.std() / math.sqrt(len(values))
    spread = (nats - entropy() * words).std() / math.sqrt(len(words))
    assert abs((nats - entropy() * words).mean()) < 4 * spread
    assert spread / words.mean() < 0.01 * entropy()  # so that a mistake of some percent would show
    assert words.max() <= measure.longest
    agree(perplexity_floor(), math.exp(entropy()))


def trigram_loss(train, test, discount=0.5):
    """Nats per word of trigrams that fall back on bigrams, words and nothing, by discounting."""
    counts = [defaultdict(Counter) for _ in range(3)]
    for document in train:
        words = (END, END, *document)
        for n in range(2, len(words)):
            for order in range(3):
                counts[order][words[n - order : n]][words[n]] += 1

    def probability(word, context):
        estimate = 1 / len(vocabulary())
        for order in range(3):
            if seen := counts[order].get(context[2 - order :]):
                fallback = discount * len(seen) * estimate
                estimate = (max(seen[word] - discount, 0) + fallback) / seen.total()
        return estimate

    losses = []
    for document in test:
        words = (END, END, *document)
        losses += [-math.log(probability(words[n], words[n - 2 : n])) for n in range(2, len(words))]
    return float(np.mean(losses))


def test_far_words_matter_trigrams_stay_well_above_the_floor(sample):
    words = [tuple(stream(document)) for document in sample]
    loss = trigram_loss(words[:2300], words[2300:])
    assert entropy() < 0.7
    assert 1.9 * entropy() < loss < 2.5 * entropy()


# What the grammar can say.


def test_the_papers_sentence_opens_one_story_in_a_hundred(sample):
    chance = 1 / 5 * 4 / 16 * 11 / 23 * 3 / 4 * 6 / 11  # plot, I, rain, forgot, umbrella
    words = as_words(RAIN)[:-1]
    agree(math.exp(log_probabilities(words).sum()), chance)
    opened = sum(stream(document)[: len(words)] == words for document in sample)
    assert binomtest(opened, len(sample), chance).pvalue > 1e-4


def test_the_object_depends_on_the_weather():
    def forgotten(weather):
        return next_word(f"I knew it was going to {weather} but I forgot to take my")

    assert forgotten("rain") == {"umbrella": 6 / 11, "coat": 3 / 11, "boots": 2 / 11}
    assert "umbrella" not in forgotten("snow")
    assert forgotten("freeze") == {"mittens": 2 / 3, "blanket": 1 / 3}


def test_the_papers_other_sentence_is_said_too(sample):
    sentence = listed('he never said " better late than never " .')
    said = [document for document in sample for s in document if [t.word for t in s] == sentence]
    assert len(said) > 30
    assert 'He never said "better late than never".' in as_text(stream(said[0]))


def test_every_word_and_part_of_speech_is_used(sample):
    tokens = {token for document in sample for sentence in document for token in sentence}
    assert {token.word for token in tokens} | {END} == set(vocabulary())
    assert {token.tag for token in tokens} == set(tags())
    assert 300 <= len(vocabulary()) == len(set(vocabulary())) <= 400
    assert vocabulary()[0] == END


def test_a_word_has_the_part_of_speech_that_it_has_there(sample):
    found = defaultdict(set)
    for document in sample:
        for sentence in document:
            for before, token in pairwise(sentence):
                found[before.word, token.word].add(token.tag)
    assert found["to", "rain"] == {"VERB"}
    assert found["the", "rain"] == {"NOUN"}
    assert found["going", "to"] == {"PART"}
    assert found["walked", "to"] == {"ADP"}
    assert found["that", "night"] == found["the", "light"] == {"NOUN"}
    assert found["is", "light"] == {"ADJ"}
    assert found["at", "home"] == {"NOUN"}


# Agreement over a distance, told from lists of words that know nothing of the grammar.

ONE = listed("""
    key letter book ring bell map coin watch man woman girl boy farmer stranger basket boat cart
    clock kettle saddle ladder lamp bread cloth umbrella coat scarf hat cap blanket dog cat donkey
    goat parrot air fog light road wind house hut moon aunt sister grandmother brother uncle
    grandfather birthday day morning
""")
MANY = listed("""
    keys letters books rings bells maps coins watches men women girls boys children farmers
    strangers baskets boats carts clocks kettles saddles ladders lamps chairs roses doors bowls
    nails coats boots gloves mittens ducks swans gulls owls goats hens sheep pigeons
""")
NUMBER = dict.fromkeys(ONE, 1) | dict.fromkeys(MANY, 2)
FORMS = {"was": 1, "is": 1, "were": 2, "are": 2}


def subjects_and_verbs(document):
    """Head noun, finite verb, and the nouns between, of each clause that begins with a noun."""
    for sentence in document:
        told, _, quoted = " ".join(token.word for token in sentence).partition('"')
        for words in (told.split(), quoted.split()):
            verbs = [n for n, word in enumerate(words) if word in FORMS]
            if verbs and words[0] in ("the", "my", "her", "his"):
                head, *between = [word for word in words[: verbs[0]] if word in NUMBER]
                yield head, words[verbs[0]], between


def test_verbs_agree_with_their_subjects_whatever_stands_between(sample):
    clauses = [clause for document in sample for clause in subjects_and_verbs(document)]
    assert not [clause for clause in clauses if NUMBER[clause[0]] != FORMS[clause[1]]]
    misled = [verb for _, verb, last in clauses if last and NUMBER[last[-1]] != FORMS[verb]]
    deep = [verb for _, verb, between in clauses if len(between) > 1]
    assert len(clauses) > 5000
    assert len(misled) > 500  # the nearest noun would have said otherwise
    assert len(deep) > 500


def test_the_parts_of_speech_find_the_same_subjects(sample):
    for document in sample:
        for sentence in document:
            nouns = [word for word, tag in sentence if tag == "NOUN"]
            verbs = [word for word, tag in sentence if tag == "AUX" and word in FORMS]
            if sentence[0].tag == "DET" and verbs and '"' not in {word for word, _ in sentence}:
                assert NUMBER[nouns[0]] == FORMS[verbs[0]], as_text(stream([sentence]))


def test_the_other_form_of_the_verb_is_impossible():
    kept = "Mara lived in a small house by the river. One morning she lost some red keys. "
    kept += "The red keys were not in the house. Until supper she searched near the bridge. "
    kept += "The keys that the old man who mended the clock had found"
    assert next_word(kept) == {"were": 1.0}
    kept = kept.replace("some", "a").replace("keys", "key").replace("were", "was")
    assert next_word(kept) == {"was": 1.0}
    assert "hers" in next_word(f"{kept} was not")


SHE = {"clara", "hanna", "lena", "mara", "nora", "rosa"}
HE = {"anton", "felix", "hugo", "jonas", "oscar", "tom"}
FAMILY = {"aunt", "sister", "grandmother", "brother", "uncle", "grandfather"}
ALONE_IN_A_STORY = [
    SHE | HE,
    FAMILY,
    set(listed("river lake sea forest valley village hill")),
    set(listed("bridge boathouse harbour mill fountain tower")),
    set(listed("key keys letter letters ring rings bell bells map maps watch watches")),
    set(listed("umbrella coat boots gloves scarf hat cap mittens blanket")),
    set(listed("raining snowing hailing freezing")),
    set(listed("dog cat donkey goat parrot")),
]


def test_hero_place_thing_and_weather_stay_what_they_are(sample):
    for document in sample:
        words = stream(document)
        for group in ALONE_IN_A_STORY:
            assert len(group & set(words)) <= 1, as_text(words)
        names = (SHE | HE) & set(words) or {"i"} & set(words)
        owners = {b for b, w in pairwise(words) if w in FAMILY}
        right = "her" if names <= SHE else "his" if names <= HE else "my"
        if names:
            assert owners <= {right}, as_text(words)


def test_a_thing_introduced_early_is_known_later():
    opening = "I lived in a small house by the sea. One day I lost a golden watch. "
    later = "I opened every drawer and found nothing. Until noon I searched near the harbour. "
    end = "The shy girl was tired but knew nothing. My aunt found the"
    assert next_word(opening + later + end) == {"golden": 1.0}
    assert next_word(f"{opening}{later}{end} golden") == {"watch": 1.0}
    assert set(next_word(f"{opening}{later}The shy girl was tired but knew nothing. My")) == FAMILY


# Text.


@settings(max_examples=25)
@given(SEEDS, st.integers(1, 5))
def test_text_and_words_say_the_same(seed, count):
    documents = list(stories(seed, count))
    words = [word for document in documents for word in stream(document)]
    written = as_text(words)
    assert as_words(written) == words
    assert as_text(as_words(written)) == written
    assert story_grammar().read(words) == documents


def test_text_is_written_as_people_do():
    words = listed('mara was sad , so i left . she said , " the key is mine " .')
    told = 'Mara was sad, so I left. She said, "The key is mine".\n'
    assert as_text(words) == as_text([*words, END]) == told
    assert as_text([*words, END, "all", "was", "well", ".", END]) == f"{told}\nAll was well.\n"


def test_text_has_whole_stories_and_the_words_asked_for():
    written = text(11, 2000)
    paragraphs = written.split("\n\n")
    assert 2000 <= len(written.split()) < 2000 + story_grammar().measure.longest
    assert all(p.rstrip().endswith(".") and "\n" not in p.rstrip() for p in paragraphs)
    assert as_words(written) == [w for d in stories(11, len(paragraphs)) for w in stream(d)]
    assert text(11, 0) == ""


def test_a_seed_always_tells_the_same_and_another_something_else():
    assert text(1, 500) == text(1, 500) != text(2, 500)
    assert list(stories(4, 3)) == list(islice(stories(4), 3))
    code = "from vesalius.data.stories import text; print(text(1, 500), end='')"
    for order in "01":  # sets are in another order in another process
        environment = {**os.environ, "PYTHONHASHSEED": order}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
        assert done.stdout.decode() == text(1, 500)


def test_stories_need_no_torch():
    code = "import sys, vesalius.data.stories as d; d.text(1, 9); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert not {b"torch", b"scipy"} & set(done.stdout.split())


# What is refused.


def test_a_context_that_no_story_has_is_refused_with_what_was_possible():
    with pytest.raises(ImpossibleContext) as refused:
        next_word("I knew it was going to sing")
    assert str(refused.value) == (
        "word 7 cannot be 'sing' after 'i knew it was going to'; "
        "possible there: rain, snow, freeze, hail"
    )
    with pytest.raises(
        ImpossibleContext, match=r"word 1 cannot be 'umbrella' at the beginning; .*"
    ):
        log_probabilities(["umbrella"])
    with pytest.raises(ImpossibleContext, match=r"word 5 cannot be '<end>' .* and 3 more"):
        next_word(["i", "lived", "in", "a", END])


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ("A = b A", "calls itself: A > A"),
        ("A = b C\nC = c A", "calls itself: A > C > A"),
        ("A = b C", "A calls C, which is no rule"),
        ("A = b (c", "opens a parenthesis"),
        ("A = b c)", "closes a parenthesis"),
        ("A = b\nA = c", "the rule A is there twice"),
        ("A = 0: b | c", "above zero, got '0:'"),
        ("A = x: b | c", "expected a weight such as '3:', got 'x:'"),
        ("A = 1/0: b | c", "expected a weight"),
        ("A = d", "the word 'd', which has no part of speech"),
        ("b c", "expected a rule such as"),
        ("", "expected a rule such as"),
        ("A = one.x", "one.x, which no table has; did you mean one.n"),
        ("A = one.n c | b", "'b' can come from one.n and from b/X"),
        ("A = b/Y c | b b", "'b' can come from b/X and from b/Y"),
        (
            "A = c (one.n b | one.m c)",
            "after 'c/X' the word 'c' can come from one.n and from one.m",
        ),
    ],
)
def test_a_grammar_that_cannot_be_meant_is_refused(rules, complaint):
    with pytest.raises(UnusableGrammar, match=complaint):
        Grammar(rules, {"X": "b c"}, {"one": "n m\nb c\nc b"})


@pytest.mark.parametrize(
    ("words", "table", "complaint"),
    [
        ({"X": "b", "Y": "b"}, "n\nb", "'b' is listed under X and again under Y"),
        ({"X": "b"}, "n m\nb", "has 1 words for the columns"),
        ({"X": "b"}, "n\nb\nb", "is there twice"),
        ({"X": "b"}, "n n\nb b", "two columns of the same name"),
        ({"X": "b"}, "n", "has no rows"),
        ({"X": "b"}, "", "has no rows"),
        ({"X": "b"}, "n\nc", r"words without tags: \['c'\]"),
    ],
)
def test_words_and_tables_that_cannot_be_meant_are_refused(words, table, complaint):
    with pytest.raises(UnusableGrammar, match=complaint):
        Grammar("A = b", words, {"one": table})


def test_a_passing_variable_must_have_a_table():
    with pytest.raises(UnusableGrammar, match="without a table: two"):
        Grammar("A = b", {"X": "b"}, passing=["two"])


def test_errors_of_grammars_stand_with_the_others():
    assert UnusableGrammar is errors.UnusableGrammar
    assert ImpossibleContext is errors.ImpossibleContext
