"""The words of the stories, and the tables of what belongs together in them.

Columns are named after an example, so that rules read like one: ``place.by the place.river``.
"""

WORDS = {
    "ADJ": """
        alone asleep better blue bright broken busy cheap cheerful clean clear cold crooked dark
        dear dusty fine glad golden good green grey happy heavy hungry ill kind last late light
        little lonely loud many narrow new next old other perfect plain poor pretty proud quiet red
        rich sad safe shy slow small steady strange sweet tall thin tired useless warm wet white
        wooden young
    """,
    "ADP": """
        after at before behind beyond by for from in like near of on out past than through under
        until with
    """,
    "ADV": """
        again always back everywhere far home loudly never not once slowly softly soon still then
        there too twice very well
    """,
    "AUX": "are had is was were",
    "CCONJ": "and but so",
    "DET": "a all an every no some that the",
    "NOUN": """
        afternoon air aunt autumn baker basket baskets bed bell bells birthday blanket boat
        boathouse boats book books boots bowl bowls box boy boys bread bridge brother cap carpenter
        cart carts cat chair chairs child children clock clocks cloth coat coats coin coins cupboard
        day dog donkey doors drawer ducks evening farmer farmers fields fog forest fountain frost
        garden gardener gate gift girl girls gloves goat goats grandfather grandmother gulls hail
        hands harbour hat hens hill hour house hurry hut kettle kettles key keys kitchen ladder
        ladders lake lamp lamps letter letters man map maps market men mill mittens moon morning
        nails night noon oven owls painter parrot pigeons pocket potter rain ring rings river road
        room roses saddle saddles scarf sea sheep shelf side sister smith snow soup spring stairs
        stars stranger strangers summer sun supper swans table tailor tea time tower tree umbrella
        uncle valley village watch watches way weaver wind window winter woman women work
    """,
    "NUM": "five four one ten three two",
    "PART": "to",
    "PRON": "he her hers him his i it me mine my nobody nothing she them they who yours",
    "PROPN": "anton clara felix hanna hugo jonas lena mara nora oscar rosa tom",
    "PUNCT": '" , .',
    "SCONJ": "when",
    "VERB": """
        asked ate baked barked began bleated borrowed bought brayed brought built came carried chose
        cleaned counted drank dreamed ends fed followed forged forgot found freeze freezing gave
        going gone got grew hailing held hid kept knew laughed laughing lent lived looked lost make
        mended opened painted pulled purred raining ran said sang sat saw searched seen sewed shaped
        singing slept smiled snowing sold stayed stood take talked took waited waiting walked wanted
        watched went wept wins worked wove
    """,
}

HERO = """
        name   he   him  his  mine
    4:  i      i    me   my   mine
        clara  she  her  her  hers
        hanna  she  her  her  hers
        lena   she  her  her  hers
        mara   she  her  her  hers
        nora   she  her  her  hers
        rosa   she  her  her  hers
        anton  he   him  his  his
        felix  he   him  his  his
        hugo   he   him  his  his
        jonas  he   him  his  his
        oscar  he   him  his  his
        tom    he   him  his  his
"""

FRIEND = """
        aunt         he   him
    2:  aunt         she  her
    2:  sister       she  her
        grandmother  she  her
    2:  brother      he   him
        uncle        he   him
        grandfather  he   him
"""

JOB = """
        baker      baked    bread   was   is
    2:  baker      baked    bread   was   is
        carpenter  built    chairs  were  are
        gardener   grew     roses   were  are
        painter    painted  doors   were  are
        potter     shaped   bowls   were  are
        smith      forged   nails   were  are
        tailor     sewed    coats   were  are
        weaver     wove     cloth   was   is
"""

PET = """
        dog     barked
    3:  dog     barked
    2:  cat     purred
        donkey  brayed
        goat    bleated
        parrot  talked
"""

PLACE = """
        by    river    ducks    bridge
    3:  by    river    ducks    bridge
    2:  by    lake     swans    boathouse
    2:  by    sea      gulls    harbour
    2:  in    forest   owls     hut
    2:  in    valley   goats    mill
    2:  in    village  hens     fountain
    2:  on    hill     sheep    tower
        at    market   pigeons  gate
"""

THING = """
        a     key      was   is   it    them
    3:  a     key      was   is   it    it
    3:  some  keys     were  are  they  them
    2:  a     letter   was   is   it    it
    2:  some  letters  were  are  they  them
    2:  a     book     was   is   it    it
    2:  some  books    were  are  they  them
    2:  a     ring     was   is   it    it
        some  rings    were  are  they  them
        a     bell     was   is   it    it
        some  bells    were  are  they  them
        a     map      was   is   it    it
        some  maps     were  are  they  them
        a     coin     was   is   it    it
    2:  some  coins    were  are  they  them
    2:  a     watch    was   is   it    it
        some  watches  were  are  they  them
"""

LOOK = """
    red
    blue
    golden
    green
    heavy
    pretty
    red
    small
    strange
"""

WEATHER = """
        rain    raining   water  umbrella  was   is
    6:  rain    raining   rain   umbrella  was   is
    3:  rain    raining   rain   coat      was   is
    2:  rain    raining   rain   boots     were  are
    3:  snow    snowing   snow   gloves    were  are
    2:  snow    snowing   snow   scarf     was   is
        snow    snowing   snow   boots     were  are
    2:  hail    hailing   hail   hat       was   is
        hail    hailing   hail   cap       was   is
    2:  freeze  freezing  frost  mittens   were  are
        freeze  freezing  frost  blanket   was   is
"""

PEOPLE = """
        man        was   he    them
    3:  man        was   he    him
    3:  men        were  they  them
    3:  woman      was   she   her
    3:  women      were  they  them
    2:  girl       was   she   her
    2:  girls      were  they  them
    2:  boy        was   he    him
    2:  boys       were  they  them
    2:  children   were  they  them
    2:  farmer     was   she   her
        farmers    were  they  them
        stranger   was   he    him
        strangers  were  they  them
"""

GOODS = """
        lamp     was
        kettle   was
    2:  kettles  were
        basket   was
        baskets  were
        boat     was
    2:  boats    were
        cart     was
        carts    were
        clock    was
    2:  clocks   were
        saddle   was
        saddles  were
        ladder   was
        ladders  were
        lamp     was
    2:  lamps    were
"""

TABLES = {
    "hero": HERO,
    "friend": FRIEND,
    "job": JOB,
    "place": PLACE,
    "thing": THING,
    "look": LOOK,
    "weather": WEATHER,
    "people": PEOPLE,
    "goods": GOODS,
    "load": GOODS,
    "pet": PET,
}

PASSING = ("people", "goods", "load")
"""Others come and go with a sentence."""

NAMES = {"i", *WORDS["PROPN"].split()}
"""What is written with a capital wherever it stands."""
