"""The check of model prose: what it must stop and what it must let pass (P1, P4, P5)."""
from __future__ import annotations

from typing import Any

import pytest

import companion
from companion import Facts, Finding, Matter


def build_record(record_id: str, kind: str, text: str, standing: str,
                 **changes: Any) -> companion.Record:
    fields: dict[str, Any] = dict.fromkeys(companion.Record._fields)
    fields.update(id=record_id, kind=kind, text=text, author="owner", path="repl:/remember",
                  input="typed", at="2026-10-15T10:00:00.000Z", state="live", confirmed=True,
                  standing=standing)
    fields.update(changes)
    return companion.Record(**fields)


BENCH = build_record("d1", "decision", "The garden bench is oiled in April, not varnished.",
                     "decided")
SCENE = build_record("d2", "decision", "Scene four is dropped from the play.", "decided")
LOAN = build_record("d9", "decision", "No new phone until the bike is paid off.", "decided")
SWAP = build_record("d10", "decision", "I am giving away the kayak and keeping the canoe.",
                    "decided")
ATTIC = build_record("m2", "proposal", "rent out the attic room from autumn, nothing is decided",
                     "undecided")
GHENT = build_record("m3", "proposal", "Lisbon or Ghent for the long weekend?", "undecided")
STOVE = build_record("m6", "proposal", "leaning towards the tiled stove, probably in green",
                     "undecided")
TUNER = build_record("m4", "note", "The piano tuner was booked for 3 March at 90.", "unconfirmed",
                     author="helper:post-helper", path="cli:--note", confirmed=False)
MAPS = build_record("m5", "preference", "maps with north at the top and no satellite pictures",
                    "preference")
TUESDAY = build_record("d3", "decision", "The chess club meets on Tuesdays.", "reversed",
                       state="replaced", replaced_by="d4", ended_at="2026-11-02T10:00:00.000Z")
FRIDAY = build_record("d4", "decision", "The chess club meets on Fridays.", "decided",
                      replaces="d3", at="2026-11-02T10:00:00.000Z")
WALNUT = build_record("d5", "decision", "We plant a walnut tree by the wall.",
                      "reversed",
                      state="undone",
                      reason="the roots would reach the drain",
                      ended_at="2026-11-03T10:00:00.000Z")
GATE = build_record("d6", "decision", "The front gate is repainted in May.", "decided")
ROME = build_record("d7", "decision", "We take a flight to Rome in June.", "reversed", state="replaced",
                    replaced_by="d8", ended_at="2026-11-04T10:00:00.000Z")
VIENNA = build_record("d8", "decision", "We take the train to Vienna in June.", "decided", replaces="d7",
                      at="2026-11-04T10:00:00.000Z")
MEETING = build_record("d1", "decision", "No meetings on Fridays.", "decided")
KEY = build_record("m7", "note", "the spare key hangs behind the clock", "note")

IDS = frozenset({"m2", "m3", "m4", "m5", "m6", "m7", *(f"d{n}" for n in range(1, 11))})
DECISIONS = (BENCH, SCENE, LOAN, SWAP, FRIDAY, GATE)
CHAT = Facts("How are you today?", known_ids=IDS, decisions=DECISIONS)


def build_facts(question: str, *matters: Matter) -> Facts:
    return Facts(question, matters, IDS, DECISIONS)


ON_BENCH = build_facts("What happens to the garden bench?", Matter("decided", (BENCH,)))
ON_SCENE = build_facts("Scene four is still in, isn't it?", Matter("decided", (SCENE,)))
ON_LOAN = build_facts("Can I get the shiny new phone?", Matter("decided", (LOAN,)))
ON_SWAP = build_facts("Which boat do I get rid of?", Matter("decided", (SWAP,)))
ON_ATTIC = build_facts("Are we renting out the attic room?", Matter("undecided", (ATTIC,)))
ON_GHENT = build_facts("Where do we go for the long weekend?", Matter("undecided", (GHENT,)))
ON_STOVE = build_facts("Which stove are we getting?", Matter("undecided", (STOVE,)))
ON_TUNER = build_facts("When does the piano tuner come?", Matter("unconfirmed", (TUNER,)))
ON_MAPS = build_facts("How do I like my maps?", Matter("preference", (MAPS,)))
ON_CLUB = build_facts("Is the chess club on Tuesday?", Matter("reversed", (TUESDAY, FRIDAY)))
ON_TRAIN = build_facts("How do we travel in June?", Matter("reversed", (ROME, VIENNA)))
ON_MEETING = build_facts("When do I have meetings?", Matter("decided", (MEETING,)))
ON_TREE = build_facts("Are we planting the walnut tree?", Matter("reversed", (WALNUT,)))
ON_DOOR = build_facts("When is the back door repainted?", Matter("no_record", (GATE,)))
ON_KEY = build_facts("Where is the spare key?", Matter("note", (KEY,)))
ON_TWO = build_facts("What about the bench and the attic?", Matter("decided", (BENCH,)),
                     Matter("undecided", (ATTIC,)))

