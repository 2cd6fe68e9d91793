"""Hints: a plain sentence is offered as a command in the owner's own words, or not at all (P2)."""
from __future__ import annotations

from typing import Any

import pytest

import companion


def build_record(record_id: str, text: str, **changes: Any) -> companion.Record:
    fields: dict[str, Any] = dict.fromkeys(companion.Record._fields)
    decided = record_id.startswith("d")
    fields.update(
        id=record_id, kind="decision" if decided else "note", text=text, author="owner",
        path="repl:/decide" if decided else "repl:/remember", input="typed",
        at="2026-10-15T10:00:00.000Z", state="live", confirmed=True,
        standing="decided" if decided else "note")
    fields.update(changes)
    return companion.Record(**fields)


# What the owner said plainly -> how the offered command begins. None of these is an evaluation item.
NOTHING_BEFORE = [
    # firm decisions
    ("I've decided to sell the caravan.", "/decide"),
    ("ok ive decided, no more gluten for me", "/decide"),
    ("We have made up our minds: the wedding is in September.", "/decide"),
    ("It's settled, we rent the smaller office.", "/decide"),
    ("Right, we're going with the oak floor.", "/decide"),
    ("Let's go with the Danish supplier.", "/decide"),
    ("Decision made: the beta ships on 3 March.", "/decide"),
    ("Final answer, the logo stays green.", "/decide"),
    ("My mind is made up, I am quitting the gym.", "/decide"),
    ("From now on we invoice in euros.", "/decide"),
    ("Dutch it is, then.", "/decide"),
    ("After a long talk we agreed to adopt the older cat.", "/decide"),
    ("we will not renew the magazine subscription", "/decide"),
    ("I'm going to drop the evening class. That's final.", "/decide"),
    ("The tenor sax goes to my niece, and that is that.", "/decide"),
    ("I have chosen the blue wallpaper for the nursery.", "/decide"),
    ("We'll take the corner flat, no more viewings.", "/decide"),
    ("The boss said no to remote work, so I have decided to look for another job.", "/decide"),
    ("We are moving to Porto in May, it's official.", "/decide"),
    ("Done deal: the boat gets sold before winter.", "/decide"),
    # explicit non-decisions
    ("I'm thinking about a second monitor, but nothing is decided.", "/remember proposal:"),
    ("I might repaint the shed; I have not made up my mind.", "/remember proposal:"),
    ("we havent decided about the christmas trip", "/remember proposal:"),
    ("The move to Lisbon is still undecided.", "/remember proposal:"),
    ("I can't decide between the trumpet and the horn.", "/remember proposal:"),
    ("Selling the summer house is on the table, no decision so far.", "/remember proposal:"),
    ("I'm on the fence about the night classes.", "/remember proposal:"),
    ("Don't take this as decided: we could switch banks.", "/remember proposal:"),
    ("Not sure whether to keep the newsletter going.", "/remember proposal:"),
    ("We're torn between Crete and Corfu.", "/remember proposal:"),
    ("I haven't said yes to the choir solo and I haven't said no.", "/remember proposal:"),
    ("Whether we keep the hens is up in the air.", "/remember proposal:"),
    # left open
    ("An idea for the hall: a mirror wall. No opinion so far.", "/remember proposal:"),
    ("The cover could be red or it could be grey.", "/remember proposal:"),
    ("Open question: who pays for the fence, us or them?", "/remember proposal:"),
    ("For the party we have two options, a barbecue or a buffet.", "/remember proposal:"),
    ("Just an idea: a podcast about old maps.", "/remember proposal:"),
    ("Either Kraków or Gdańsk for the long weekend, both would be fine.", "/remember proposal:"),
    ("One possibility would be to split the book into two volumes.", "/remember proposal:"),
    ("Brainstorming here: a shelf under the stairs, a bench, a cupboard.", "/remember proposal:"),
    ("We could turn the attic into a guest room.", "/remember proposal:"),
    # hedged leanings
    ("I'm tempted by the electric cargo bike.", "/remember proposal:"),
    ("We'll probably spend Easter at the coast.", "/remember proposal:"),
    ("I think I'll go for the cheaper dentist.", "/remember proposal:"),
    ("Most likely we switch to the annual plan.", "/remember proposal:"),
    ("I'm inclined to turn down the invitation.", "/remember proposal:"),
    ("im leaning toward dropping physics", "/remember proposal:"),
    ("Probably the walnut table rather than the pine one.", "/remember proposal:"),
    ("I'm 70% sure we'll take the job in Graz.", "/remember proposal:"),
    ("Maybe we should rename the band.", "/remember proposal:"),
    ("I have half a mind to cancel the gym.", "/remember proposal:"),
    ("I've more or less decided on the terracotta tiles.", "/remember proposal:"),
    ("The kitchen will most likely be yellow.", "/remember proposal:"),
    ("I'd rather go by ferry, I suppose.", "/remember proposal:"),
    ("I think I've decided on the green one.", "/remember proposal:"),
    # preferences
    ("I prefer aisle seats.", "/remember preference:"),
    ("Please keep your answers short.", "/remember preference:"),
    ("I like my summaries as bullet points.", "/remember preference:"),
    ("Never use emoji when you write to me.", "/remember preference:"),
    ("I can't stand long introductions.", "/remember preference:"),
    ("When you explain code, show an example first.", "/remember preference:"),
    ("From now on answer me in plain English, please.", "/remember preference:"),
    ("I'd rather you told me bad news straight away.", "/remember preference:"),
    ("call me Jo, not Joanna", "/remember preference:"),
    ("No exclamation marks in my drafts, please.", "/remember preference:"),
    ("I like it when dates are written out in full.", "/remember preference:"),
    ("Always give prices in euros.", "/remember preference:"),
    ("I work best in the morning, so put hard things there.", "/remember preference:"),
    ("I take my coffee black.", "/remember preference:"),
    ("Use Celsius, please.", "/remember preference:"),
    # asks to remember
    ("Remember that the boiler man comes on Tuesday.", "/remember note:"),
    ("Please note: the wifi password is on the fridge.", "/remember note:"),
    ("Can you keep in mind that Lena is allergic to nuts?", "/remember note:"),
    ("don't forget the meter reading is 48213", "/remember note:"),
    ("Make a note that the car insurance runs out in June.", "/remember note:"),
    ("Jot this down: the plumber's name is Okafor.", "/remember note:"),
    ("For the record, the fence was put up in 2019.", "/remember note:"),
    ("Remember for me that I prefer the window open at night.", "/remember preference:"),
    ("Could you save this: maybe a sabbatical in two years, undecided.", "/remember proposal:"),
    ("Please remember I like short mails.", "/remember preference:"),
    # small talk
    ("Good morning!", None),
    ("haha that's a good one", None),
    ("It will probably rain all day.", None),
    ("I might be getting a cold.", None),
    ("I could murder a curry.", None),
    ("Thanks, that helped a lot.", None),
    ("I'm going to make a coffee, back in a minute.", None),
    ("I think it's going to snow tonight.", None),
    ("I love this song.", None),
    ("What a day. The printer jammed three times.", None),
    ("I hate Mondays.", None),
    ("Years ago I decided to study law, what a mistake.", None),
    ("My knees hurt after the run yesterday.", None),
    ("I like your style.", None),
    ("If that cat wakes me again I'm moving to the moon, lol.", None),
    ("I remember when we had snow until April.", None),
    ("I can't remember the name of that film.", None),
    ("Maybe it's the weather.", None),
    ("We had a lovely dinner at my aunt's.", None),
    ("Never mind.", None),
    ("Sounds good, thank you!", None),
    ("The train was late again, what else is new.", None),
    # questions and requests
    ("Should we sell the caravan?", None),
    ("did i decide anything about the caravan", None),
    ("What do I prefer, tea or coffee?", None),
    ("Have we settled on a date for the party?", None),
    ("Do you remember what I said about the fence?", None),
    ("Can you tell me whether we decided on oak?", None),
    ("Remind me which floor we chose.", None),
    ("which one would you pick, the oak or the pine", None),
    ("Is it true that we agreed to adopt a cat?", None),
    ("Tell me what I have decided so far.", None),
    ("So we're going with oak, right?", None),
    ("Is the trip to Crete still undecided?", None),
    ("I wonder what we agreed about the fence?", None),
    ("Write me a limerick about a shed.", None),
    ("How likely is it that we move this year?", None),
    ("Please make that answer shorter.", None),
    ("What did we decide: oak or pine?", None),
    ("Could you check whether I ever chose a dentist?", None),
    # other people and their words
    ("My sister has decided to sell her caravan.", None),
    ("She said we should go with the oak floor.", None),
    ('Dad wrote: "We are selling the boat, it is decided."', None),
    ("The council decided to close the pool.", None),
    ("My neighbour is leaning towards a hedge.", None),
    ("Marta says I've decided to quit, which is news to me.", None),
    ("According to the landlord we agreed to pay more.", None),
    ("The headline says 'Government decides on new tax'.", None),
    ("My boss prefers long reports.", None),
    ("Tom hasn't made up his mind about the job.", None),
    ("They will probably move to Leeds.", None),
    ("The kids keep saying 'let's get a dog'.", None),
    ("In the film he goes 'from now on we ride together'.", None),
    ("My brother told me that we're definitely going to Crete.", None),
    ("Mum thinks I prefer the blue one.", None),
    ("Somebody at work asked me to remember that tabs are better than spaces.", None),
]

