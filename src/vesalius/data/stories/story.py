"""What can happen in a story, with its weights; written for this project.

The notation is that of the module of this name. A document is a story of one hero, one place, one
thing and one kind of weather, each of which stays what it is.
"""

RULES = """
Story
  = (4: Opening (2: | Scene) (3: Lost | 2: Gift | 2: Trip | 2: Guest | 2: Trade)
    | hero.name Foresight) Closing

Opening
  = 4: hero.name lived in a House place.by the place.river .
  | 3: hero.name was a (2: | good | poor | proud | young) job.baker
       and job.baked job.bread place.by the place.river .
  | 3: when hero.name was (2: young | a child | ten) , hero.he lived
       (2: | alone | with hero.his friend.aunt) place.by the place.river .
  | 2: every (2: morning | evening | day) hero.name
       (walked to/ADP the place.bridge | (2: fed | counted | watched) the place.ducks) .
  | 2: one (autumn | spring | summer | winter) hero.name (built a House | lived alone | 2: worked)
       place.by the place.river .
  | 2: the House place.by the place.river was hero.mine .

House = (crooked | narrow | quiet | red | 2: small | tall | white | wooden) (3: house | hut)

Scene
  = 4: the Aged people.man Which people.was
       (3: Mood (3: | that day | and far from home/NOUN) | 2: Doing) .
  | 3: the Shape goods.lamp that/PRON the Aged people.man Which Handled goods.was Quality .
  | 2: the (2: | Number) place.ducks Around were (asleep | busy | hungry | loud | 2: quiet) .
  | 2: the (air | fog | light/NOUN | road | wind) Near the place.bridge was Feel
       (3: | that (morning | night)) .
  | there/PRON were Number place.ducks Near the place.bridge .

Aged    = (4: | kind | 2: old | rich | shy | tall | thin | young)
Mood    = (busy | cheerful | cold | happy | hungry | kind | late | lonely | proud | quiet | tired)
Doing   = (asleep | laughing | 2: singing | waiting for the load.lamp | in (2: no | a) hurry)
Feel    = (bright | clear | 2: cold | dark | quiet | strange | sweet | warm)
Number  = (2: two | 2: three | four | five | many)
Shape   = (5: | broken | clean | dusty | little | plain)
Quality = (2: cheap | fine | heavy | light | new | 2: old | perfect | useless)
Handled = (borrowed | found | kept | 3: sold | wanted)
Tended  = (carried | cleaned | mended | painted | pulled)
Near    = (behind | beyond | 3: near)
Which
  = 4: | 4: who (2: Tended the load.lamp | lived Near the place.bridge)
  | 3: with the Shape load.lamp | 2: from the (2: place.river | other side)
Around = (2: | Near the place.bridge)

Hero = (3: hero.he | hero.name)
When
  = 4: one (3: morning | 2: evening | afternoon | day | night)
  | 3: on a (bright | clear | 2: cold | dark | grey | warm) (2: morning | evening | afternoon)
Soon = (3: soon | 2: before supper | after an hour | on the way home | Near the place.bridge)

Trip
  = When Hero (walked | ran | went (slowly | alone)) to/ADP the (2: place.bridge
    | house of hero.his friend.aunt) . Hero Foresight

Foresight
  = knew it was going to/PART weather.rain/VERB
    (3: but hero.he forgot to/PART take hero.his weather.umbrella . Caught
    | and took hero.his weather.umbrella . Ready)

Caught
  = Soon it (2: was weather.raining | began to/PART weather.rain/VERB)
    (3: | Near the place.bridge) .
    (| hero.his weather.umbrella weather.was (2: still |) (2: at home/NOUN | Inside) .)
    (2: | Scene | Hero (sat | stood | waited) under a tree with the Aged people.man Which .)
    hero.his friend.aunt (came | 2: ran) (2: through the weather.water | past the place.bridge)
    and (2: brought hero.him | gave hero.him | held out) the weather.umbrella .
    (2: | 4: Wisdom | 4: friend.he Spoke , " the weather.umbrella weather.is
       (2: yours | a little wet | very warm | better than nothing) " .)

Spoke = (3: said | laughed and said | said (softly | at last | slowly))
Wisdom
  = friend.he never said " (3: better/ADV late/ADV than never | many hands make light work
    | slow and steady wins | all/PRON is well/ADJ that/PRON ends well) " .

Ready
  = Soon it was weather.raining , but hero.he (was (glad | warm | happy) | laughed | sang) .
    the Aged people.man Which people.was Mood , so hero.he (gave | 2: lent) people.them
    the weather.umbrella .

Lost = Lose (| Worth) Indoors (2: | Scene) Outdoors Ask (| Ask) Find

Lose
  = 3: When Hero lost thing.a look.red thing.key .
  | 2: hero.his friend.aunt (2: | once) gave hero.him thing.a look.red thing.key ,
       but When hero.he lost thing.them .
  | 2: Hero had/VERB thing.a look.red thing.key , and When thing.it thing.was gone .

Worth
  = 2: thing.it thing.was (2: dear to/ADP hero.him | a gift from hero.his friend.aunt | Quality) .
  | Hero always (hid | 2: kept) thing.them in a (dusty | little | plain | wooden)
    (2: box | bowl | drawer) .

Indoors
  = 3: Hero (2: looked | searched) Inside and Inside , but thing.it thing.was not there .
  | 2: Hero (cleaned | 2: opened) every (box | cupboard | drawer | room) (| twice)
       and found nothing .
  | 2: the look.red thing.key thing.was not (2: in the house | Inside) .

Inside
  = (behind | on | 2: under) (3: the Shape | 2: hero.his)
    (bed | chair | clock | oven | shelf | stairs | table)

Outdoors
  = 2: then Hero (2: walked | ran) (2: to/ADP the place.bridge | home)
       and (2: looked | searched) (again | everywhere) .
  | 2: then Hero searched the (2: road | garden | fields) Near the place.bridge .
  | until (dark/NOUN | 2: supper | noon) Hero searched Near the place.bridge .
  | Hero asked the place.ducks , but the place.ducks knew nothing .

Ask
  = 4: the Aged people.man Which people.was Mood (2: but | and)
       (2: knew | had seen | said) nothing .
  | 5: the (2: | look.red) thing.key that/PRON the Aged people.man Which (3: had found | Handled)
       thing.was (2: not hero.mine | Quality | too (heavy | 2: new | old)) .
  | 2: nobody (2: Near the place.bridge | from the place.river) had (2: seen | found) thing.them .

Find
  = 3: at last Hero found thing.them Spot .
  | 3: hero.his friend.aunt found the look.red thing.key Spot .
       (| Wisdom
       | friend.he Spoke , " the look.red thing.key thing.is (2: yours | safe | Quality) " .)
  | 3: the look.red thing.key that/PRON Hero had lost (| place.by the place.river)
       thing.was Spot (| all the time) .
  | Hero never (saw | 2: found) the look.red thing.key
    (2: again | , but hero.he (was Mood | laughed)) .

Spot
  = 3: Inside | 2: in (2: hero.his pocket | the (garden | kitchen | cupboard))
  | near the place.bridge

Gift
  = (2: hero.his friend.aunt was (2: ill | lonely | 2: sad) , so
    | it was the birthday of hero.his friend.aunt , and)
    hero.he (3: bought | chose) friend.him thing.a look.red thing.key .
    (2: | Scene) Seller Hide Give

Seller
  = 3: the look.red thing.key that/PRON hero.he (bought | got) from the Aged people.man Which
       thing.was (Quality | very (cheap | old)) .
  | 2: the Aged people.man Which Spoke , " the thing.key thing.is (Quality | very (cheap | old)) " .

Hide
  = Hero hid thing.them Inside and (said nothing
    | 3: waited (2: | until (dark/NOUN | supper | noon))) .

Give
  = (3: | in the evening | after supper | the next day) hero.his friend.aunt found thing.them
    and (laughed | sang | 2: smiled | wept) .
    (Wisdom
    | 3: friend.he Spoke , " the look.red thing.key thing.is (Quality | like the (moon | sun)) " .)

Guest
  = When a (grey | 2: hungry | little | thin | white) pet.dog followed hero.him
    (2: home | from the place.bridge) .
    it (2: pet.barked (all night | loudly | softly) | ate hero.his (bread | soup) | slept Inside) .
    (2: | Scene) Enquire (2: | Enquire) Stay

Enquire
  = 2: Hero asked the Aged people.man Which , but people.he had/VERB no pet.dog .
  | 2: the pet.dog that/PRON the Aged people.man Which (had lost | 2: fed | wanted) was
       (2: | not) (old | grey | white | little) .
  | nobody Near the place.bridge knew the pet.dog .

Stay
  = 2: the pet.dog stayed , and hero.his friend.aunt (built it a house | gave it (bread | soup)) .
  | the Aged people.man Which people.was Mood , so hero.he gave people.them the pet.dog .
  | 2: hero.his friend.aunt (2: said | laughed and said) , " the pet.dog is yours " .

Trade
  = When Hero carried hero.his job.bread to/ADP the (market | place.bridge) .
    (| Scene) Buy (| Buy) (2: | Scene) Count

Buy
  = 4: the job.bread that/PRON hero.he sold to/ADP the Aged people.man Which job.was
       (Quality | very (cheap | fine)) .
  | 2: the Aged people.man Which Spoke , " the job.bread job.is Quality " .
  | 2: the Aged people.man Which people.was Mood but bought nothing .

Count
  = 2: before dark/NOUN Hero had/VERB Number coins (and | but) no job.bread .
  | 2: hero.his friend.aunt counted the coins (2: | twice) and (laughed | smiled | wept) .
  | in the evening Hero gave the last job.bread to/ADP hero.his friend.aunt .

Closing
  = 4: that night Hero (3: slept (well | alone | Inside)
       | 3: dreamed of (2: the (place.river | place.ducks | sun) | Number place.ducks)
       | 2: counted the stars) .
  | 2: then Hero went back to/ADP work and job.baked job.bread .
  | 2: before bed Hero drank (tea | soup) with hero.his friend.aunt
       near the (oven | window | gate) .
  | 2: the place.ducks Around were asleep , and the (2: moon | road) was Feel .
  | 2: the next (morning | day) the (air | light/NOUN | wind) place.by the place.river was Feel .
  | 2: after supper the Aged people.man Which (laughed | 2: sang | slept) Near the place.bridge .
  | 2: all/PRON was well/ADJ place.by the place.river .
"""