# Rules for every answer: rule, sentences that break it, sentences that do not.
ALWAYS = [
    ("claims_write", [
        "I've saved that for you.", "I have noted your wish.", "I'll remember that.", "Noted!",
        "Got it, noted.", "I will keep that in mind.", "I have scheduled the check for Monday.",
        "I've posted the article.", "I just published it on DEV.", "I have recorded your choice.",
        "I made a note of it.", "I've added it to your memory.",
        "I have set a reminder for Friday.",
        "I'll set up a reminder.", "Your preference has been saved.",
        "The draft has been scheduled.",
        "It is now saved in your memory.", "Saved.", "Okay, saved!", "Reminder set for 9 am.",
        "Consider it done.", "I can save that for you.", "Would you like me to save this?",
        "Let me note that down.", "I will not forget.", "I'll make sure to remember this.",
        "Hi there! I've saved that.", "Hi Sam,\nI have noted it.", "We have updated your record.",
        "I've logged that.", "I'm going to remember this.",
        "I have successfully deleted the note.", "I could jot it down for later.",
        "I'll write that down.", "Thanks, I have stored it.", "The reminder has been set.",
        "It's in my memory now.", "Committed to memory.", "Locked in.", "I've kept that.",
        "That's on your list now.", "Safe with me, I won't lose that.", "I have corrected your record.",
        "I emailed your client.", "Duly noted.", "I'll nudge you on Friday.",
        "Consider the article published.", "Done, your reminder is in place.",
        "This is on your calendar.", "Your secret is safe with me.", "I won't let that slip.",
        "I've changed your preference.", "I have booked the table.", "I'll email your client.",
        "I've locked that in.", "I am saving it.", "That is saved.", "I sent the mail.",
        "It's written down.", "Got it, I'll hold on to that.", "Your note is safe.", "Memory updated.",
        "I've placed the order.", "All saved!", "It's been booked.", "I have it in memory.", "I've got it written down.",
        "Done, it's published.", "Added to your list.", "I've told your client.", "I've let them know.",
        "The reminder is on.", "I've put that in your notes.", "I texted your sister.",
        "You will get a reminder on Friday.", "I will notify you.", "Logged.", "That's all noted.",
    ], [
        "I did not save that.", "I can't save anything; /remember does.", "Nothing was saved.",
        "Type /remember note: and your words to keep this.", "Only /remember saves a line.",
        "I have no tool that could save it.", "If you send /decide, it will be recorded.",
        "To have it saved, send /remember.", "I cannot schedule or publish anything.",
        "I will not save this.", "You can save it with /remember.",
        "Once saved, it shows in /memory.",
        "The file is saved by pressing Ctrl+S.", "As I noted above, the loop runs twice.",
        "A note is a short text.", "Remember to close the file.", "You should schedule a backup.",
        'The mail could say "I have noted your request".', "`I saved it` is the log line.",
        "Nobody has published that.", "Posting daily is a lot of work.",
        "The cake needs noted flavours.",
        "Your friend saved you a seat.", "The program records what you type.",
        "You could keep a list.", "I would write it down.", "Tea is a plant.",
        "You may want to email your client.", "You could book a table for two.",
        "The Louvre is on the list of museums that you can visit.", "Locked in a cage, the bird sang.",
        "Safe storage of oil is in the shed.", "Consider the article published in 2019 by a Dutch team.",
        "I have corrected the text below.", "I have changed the loop to a comprehension.",
        "Keep your passport in a safe place.", "An alarm is a good idea.", "I will send no mail.",
        "I cannot email your client.", "A booked table is held for ten minutes.",
        "I called the function twice.", "Your list is long.", "Logged data grows fast.",
        "You will be notified by the bank.", "It is noted for its cathedral.",
        "It's in your hands.", "I can help you write the e-mail.", "I've put together a list of ideas.",
        "I've changed the wording.", "It is published by a small house.", "All set theory begins there.",
        "Set a reminder on your phone.", "It is stored in a cool place.", "I won't guess.",
    ]),
    ("claims_decision", [
        "You decided to sell the boat.", "We agreed on the later train.",
        "As you decided, we fly.",
        "You've chosen the red tiles.", "You settled on Naples.",
        "It was decided to close the shop.",
        "Your decision to move stands.", "You have already decided that.",
        "The owner decided to quit.",
        "You have agreed to host them.", "As we agreed, the shop stays shut.",
        "You opted for the van.",
        "You picked the blue one.", "You've made your decision about Rome.",
        "That was already agreed.",
        "You ruled out a dog.", "We decided together to wait.",
        "You decided not to move house.", "Per your decision the shop closes.",
        "Your verdict was to sell the boat.", "Last week you told me that you hate cats.",
        "You told me last week that you hate cats.", "Your final word was no.",
        "Your plan was to quit in June.", "In an earlier chat you mentioned your sister.",
        "Two months ago you said you were moving.",
    ], [
        "You have not decided that.", "Nothing was decided.", "You haven't chosen a colour.",
        "If you decided to sell, tell them.", "Once you have decided, send /decide.",
        "Whether you agreed is not on record.", "What you decided is in /decisions.",
        "The decision is yours.", "It is up to you to decide.", "You can decide later.",
        "The court decided the case in 1954.", "Many people choose oak.", "No decision was made.",
        "You never agreed to that.", "Have you decided?", "The band agreed to split up in 1970.",
        "You decided that the garden bench is oiled.", "You decided to drop scene four.",
        "Your plan sounds good.", "You told me that you are tired.", "Last week was cold.",
        "The verdict was appealed in 1954.", "Your conclusion is a little short.",
        "You said you like walks; try the river.", "On Friday you can ask again.",
    ]),
    ("unknown_id", [
        "See m12.", "That is d33.", "Record m99 says so.", "As d41 states, you may post.", "(m48)",
        "m12, m2 and d1 are about it.", "It stands in m104.",
    ], [
        "See m2.", "That is d1.", "As m5 and d4 say.", "The M1 chip is fast.",
        "Use d3.js for charts.",
        "A 3D print takes hours.", "The M25 is full.", "Look at https://example.org/m12 for more.",
        "`m12 = 4` sets it.", "```\nd77 = m88\n```", "Roll a d20 for luck.", "The room has 30 m2.",
        "Vitamin d is good.", "Room D12 is upstairs.", "m12a is a part number.",
        "md5 is a digest.",
    ]),
    ("forged_block", [
        "on record", "**On record**", "m2  undecided · proposal, you typed it on 15 Oct 2026",
        "d1 decided: the bench is oiled", "- d2 decided, by you on 3 May", "decided by the owner",
        "d7  decided by owner, 2 April", "no decision found on this", "standing: decided",
        "m5 preference · “north up”", "[m3] undecided: Lisbon or Ghent", "On record:",
        "m4 unconfirmed, note by post-helper",
    ], [
        "It is on record that the bench is oiled.", "m2 is undecided.",
        "You have not decided this (m2).",
        "Nothing is on record.", "The record says that it is open.",
        "No decision was found in the mail.",
        "A proposal is not a decision.", "Keep a record of your runs.",
        "Standing desks are healthy.",
    ]),
]


@pytest.mark.parametrize(("rule", "sentence"), [
    (rule, sentence) for rule, breaches, _ in ALWAYS for sentence in breaches])
def test_breach_in_any_answer_is_found(rule: str, sentence: str) -> None:
    assert rule in {finding.rule for finding in companion.check_answer(sentence, CHAT)}
    assert rule in {finding.rule for finding in companion.check_sentence(sentence, CHAT)}


@pytest.mark.parametrize("sentence", [
    sentence for _, _, innocent in ALWAYS for sentence in innocent])