VOLVO = build_record("d1", "We sell the Volvo in spring.")
CHOIR = build_record("d2", "Choir practice is on Mondays.")
TILES = build_record("d3", "The bathroom gets hexagon tiles.")
DECIDED = (VOLVO, CHOIR, TILES)
REVERSALS = [
    ("Actually, let us hold off on selling the Volvo.", "/undecide d1 "),
    ("On second thoughts I'm not so sure about the hexagon tiles.", "/undecide d3 "),
    ("I've changed my mind about the Volvo.", "/undecide d1 "),
    ("scrap the hexagon tiles, i need to think again", "/undecide d3 "),
    ("We're not selling the Volvo after all.", "/undecide d1 "),
    ("I want to take back what I said about the Volvo.", "/undecide d1 "),
    ("Let's put the tiles on hold for now.", "/undecide d3 "),
    ("The choir day is open again, forget Mondays.", "/undecide d2 "),
    ("Choir practice moves to Thursdays instead.", "/decide --replaces d2 "),
    ("Change of plan: we are selling the Volvo in autumn, not in spring.", "/decide --replaces d1 "),
    ("no hexagon tiles, we're taking the square ones now", "/decide --replaces d3 "),
    ("We said Mondays for choir, but it's Tuesdays now.", "/decide --replaces d2 "),
    ("I've changed my mind, the bathroom gets plain white tiles.", "/decide --replaces d3 "),
    ("Scratch that, choir is on Fridays.", "/decide --replaces d2 "),
]