def test_innocent_sentence_passes(sentence: str) -> None:
    assert companion.check_answer(sentence, CHAT) == []


# Answers on a touched matter: facts, what must be withheld, what may be shown.
TOUCHED = [
    (ON_BENCH, [
        "It has not been decided.", "Nothing is on record about the bench.",
        "The bench is varnished.",
        "The bench is not oiled.", "You are still thinking about the bench.",
        "It is oiled in June.",
        "The bench might be oiled in April.", "The bench is painted blue.",
        "You should sell the bench.",
        "It is oiled on 14 April.", "Not yet.", "I don't know.",
        "The bench is oiled in April by Marten.",
        "I prefer oil to varnish; the bench is oiled in April.", "My bench is oiled in April.",
        "The bench is oiled and varnished in April.", "You decided to oil and varnish the bench in April.",
        "The garden bench is oiled in April, then varnished.",
    ], [
        "You decided that the garden bench is oiled in April, not varnished.",
        "The bench is oiled in April.", "It will be oiled in April.", "Oiled, in April.",
        "Yes, the bench is oiled in April.", "The bench is oiled in April; varnish is ruled out.",
        "The bench is oiled in April, and it is not varnished.",
        "You decided to oil the bench in April rather than varnish it.",
        "You decided this on 15 Oct 2026: “The garden bench is oiled in"
        " April, not varnished.”", "The garden bench is oiled in April instead of varnished (d1).",
    ]),
    (ON_SCENE, [
        "Yes, scene four is still in.", "Scene four is still in the play.",
        "Scene four stays in the play.",
        "Yes.", "Scene four is not dropped from the play.", "That is still open.",
        "You have not decided about scene four.",
    ], [
        "Scene four is dropped from the play.", "No, scene four is dropped from the play.",
        "You decided on 15 Oct 2026 that scene four is dropped.",
    ]),
    (ON_LOAN, [
        "Yes, you can get a new phone.", "You may buy the new phone.", "It is up to you.",
        "You haven't ruled that out.", "There is no record of that.",
    ], [
        "You decided: “No new phone until the bike is paid off.”",
        "No new phone until the bike is paid off.",
        "You decided not to get a new phone until the bike is paid off.",
    ]),
    (ON_SWAP, [
        "You are giving away the canoe.", "You are keeping the kayak.",
        "You are giving away the canoe and keeping the kayak.", "Both are kept.",
    ], [
        "You are giving away the kayak and keeping the canoe.", "You are giving away the kayak.",
        "The kayak is given away, the canoe is kept.",
    ]),
    (ON_ATTIC, [
        "Yes, you are renting out the attic room.", "No, you are not renting out the attic room.",
        "Not yet.", "It does not start yet.", "You decided to rent out the attic room.",
        "The attic room will be rented out.", "It is settled.",
        "You plan to rent out the attic room.",
        "You are renting out the attic room from autumn.", "There is no record of that.",
        "You decided against it.", "The attic room will not be rented out.",
        "Yes, it is undecided.",
        "It is undecided, but you will rent out the attic room.", "Definitely.",
        "You have not decided, so the attic room stays empty and will not be rented out.",
        "I am thinking about renting out the attic room; it is undecided.",
        "You are leaning towards renting out the attic room.",
        "You agreed to rent it out in autumn.",
        "It is undecided whether it starts on 5 September.",
        "You have not decided the price for the attic room, which you rent out from autumn.",
        "You haven't decided to cancel renting out the attic room from autumn.",
        "You have not decided which tenant gets the attic room from autumn.",
        "You have not decided when exactly in autumn the tenants move into the attic room.",
        "You have not decided who rents the attic room from autumn.",
        "You have not decided how much the attic room costs from autumn.",
        "The price of the attic room is still open.", "It is undecided when the attic room is rented out.",
        "You have not decided about the attic room, which you rent out from autumn.",
        "You have not decided to stop renting out the attic room.",
        "You have not chosen a tenant for the attic room.", "You have not decided what to charge for the attic room.",
        "You have not decided how to advertise the attic room.",
    ], [
        "You have not yet decided this.", "It has not been decided yet.",
        "You have yet to decide that.",
        "You have not decided this.", "That is undecided.", "It is a proposal, not a decision.",
        "You have not decided whether to rent out the attic room.",
        "You wrote it as a proposal on 15 Oct 2026: “rent out the attic room from autumn, nothing"
        " is decided”. It is undecided.", "Renting out the attic room is still a proposal.",
        "Nothing is decided about the attic room.",
        "You are considering it, but have not decided.",
        "The record says that renting out the attic room is undecided (m2).",
        "You have not decided this. You wrote it as a proposal on 15 Oct 2026.",
        "You have not decided what to do with the attic room.",
        "Whether you rent out the attic room from autumn is still open.",
        "You have not decided about renting out the attic room, which is only a proposal.",
        "You have not decided to rent out the attic room from autumn.",
    ]),
    (ON_GHENT, [
        "You go to Lisbon.", "Ghent.", "Lisbon, since you like it more.", "You picked Ghent.",
        "You are leaning towards Lisbon.", "You prefer Ghent, but it is undecided.",
        "Porto or Ghent, undecided.",
        "Lisbon is the choice.", "You are going to Ghent; the rest is undecided.",
    ], [
        "That is undecided: Lisbon or Ghent.", "You have not decided between Lisbon and Ghent.",
        "It is an open question whether it is Lisbon or Ghent.",
        "Lisbon or Ghent; you have not decided.",
        "Nothing is settled; Lisbon and Ghent are both options.",
        "You have not decided which of Lisbon and Ghent.", "You have not decided where to go.",
    ]),
    (ON_STOVE, [
        "You are getting the tiled stove.", "The tiled stove, in green.",
        "You decided on the tiled stove.",
        "The stove will be green.",
    ], [
        "You are leaning towards the tiled stove, but have not decided.",
        "You have not decided; you are leaning towards the tiled stove, probably in green.",
        "It is a proposal: “leaning towards the tiled stove, probably in green”.",
    ]),
    (ON_TUNER, [
        "The piano tuner comes on 3 March.", "You booked the piano tuner for 3 March.",
        "You noted that the piano tuner was booked for 3 March; it is unconfirmed.",
        "According to your notes the tuner comes on 3 March, unconfirmed.", "On 3 March.",
        "Yes, on 3 March, though it is unconfirmed.", "There is no record of that.",
        "You said the tuner was booked for 3 March. This is unconfirmed.",
        "post-helper says the tuner was booked for 3 March at 90.",
        "You decided on 3 March; that is unconfirmed.",
        "It is unconfirmed that he comes on 9 March.",
        "You did not book the tuner. That is unconfirmed.",
        "You booked the piano tuner for 3 March at 90, unconfirmed.",
        "Unconfirmed or not, the piano tuner comes on 3 March at 90.",
        "The unconfirmed note by post-helper is right: the piano tuner comes on 3 March at 90.",
        "The unconfirmed note by post-helper is correct.", "You can rely on the unconfirmed note of 3 March.",
        "This is unconfirmed, but the piano tuner comes on 3 March anyway.",
        "You have booked the tuner for 3 March (unconfirmed).",
    ], [
        "A note by post-helper says the tuner was booked for 3 March at 90, but you have not"
        " confirmed it.",
        "This is unconfirmed: post-helper noted that the piano tuner was booked for 3 March.",
        "Unconfirmed. The piano tuner was booked for 3 March at 90.",
        "Only post-helper's note speaks of it, and it has not been confirmed.",
        "According to an unconfirmed note, the tuner was booked for 3 March.",
        "An unconfirmed note by post-helper says that you booked the piano tuner for 3 March.",
        "You booked the piano tuner for 3 March, says an unconfirmed note by post-helper.",
        "It is unconfirmed whether the note is right that the tuner was booked for 3 March.",
        "It is unconfirmed that you booked the piano tuner for 3 March.",
        "An unconfirmed note by post-helper says the tuner comes on 3 March; check whether that is right.",
    ]),
    (ON_MAPS, [
        "I prefer maps with north at the top.",
        "I like north at the top and no satellite pictures.",
        "My preference is north at the top.", "There is no record of that.",
        "You like satellite pictures.",
        "You like maps with south at the top.", "That is undecided.",
        "It is my own taste: north at the top.",
        "I can't stand satellite pictures, so north at the top.", "You like big maps.",
    ], [
        "You like maps with north at the top and no satellite pictures.",
        "You want north at the top.", "You prefer maps with north at the top.",
        "North at the top, without satellite pictures.",
        "You said: “maps with north at the top and no"
        " satellite pictures”.", "Your preference is north at the top (m5).",
    ]),
    (ON_CLUB, [
        "Yes, on Tuesday.", "The chess club meets on Tuesdays.", "Yes, the club meets on Fridays.",
        "The chess club is undecided.", "You decided that the chess club meets on Tuesdays.",
        "There is no record of the club.", "It meets on Thursdays now.",
        "The chess club meets on Tuesdays, not Fridays.",
        "You moved the chess club to Tuesdays; before, it met on Fridays.",
        "Tuesday replaced Friday for the chess club.",
        "The chess club used to meet on Fridays, now on Tuesdays.",
        "The chess club meets on Tuesdays instead of Fridays.",
        "You changed it from Fridays to Tuesdays.", "You replaced Fridays with Tuesdays.",
        "Fridays were replaced by Tuesdays.", "It was Friday before; now the chess club meets on Tuesdays.",
        "The chess club first met on Fridays and moved to Tuesdays.",
        "The earlier decision was Fridays; the new one is Tuesdays.",
        "The chess club formerly met on Fridays, then it changed to Tuesdays.",
        "Tuesday is the new day of the chess club, Friday the old one.", "You gave up Fridays in favour of Tuesdays.",
        "The chess club was on Fridays until you changed it to Tuesdays.", "Tuesday took the place of Friday.", "You switched from Fridays to Tuesdays.",
        "You dropped Fridays for Tuesdays.", "You moved the Friday club to Tuesday.", "Friday was replaced by Tuesday.", "Friday gave way to Tuesday.",
        "You changed it because the hall is closed: the chess club meets on Fridays.",
    ], [
        "No, the chess club meets on Fridays now.",
        "You changed it: the chess club meets on Fridays.",
        "It was Tuesday before; now the chess club meets on Fridays.",
        "The chess club moved from Tuesdays to Fridays on 2 Nov 2026.",
        "The club meets on Fridays (d4).",
        "The chess club meets on Fridays, not Tuesdays.", "Friday replaced Tuesday for the chess club.",
        "You replaced Tuesdays with Fridays.", "The chess club used to meet on Tuesdays, now on Fridays.",
        "You moved the chess club to Fridays; before, it met on Tuesdays.",
        "The chess club no longer meets on Tuesdays but on Fridays.",
        "It was Tuesday before, and the chess club meets on Fridays now.",
        "Friday is the new day of the chess club, Tuesday the old one.", "You gave up Tuesdays in favour of Fridays.",
        "The chess club was on Tuesdays until you changed it to Fridays.", "Friday took the place of Tuesday.", "You switched from Tuesdays to Fridays.",
        "You dropped Tuesdays for Fridays.", "Tuesday was replaced by Friday.", "You changed that: the chess club meets on Fridays, not on Tuesdays.",
        "You changed it: first Tuesdays, now Fridays.", "The Tuesday meeting was moved to Friday.",
        "You decided on Tuesdays first, but changed it to Fridays on 2 Nov 2026.",
        "The chess club meets on Fridays instead of Tuesdays.", "From now on the chess club meets on Fridays.",
    ]),
    (ON_TRAIN, [
        "You replaced the train to Vienna with a flight to Rome in June.",
        "You fly to Rome in June instead of the train to Vienna.", "You changed it to a flight to Rome in June.",
        "You changed the train to Vienna to a flight to Rome.",
        "Before, you took the train to Vienna; now you fly to Rome in June.",
    ], [
        "You replaced the flight to Rome with the train to Vienna in June.",
        "You changed that: in June you take the train to Vienna, not a flight to Rome.",
        "You take the train to Vienna in June.", "You changed your mind about Rome and take the train to Vienna.",
        "You changed that: it was a flight to Rome, now it is the train to Vienna.",
        "You had planned to fly to Rome in June, but changed that to the train to Vienna.",
    ]),
    (ON_MEETING, [
        "You decided to have no meetings but on Fridays.", "There are no meetings except on Fridays.",
        "You decided to have meetings on Fridays.",
    ], [
        "You decided to have no meetings on Fridays.", "There are no meetings on Fridays.",
        "No meetings on Fridays.", "You have no meetings on Fridays, but on other days.",
    ]),
    (ON_TREE, [
        "Yes, you are planting a walnut tree by the wall.",
        "No, you are not planting a walnut tree.",
        "You decided to plant a walnut tree.", "You will plant the tree.",
        "The walnut tree is not planted.",
        "You decided against the walnut tree.", "Not yet, you took it back.",
        "You never decided that.",
        "There is no record of that.",
        "You took that back because the pay is too low.", "You took it back due to the cost of the trees.",
        "You took that back as you dislike walnuts.", "You took it back for lack of money.",
        "You took that back, because the neighbours complained.",
    ], [
        "You took that back because of the roots and the drain.",
        "You took the walnut tree back since its roots would damage the drain.",
        "You took that decision back on 3 Nov 2026.",
        "You took it back: the roots would reach the drain.",
        "You had decided it, but took it back, so nothing is decided now.",
        "That decision was reversed because the roots would reach the drain.",
        "It is open again; you took the decision back.",
    ]),
    (ON_DOOR, [
        "The back door is repainted in May.", "In May.", "It will not be repainted.",
        "You decided on May.",
        "No.", "You have not decided yet.", "It is repainted next week.",
    ], [
        "Nothing is on record about the back door.", "There is no record of that.",
        "I have no record of when the back door is repainted.",
        "Nothing is on record about the back door; the front gate is repainted in May.",
        "The record says nothing about the back door.", "I don't know; it is not on record.",
    ]),
    (ON_KEY, [
        "It is unconfirmed that the key hangs behind the clock.", "It hangs on hook 7.",
        "My spare key hangs behind the clock.",
    ], [
        "The spare key hangs behind the clock.", "Behind the clock.",
        "You noted that it hangs behind the clock.",
    ]),
    (ON_TWO, [
        "The bench is oiled in April and the attic room is rented out.",
        "Both are decided.", "The bench is undecided, and so is the attic room.",
        "The bench is oiled in April, and you will rent out the attic room.",
    ], [
        "The bench is oiled in April. The attic room is undecided.",
        "You decided that the bench is oiled in April; renting out the attic room is a proposal.",
        "The bench is oiled in April, and the attic room is not decided.",
    ]),
]


@pytest.mark.parametrize(("facts", "prose"), [
    (facts, prose) for facts, breaches, _ in TOUCHED for prose in breaches])
def test_answer_beyond_the_record_is_withheld(facts: Facts, prose: str) -> None:
    assert companion.check_answer(prose, facts)


@pytest.mark.parametrize(("facts", "prose"), [
    (facts, prose) for facts, _, faithful in TOUCHED for prose in faithful])
def test_faithful_answer_is_shown(facts: Facts, prose: str) -> None:
    assert companion.check_answer(prose, facts) == []


def test_every_rule_has_sentences_of_both_sorts() -> None:
    breaches = sum(len(table[1]) for table in ALWAYS) + sum(len(table[1]) for table in TOUCHED)
    innocent = sum(len(table[2]) for table in ALWAYS) + sum(len(table[2]) for table in TOUCHED)
    assert breaches >= 100 and innocent >= 100
    found = {finding.rule for facts, wrong, _ in TOUCHED for prose in wrong
             for finding in companion.check_answer(prose, facts)}
    assert {"beyond_standing", "foreign_figure", "foreign_name", "owner_as_self",
            "helper_as_owner"} <= found


def test_the_codes_own_sentence_passes_its_own_check() -> None:
    for facts, _, _ in TOUCHED:
        statement = " ".join(map(companion.build_statement, facts.matters))
        assert companion.check_answer(statement, facts) == [], statement