@pytest.mark.parametrize(("said", "expected"), NOTHING_BEFORE)
def test_sentence_is_offered_as_its_kind(said: str, expected: str | None) -> None:
    hint = companion.build_hint(said, ())
    if expected is None:
        assert hint is None
    else:
        assert hint is not None and hint.startswith(expected)
        assert not hint.startswith("/decide --replaces")


@pytest.mark.parametrize(("said", "expected"), REVERSALS)
def test_reversal_names_the_decision_it_reverses(said: str, expected: str) -> None:
    assert (companion.build_hint(said, DECIDED) or "").startswith(expected)


def test_pronoun_reversal_follows_the_last_turn() -> None:
    said = "Actually, let's hold off on that."
    assert companion.build_hint(said, DECIDED) is None
    assert companion.build_hint(said, DECIDED, ("d2",)) == f"/undecide d2 {said}"


def test_ended_decisions_are_not_reversed_again() -> None:
    undone = VOLVO._replace(state="undone", standing="reversed")
    assert companion.build_hint("Let us hold off on selling the Volvo.", (undone,)) is None


@pytest.mark.parametrize(("said", "command"), [
    ("I've decided: the caravan goes.", "/decide the caravan goes."),
    ("I have decided to sell the caravan", "/decide I have decided to sell the caravan"),
    ("Please remember that Lena is allergic to nuts.",
     "/remember note: Lena is allergic to nuts."),
    ("I prefer aisle seats.", "/remember preference: I prefer aisle seats."),
])
def test_the_words_offered_are_the_owners(said: str, command: str) -> None:
    assert companion.build_hint(said, ()) == command


@pytest.mark.parametrize("said", ["", "   ", "/decide something", "?", "…", "x" * 5000])
def test_nothing_to_offer(said: str) -> None:
    assert companion.build_hint(said, ()) is None


def test_a_hint_is_one_clean_line() -> None:
    hint = companion.build_hint("I've decided:\nsell\x1b[2J the caravan", ())
    assert hint is not None and "\n" not in hint and "\x1b" not in hint


@pytest.mark.parametrize(("text", "hedge"), [
    ("maybe sell the car", "maybe"), ("Perhaps, a new roof", "perhaps"),
    ("probably the oak floor", "probably"), ("possibly a dog", "possibly"),
    ("might sell the boat", "might"), ("we might sell the boat", "might"),
    ("thinking about a sabbatical", "thinking about"),
    ("I'm thinking of moving", "thinking of"), ("leaning towards oak", "leaning"),
    ("I guess we take the bus", "i guess"), ("we'll probably go", "probably"),
    ("I think we sell", "i think"), ("may sell the car", "may"), ("we may sell it", "may"),
    ("not sure, but oak", "not sure"), ("likely oak", "likely"), ("could be oak", "could"),
    ("May 5 is the day of the move", None), ("May is the month we move", None),
    ("the move is in May", None), ("We move in May, probably by train", None),
    ("sell the car", None), ("Mayflower is the name of the boat", None),
    ("we take the night train", None), ("may 5 is moving day", None),
    ("Mighty Oak is the name", None), ("", None),
])
def test_hedge_at_the_start_of_a_decision(text: str, hedge: str | None) -> None:
    assert companion.find_hedge(text) == hedge