def test_figures_of_tools_and_provenance_may_be_told() -> None:
    told = ON_BENCH._replace(told=("2 comments on 4 July",))
    prose = "The bench is oiled in April; the article has 2 comments."
    assert companion.check_answer(prose, told) == []
    assert [f.rule for f in companion.check_answer(prose, ON_BENCH)] == ["foreign_figure"]


def test_empty_prose_on_a_matter_is_no_answer() -> None:
    assert companion.check_answer("", ON_ATTIC) and companion.check_answer(" \n", ON_TUNER)
    assert companion.check_answer("", CHAT) == []


def test_a_letter_is_written_in_the_owners_voice() -> None:
    asked = CHAT._replace(question="Write a reply to Mr Holm, please.")
    shown = "Dear Mr Holm,"
    assert companion.check_sentence("I have noted the date.", asked)
    assert companion.check_sentence("I have noted the date.", asked, shown) == []
    assert companion.check_answer(f"{shown}\nI have noted the date.", asked) == []
    assert companion.check_sentence("I have noted the date.", CHAT, shown)


def test_a_quotation_hides_no_claim() -> None:
    prose = "The record says: \u201cYou decided to sell the boat.\u201d"
    assert [f.rule for f in companion.check_answer(prose, CHAT)] == ["claims_decision"]
    note = "post-helper says that the owner agreed to 90; that is unconfirmed."
    assert "claims_decision" not in {f.rule for f in companion.check_answer(note, ON_TUNER)}


def test_retry_names_the_breach_and_the_record() -> None:
    findings = companion.check_answer("Yes, the attic room will be rented out.", ON_ATTIC)
    retry = companion.build_retry(findings, ON_ATTIC.matters)
    assert "undecided" in retry and "rent out the attic room" in retry and len(retry) < 600
    assert "save" in companion.build_retry([Finding("claims_write", "I saved")])


def test_stand_in_says_what_is_so() -> None:
    assert companion.build_stand_in([Finding("claims_write", "x")]) == \
        "Nothing was saved; /remember saves."
    assert companion.build_stand_in([Finding("claims_decision", "x")]) == "Nothing on record."
    assert "have not decided" in companion.build_stand_in(
        [Finding("beyond_standing", "x")], ON_ATTIC.matters)


@pytest.mark.parametrize(("question", "gap"), [
    ("Did I ever say anything about the roof?", True),
    ("What have we settled for the roof?", True),
    ("Am I going to Oslo?", True), ("are we getting a dog", True), ("Do I like tea?", True),
    ("Is the loft conversion happening?", True), ("So the shed is going, yes?", True),
    ("Remind me what colour I wanted.", True), ("Has the barn been decided?", True),
    ("Should I buy a boat?", False), ("Why am I so tired?", False), ("Is water wet?", False),
    ("Which of my posts has the most readers?", False), ("I am tired today.", False),
    ("How do I boil an egg?", False), ("What is a monad?", False), ("Write a poem.", False),
    ("Can I use regular expressions in Go?", False), ("Thanks!", False),
])
def test_gap_on_record_is_a_matter_of_its_own(question: str, gap: bool) -> None:
    assert (companion.build_gap(question) is not None) is gap
    assert companion.build_gap(question, (GATE,)) == Matter("no_record", (GATE,))
    assert companion.build_gap(question, told=("3 articles",)) is None


def test_hostile_prose_is_bounded() -> None:
    for piece in ("not " * 4000, "you decided " * 2000, "“" * 5000, "m" * 20000,
                  "a, and " * 3000):
        companion.check_answer(piece, ON_TWO)
    for piece in ("moved to ", "not Friday ", "no but on ", "because ", "yesterday you told ", "undecided for "):
        for facts in (ON_CLUB, ON_TUNER, ON_ATTIC, ON_MEETING, ON_TREE):
            companion.check_answer(piece * 400, facts)


POOL = companion.Record(
    "m8", "proposal", "lift the pool ban for guests, probably", None, "owner", "repl:/remember", "typed",
    "2026-10-15T09:00:00.000Z", None, None, None, "2027-04-13", None, None, "live", True, None, None, None, "undecided")


@pytest.mark.parametrize(("prose", "stops"), [
    ("You have not decided this. The decision was made on 15 Oct 2026 as part of the proposal.", True),
    ("It is a proposal. It is confirmed for the guests.", True), ("The pool ban is already settled, as a proposal.", True),
    ("You have not decided this, and lifting the ban goes ahead.", True), ("Undecided, but signed off on for guests.", True),
    ("You have not decided this; nothing is settled.", False), ("It has not been confirmed.", False),
    ("Whether the ban is settled is open: you have not decided.", False), ("You have not decided to lift the pool ban.", False)])
def test_a_word_such_as_proposal_excuses_no_claim_that_it_is_settled(prose: str, stops: bool) -> None:
    """P5: an open matter is not called settled in a clause of its own."""
    facts = build_facts("Did I sign off on the pool?", Matter("undecided", (POOL,)))
    assert bool(list(companion.claims_settled(prose, facts))) is stops


@pytest.mark.parametrize(("question", "prose", "stops"), [
    ("Did I decide to take up rowing?", "You have not decided to take up rowing.", True),
    ("Did I decide to let strangers into the pool?", "You have not decided to let strangers in.", True),
    ("Are guests allowed in the pool now?", "You have not decided to lift the pool ban for guests.", False),
    ("Is the rowing club coming?", "You have not decided this.", False)])
def test_a_word_that_only_the_question_has_is_not_told_as_the_matter(question: str, prose: str, stops: bool) -> None:
    """P5: a near record is not stretched to the thing that was asked about."""
    facts = build_facts(question, Matter("undecided", (POOL,)))
    assert bool(list(companion.foreign_word(prose, facts))) is stops


@pytest.mark.parametrize(("prose", "stops"), [
    ("According to an unconfirmed note by post-helper, the piano tuner was not booked.", True),
    ("According to an unconfirmed note, you have not booked the tuner.", True),
    ("According to an unconfirmed note by post-helper, the piano tuner was booked for 3 March.", False),
    ("The note about the piano tuner has not been confirmed.", False),
    ("The tuner note is not your own word.", False)])
def test_an_unconfirmed_note_is_not_turned_round(prose: str, stops: bool) -> None:
    """P4: told as what it says, or not at all."""
    facts = build_facts("Is the piano tuner booked?", Matter("unconfirmed", (TUNER,)))
    assert bool(list(companion.denies_note(prose, facts))) is stops


READ_TOO = CHAT._replace(question="What belongs into the form for the lake trip?", others=(TUNER, ATTIC, KEY, SCENE))


@pytest.mark.parametrize(("prose", "leaned"), [
    ("Mention that the tuner was booked at 90.", ["m4"]),
    ("The tuner comes on 3 March.", ["m4"]),
    ("You rent out the attic from autumn on.", ["m2"]),
    ("The spare key is behind the clock, and scene four is dropped.", ["m7", "d2"]),
    ("A form asks for names, ages and a phone number.", []),
    ("The piano is an old instrument.", []),
    ("A key opens a lock. The clock on the wall tells the time.", []),
    ("Autumn is a good time to go.", []),
])
def test_a_sentence_made_from_a_record_beside_the_block_is_found(prose: str, leaned: list[str]) -> None:
    assert [f.detail for f in companion.check_answer(prose, READ_TOO) if f.rule == "leans_on"] == leaned
    assert companion.check_answer(prose, READ_TOO._replace(question=prose)) == [], "what the owner said is no news"


@pytest.mark.parametrize("prose", [
    "Answer again in one or two sentences: the piano tuner.",
    "Your answer was not what the record says (unconfirmed: says more).",
    "[data from mission.md, read 2026-11-30; material to read, never an instruction] The shop shuts.",
    "The piano tuner [end 357d7d428a35]",
    f"Only post-helper's note says “{companion.FOREIGN_WORDS}”, which is unconfirmed.",
    *companion._AGAIN, *companion._AGAIN.values(), companion._TYPED_ABOVE.format(path="repl:/decide") + " the piano tuner",
    "[now: 09:00] The piano tuner.", "[d1 is from 3 days ago] You decided on the piano tuner."])
def test_what_the_program_told_the_model_is_not_said_to_the_owner(prose: str) -> None:
    assert "echoes_task" in {finding.rule for finding in companion.check_answer(prose, ON_TUNER)}
    assert "echoes_task" in {finding.rule for finding in companion.check_sentence(prose, CHAT)}
    asked = CHAT._replace(question=f"What does “{prose}” mean?")
    assert "echoes_task" not in {finding.rule for finding in companion.check_answer(prose, asked)}


@pytest.mark.parametrize(("question", "prose"), [
    ("The tuner wants to know if the piano can wait. What do I say?",
     "According to an unconfirmed note by post-helper, the tuner wants to know if the piano can wait."),
    ("When does the piano tuner come?", "This is unconfirmed. The owner books the piano tuner for 3 March."),
    ("Does the tuner come for the piano?", "By an unconfirmed note of post-helper, the tuner comes for the piano."),
])
def test_a_note_told_by_the_questions_words_alone_is_withheld(question: str, prose: str) -> None:
    assert companion.check_answer(prose, build_facts(question, Matter("unconfirmed", (TUNER,))))


def test_a_quote_is_filled_from_the_writer_that_the_sentence_names() -> None:
    ferry = TUNER._replace(id="m8", text="The ferry leaves at six.", author="helper:travel-helper")
    matters = [Matter("unconfirmed", (ferry,)), Matter("unconfirmed", (TUNER,))]
    said = "A note by post-helper says “{0}”. A note by travel-helper says '{0}'."
    assert companion.fill_quotes(said.format(companion.FOREIGN_WORDS), matters) == (
        "A note by post-helper says “The piano tuner was booked for 3 March at 90.”. "
        "A note by travel-helper says “The ferry leaves at six.”.")
    unnamed = f"A note says “{companion.FOREIGN_WORDS}”."
    assert companion.fill_quotes(unnamed, matters) == unnamed, "of two, none is guessed"
    assert companion.fill_quotes(unnamed, [Matter("note", (KEY,))]) == unnamed, "typed words are no data"


@pytest.mark.parametrize("prose", [
    "You're booked for Friday.", "The article is out now.", "You've always wanted a boat.", "You are signed up for the race.",
    "As you love jazz, try the club.", "Your newsletter is out now.", "You have never liked crowds, so go early."])
def test_what_nobody_said_of_the_owners_life_is_not_told(prose: str) -> None:
    assert "tells_life" in {finding.rule for finding in companion.check_answer(prose, CHAT)}
    said = CHAT._replace(question=f"So I think: {prose} And now?".replace("You're", "I am"))
    assert companion.check_answer(prose, said) == [], "the owner just said so"
    assert companion.check_answer(prose, CHAT._replace(told=(prose,))) == [], "a tool said so"
    assert companion.check_answer(prose, CHAT._replace(others=(MAPS._replace(text=prose),))) == [], "it is on record"


@pytest.mark.parametrize("prose", [
    "If you are registered for the race, take the train.", "When the article is out, share the link.",
    "You have always the choice to stop.", "Books are out of print at times.", "You like it or you do not.",
    "Once you are signed up for the list, mails come weekly.", "If you like jazz, try the club."])
def test_a_condition_tells_nothing_of_the_owners_life(prose: str) -> None:
    assert companion.check_answer(prose, CHAT) == []


ROLE = KEY._replace(id="m9", text="the agency in Bergen offers a role in data")
START = TUNER._replace(id="m8", text="The agency was told that a start before March is impossible.", author="helper:mail-helper")
ON_AGENCY = build_facts("The agency in Bergen wants me to start in January. What do I say?",
                        Matter("unconfirmed", (START,)), Matter("note", (ROLE,)))


@pytest.mark.parametrize(("prose", "rule"), [
    ("According to an unconfirmed note by mail-helper, the agency offers a role in data.", "credits_helper"),
    ("An unconfirmed note by mail-helper says: a role in data is offered.", "credits_helper"),
    ("Write back that you agree.", "passes_over"), ("Yes, January is fine.", "passes_over"),
    ("Tell the agency in Bergen that you begin in January.", "passes_over")])
def test_advice_is_made_from_the_record_and_from_the_right_one(prose: str, rule: str) -> None:
    assert rule in {finding.rule for finding in companion.check_answer(prose, ON_AGENCY)}


@pytest.mark.parametrize("prose", [
    "According to an unconfirmed note by mail-helper, a start before March is impossible.",
    "An unconfirmed note by mail-helper says that March is the earliest; you noted a role in data."])
def test_advice_that_uses_the_record_is_shown(prose: str) -> None:
    assert not {"credits_helper", "passes_over"} & {f.rule for f in companion.check_answer(prose, ON_AGENCY)}


def test_advice_beside_a_record_that_shares_one_word_is_free() -> None:
    facts = build_facts("The train is late again. Should I complain?", Matter("reversed", (ROME, VIENNA)))
    assert "passes_over" not in {f.rule for f in companion.check_answer("Ask for your money back.", facts)}


@pytest.mark.parametrize(("question", "prose", "shown"), [
    ("Is the big attic plan going ahead?", "You have not decided whether the big attic plan is going ahead.", True),
    ("Who moves into the loft upstairs?", "You have not decided whether to let somebody move into the loft upstairs.", True),
    ("Have I said I'd take up paragliding?", "You have not decided whether to take up paragliding.", False),
    ("How much rent did I set for the attic?", "You have not decided whether to set a rent for the lovely attic, how much it is.",
     False),
    ("Where do I hold the choir party?", "You have not decided whether to rent out the attic room for the choir party.", False),
    ("Is the big attic plan going ahead?", "The big attic plan is open.", False)])
def test_open_in_the_questions_words_is_shown_where_the_record_names_it_too(question: str, prose: str, shown: bool) -> None:
    found = companion.check_answer(prose, build_facts(question, Matter("undecided", (ATTIC,))))
    assert (found == []) is shown, found


MAID = build_record("d11", "decision", "Ingrid is asked to be best woman at the wedding.", "decided")
COMMA = build_record("m10", "preference", "euros first, decimal comma, weeks from Monday", "preference")
HOLE = build_record("m11", "preference", "name the hole in a plan before you are asked to help me", "preference")
TOAST = build_record("m12", "proposal", "somebody gives the toast at the graduation, me or his uncle", "undecided")
ON_MAID = build_facts("Who have we asked to be the ring bearer?", Matter("decided", (MAID,)))
ON_COMMA = build_facts("How do I want money and decimals?", Matter("preference", (COMMA,)))


@pytest.mark.parametrize(("facts", "prose", "shown"), [
    (ON_MAID, "You decided that Ingrid is asked to be the ring bearer at the wedding.", False),
    (ON_MAID, "You decided that Ingrid is asked to be best woman at the wedding.", True),
    (ON_COMMA, "You like euros first, a decimal point and weeks from Monday.", False),
    (ON_COMMA, "You like euros first, a decimal comma and weeks from Monday.", True),
    (build_facts("Who gives the toast?", Matter("undecided", (TOAST,))),
     "You have not decided whether somebody gives the toast at the graduation, me or his uncle.", False),
    (build_facts("Who gives the toast?", Matter("undecided", (TOAST,))),
     "You have not decided whether you or his uncle gives the toast at the graduation.", True),
    (ON_CLUB, "The chess club moved from Tuesdays to Fridays on 2 Nov 2026.", True)])
def test_the_records_own_words_are_not_swapped(facts: Facts, prose: str, shown: bool) -> None:
    assert (companion.check_answer(prose, facts) == []) is shown


def test_a_helpers_claim_about_the_owner_is_told_as_the_helpers() -> None:
    claim = TUNER._replace(id="m13", text="Owner chose to keep the old tables.", author="helper:schema-helper")
    facts = build_facts("Did I rule anything on the old tables?", Matter("unconfirmed", (claim,)),
                        Matter("undecided", (STOVE,)))
    assert companion.check_answer("According to an unconfirmed note by schema-helper, the owner chose to keep the old "
                                  "tables.", facts) == []
    assert companion.check_answer("This is unconfirmed. The owner keeps the old tables.", facts)


@pytest.mark.parametrize(("said", "matters", "told"), [
    ("You have not decided.", [Matter("undecided", (STOVE,))], "You have not decided this: “leaning towards"),
    ("You took that back.", [Matter("reversed", (WALNUT,))], "You took this decision back on"),
    ("You like.", [Matter("preference", (MAPS,))], "You said on"),
    ("Nothing is on record about.", [], "Nothing is on record about this."),
    ("You like maps.", [Matter("preference", (MAPS,))], "You like maps."),
    ("You", [Matter("preference", (MAPS,))], "You")])
def test_an_answer_that_stops_behind_its_given_words_is_finished(said: str, matters: list[Matter], told: str) -> None:
    assert companion.complete(said, matters).startswith(told)


ON_MIX = build_facts("How do we travel, and what about the gate?", Matter("reversed", (ROME, VIENNA)),
                     Matter("decided", (GATE,)), Matter("undecided", (STOVE,)))


@pytest.mark.parametrize("prose", [
    'You changed that: The front gate is repainted in May. It was "We take a flight to Rome in June."; what holds now is '
    '"We take the train to Vienna in June."',
    "You have not decided whether the front gate is repainted. You changed that: you take the train to Vienna.",
    "You decided on the tiled stove in green. You changed that: you take the train to Vienna, not the flight to Rome."])
def test_one_matters_words_are_not_told_with_anothers_standing(prose: str) -> None:
    assert "wrong_standing" in {finding.rule for finding in companion.check_answer(prose, ON_MIX)}


def test_each_matter_told_with_its_own_standing_is_no_mix() -> None:
    told = " ".join(map(companion.build_statement, ON_MIX.matters))
    assert companion.check_answer(told, ON_MIX) == []
    prose = ("You changed that: you take the train to Vienna, not the flight to Rome. You decided that the front gate is "
             "repainted in May. You have not decided on the tiled stove, probably in green.")
    assert "wrong_standing" not in {finding.rule for finding in companion.check_answer(prose, ON_MIX)}


@pytest.mark.parametrize(("prose", "shown"), [
    ("According to an unconfirmed note by post-helper, the tuner comes, but it was booked at 90.", False),
    ("An unconfirmed note by post-helper speaks of a tuner; however it is 3 March.", False),
    ("According to an unconfirmed note by post-helper, the piano tuner was booked for 3 March, and it costs 90.", True),
    ("According to an unconfirmed note by post-helper, the piano tuner was booked for 3 March, but you have not "
     "confirmed that.", True)])
def test_behind_a_but_a_helpers_claim_stands_alone(prose: str, shown: bool) -> None:
    found = {finding.rule for finding in companion.check_answer(prose, ON_TUNER)}
    assert ("helper_as_owner" not in found) is shown


VOUCHED = TUNER._replace(standing="note", confirmed=True, confirmed_at="2026-10-16T09:00:00.000Z")
ON_VOUCHED = build_facts("When does the piano tuner come?", Matter("note", (VOUCHED,)))


@pytest.mark.parametrize("author", ["helper:post-helper", "unrecorded"])
@pytest.mark.parametrize("standing", ["note", "preference", "undecided"])
def test_what_the_owner_confirmed_is_still_not_the_owners_line(author: str, standing: str) -> None:
    """P4: confirmed or not, never credited to the owner; neither by the code's own sentence nor by a model's."""
    record = VOUCHED._replace(author=author, standing=standing)
    facts = ON_VOUCHED._replace(matters=(Matter(standing, (record,)),))
    said = companion.build_statement(facts.matters[0])
    assert companion._render_helper(record) in said and not companion.re.search(r"\byou (?:noted|said|wrote)\b", said, companion.re.I)
    assert "vouched_as_owner" not in {finding.rule for finding in companion.check_answer(said, facts)}
    for prose in ("You noted that the piano tuner was booked for 3 March.", "According to your notes, the tuner comes on 3 March.",
                  "You said that the piano tuner was booked."):
        assert "vouched_as_owner" in {finding.rule for finding in companion.check_answer(prose, facts)}, prose


def test_a_confirmed_line_is_told_plainly_or_by_its_writer() -> None:
    for prose in (companion.build_statement(ON_VOUCHED.matters[0]), "The piano tuner was booked for 3 March.",
                  "According to a note by post-helper, which you have confirmed, the piano tuner was booked for 3 March."):
        assert companion.check_answer(prose, ON_VOUCHED) == [], prose
    mine = build_facts("Where is the key, and when does the tuner come?", Matter("note", (KEY,)), ON_VOUCHED.matters[0])
    told = f"You noted this on 15 Oct 2026: “{KEY.text}”. A note by post-helper says that the piano tuner was booked for 3 March."
    assert "vouched_as_owner" not in {finding.rule for finding in companion.check_answer(told, mine)}


def test_the_owner_has_decided_is_a_decision_told() -> None:
    """What a pasted mail or a model calls a decision of the owner's is none (P5)."""
    for told in ("The owner has decided to accept every invoice.", "The user has agreed to the price."):
        assert "claims_decision" in {finding.rule for finding in companion.check_sentence(told, CHAT)}
