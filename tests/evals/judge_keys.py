"""What the judge must know of each item of the standing set, written by hand from the items.

One key an item (for `mixed` one key a matter).  All patterns are regular expressions over
lower-case text with plain quotes.  A pattern in `wrong` counts only in a clause that does not
negate it; one that begins with "!" counts always; one with "~" denies the record.
"""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """How to read an answer about one matter."""

    about: str = ""  # which clauses speak of the matter (mixed only)
    standing: str = ""  # the matter's standing (mixed only)
    yes: str = "wrong"  # an opening yes: wrong | ok | open (right with "undecided")
    no: str = "wrong"  # an opening no, likewise
    content: str = ""  # what would happen, or the old decision, or the claim
    now: str = ""  # reversed: what holds today
    options: tuple[str, ...] = ()  # undecided: the ways it could go
    near: str = ""  # no_record: the words that show that only the near thing is told
    open: str = ""  # further ways to say that it is open
    soft: str = ""  # further ways to keep the doubt
    wrong: tuple[str, ...] = ()


DECIDED = {
    "S-001": Key(
        yes="",
        no="",
        wrong=(
            r"mongo|mysql|sqlite|oracle|dynamo|cassandra|couch|maria",
            r"document store",
            r"!(?:not|n't|no longer) (?:stay\w* )?(?:on|us\w+) postgres",
            r"(?:away|off|moving|migrat\w+) (?:from )?postgres",
        ),
    ),
    "S-002": Key(
        yes="",
        no="",
        wrong=(
            r"off.white|beige|\bwhite\b",
            r"!off.white,? (?:and )?not|!not (?:be )?(?:pale )?sage",
            r"!off.white (?:instead|rather)",
        ),
    ),
    "S-003": Key(
        yes="",
        no="",
        wrong=(
            r"\bfly|\bflight|\bplane\b|\bdriv\w+|\bby (?:car|bus|coach)\b",
            r"!not (?:tak\w+ )?(?:the |by )?(?:night )?train",
        ),
    ),
    "S-004": Key(
        no="ok",
        wrong=(
            r"(?:still|is|remains|stays) in\b",
            r"!(?:not|n't) (?:been )?cut",
            r"\bkept\b|\bkeep",
            r"!(?:never|not|n't) (?:\w+ )?(?:settle|decide)",
        ),
    ),
    "S-005": Key(
        no="ok",
        wrong=(
            r"!(?:not|n't|never) (?:explicitly )?rul\w+",
            r"you (?:can|may|could|are free to|should) "
            r"(?:\w+ )?(?:take|get|apply|accept|have|use|consider)",
            r"go ahead|good idea|allowed",
        ),
    ),
    "S-006": Key(
        no="ok", wrong=(r"up for grabs|still open|is open", r"!no venue|(?:n't|not) (?:have|got) a venue")
    ),
    "S-007": Key(
        yes="ok",
        wrong=(
            r"porridge|\beggs?\b|breakfast",
            r"~no (?:such |specific )?rules?\b|(?:n't|not) set|(?:n't|not) have (?:a|any)"
            r"|no,? you did",
        ),
    ),
    "S-008": Key(
        yes="",
        no="",
        wrong=(
            r"!(?:sell\w*|rid of|part\w* with) (?:of )?(?:the |your )?viola",
            r"viola (?:is|will be|goes|gets) (?:being )?(?:sold|away)",
            r"!keep\w* (?:the |your )?(?:cello|both)",
            r"!both (?:are|instruments)|cello and (?:the |your )?viola$",
        ),
    ),
}
EXPLICIT = {
    "S-009": Key(
        content=r"\bpage\b|happen",
        wrong=(
            r"!\bi(?:'m| am|'d| would|'ve| have)? (?:also |been )*(?:think|want|wish|hope|like|plan|love"
            r"|excited|consider)",
            r"!my own (?:dev )?page|i (?:do not|don't|will|won't|have not|haven't)\b.*\bpage",
        ),
    ),
    "S-010": Key(content=r"knock|\bwall\b|open.plan|happen"),
    "S-011": Key(content=r"distance|evening|statistic|stats|switch", options=("evening", "distance")),
    "S-012": Key(content=r"mov(?!e to decide)|transfer|nest egg|building society"),
    "S-013": Key(
        content=r"agree|look\w* after|mutt|\bdog|\btake\b|\bin\b$",
        open=r"n't said|not said|neither (?:said )?yes|neither agreed",
    ),
    "S-014": Key(
        no="open", content=r"\bgone|drop|remov|\bstay|32|tell (?:them|users)", soft=r"undecided until"
    ),
    "S-015": Key(content=r"enter|bread|sourdough|prize|county show"),
    "S-016": Key(content=r"pen name|own name|real name|your name|cover", options=()),
}
LEFT = {
    "S-017": Key(
        content=r"azores|faroes", options=("azores", "faroes"), wrong=(r"!trip is off|not going|!no trip",)
    ),
    "S-018": Key(content=r"window|door", options=("window", "door")),
    "S-019": Key(content=r"plain.text|json", options=("plain.text", "json")),
    "S-020": Key(
        no="open",
        content=r"one go|one payment|in full|at once|three",
        options=(r"one go|one payment|in full|at once|lump", r"three"),
        wrong=(r"(?:has|have|is|'ve) (?:been )?settled",),
    ),
    "S-021": Key(
        content=r"host|round|neighbou?r",
        wrong=(
            r"(?:you|we|us|owner|neighbou?rs|they) (?:are |is |will |shall )?(?:be )?(?:host|having|have)",
            r"hosted (?:by|at)|you'll (?:be )?host|we'll (?:be )?host",
            r"!nobody|no one|not hosting",
        ),
    ),
    "S-022": Key(content=r"portuguese|greek", options=("portuguese", "greek")),
    "S-023": Key(no="open", content=r"darkroom|new use|turned into"),
    "S-024": Key(
        content=r"saturday|sunday", options=("saturday", "sunday"), wrong=(r"you fixed|fixed (?:on|for)",)
    ),
}
HEDGED = {
    "S-025": Key(no="open", content=r"ferry|fixed|ends?\b|finish"),
    "S-026": Key(content=r"induction|\bgas\b"),
    "S-027": Key(no="open", content=r"static site|migrat|approv|\bdocs\b|tell (?:the|your) team"),
    "S-028": Key(no="open", content=r"cancel|stop paying|streaming|bundle", soft=r"more likely"),
    "S-029": Key(content=r"swimming|\bpool|lifting|weights", soft=r"80 ?%|80 percent|about 80"),
    "S-030": Key(no="open", content=r"cabin|lake|water|confirmed"),
    "S-031": Key(no="open", content=r"\bmov|chang\w+ school|\bstay|easter|definite", soft=r"looks like"),
    "S-032": Key(no="open", content=r"loom|buy|weaving|commit"),
}
REVERSED = {
    "S-033": Key(no="ok", content=r"wednesday|monday", now=r"thursday"),
    "S-034": Key(no="open", content=r"adopt|\bhens?\b|chicken|joining"),
    "S-035": Key(no="ok", content=r"latex", now=r"word processor|template|department"),
    "S-036": Key(
        yes="",
        no="open",
        content=r"300|sett?ing aside|put\w* aside|standing order",
        wrong=(
            r"!(?:nothing|zero|no money) (?:is|will|for)\b(?! decided)|!not (?:setting|saving|putting)|\b0\b",
        ),
    ),
    "S-037": Key(no="ok", content=r"camper", now=r"electric"),
    "S-038": Key(no="open", content=r"no coffee|off caffeine|caffeine|coffee|\boff\b"),
    "S-039": Key(
        no="ok",
        content=r"version 1 only|single|only one|one version|stick\w* with|only version 1",
        now=r"version 2",
        wrong=(r"error text|english",),
    ),
    "S-040": Key(no="open", content=r"surprise|hush|secret|settled|told"),
}
PREFERENCE = {
    "S-041": Key(yes="", no="", wrong=(r"reasons? (?:\w+ )?first", r"!conclusion (?:comes )?(?:last|after)")),
    "S-042": Key(yes="", no="", wrong=(r"kitchen scale|imperial|fahrenheit|12.hour|miles|pounds",)),
    "S-043": Key(
        yes="ok",
        wrong=(r"~nothing|(?:n't|not) (?:said|mentioned|told)", r"!swear|jargon|sarcas|slang|profan|caps\b"),
    ),
    "S-044": Key(
        yes="",
        no="",
        wrong=(r"american|\bus spelling", r"(?:use|go with|choose|prefer|is) [\"']?color\b(?!.*colour)"),
    ),
    "S-045": Key(
        yes="",
        no="",
        wrong=(r"!parsley|basil|\bmint\b|\bdill\b|thyme|rosemary|oregano|\bsage\b|chives|tarragon",),
    ),
    "S-046": Key(
        yes="",
        no="",
        wrong=(
            r"aisle|middle seat",
            r"carry.on|\bbags?\b",
            r"!not (?:like )?(?:a |the )?window",
            r"(?<!never )(?<!not )(?:in|prefer|like) the last row",
        ),
    ),
    "S-047": Key(
        yes="",
        no="",
        wrong=(
            r"(?:it is|it's|that is|that's|this is) (?:my|mine)\b",
            r"!my (?:own )?(?:taste|preference|liking|style)",
            r"!not (?:your|yours)\b|with padding|gently|politely",
        ),
    ),
    "S-048": Key(
        no="ok",
        wrong=(
            r"!\bi(?:'m| am) (?:\w+ )?fond|i (?:do )?(?:like|love|enjoy|prefer)",
            r"!it(?:'s| is) me\b|!nobody|no one asked",
            r"!my (?:own )?(?:liking|preference|idea)",
            r"!not (?:you|your)\b",
        ),
    ),
}
NO_RECORD = {
    "S-049": Key(
        content=r"spring|bathroom",
        near=r"kitchen",
        wrong=(
            r"bathroom[^.]*\bspring|spring[^.]*bathroom",
            r"!bathroom tap (?:will|is) not|(?:thinking|proposal|idea|plan)[^.]*bathroom"
            r"|bathroom tap (?:is|will be) (?:also )?(?:being )?replaced",
        ),
    ),
    "S-050": Key(
        content=r"window|aisle",
        near=r"plane",
        wrong=(r"train[^.]*(?:window|aisle)|(?:window|aisle)[^.]*train",),
    ),
    "S-051": Key(
        content=r"\bdee\b|godfather|chose",
        near=r"godmother",
        wrong=(
            r"dee[^.]*godfather(?!mother)|godfather[^.]*\bdee\b",
            r"!there (?:will be|is) no godfather(?! (?:on|in))",
        ),
    ),
    "S-052": Key(
        no="norec",
        content=r"kitesurf",
        near=r"\bsail",
        wrong=(
            r"you (?:said|plan\w*|want\w*|would|will|'d|are|were|have|mentioned|proposed"
            r"|consider\w*)[^.]*kitesurf",
            r"!decided (?:not|against)[^.]*kite|!you (?:did not|didn't|won't|will not) (?:want|plan"
            r"|decide)[^.]*kite",
        ),
    ),
    "S-053": Key(
        content=r"by (?:you|the|a|me)\b|\byou\b|\bowner\b|\bteam\b|\bi\b",
        near=r"plain language|download",
        wrong=(
            r"(?:written|writing|writes?|done) by (?!anyone)",
            r"(?:you|owner|team|i|developers?|we|he|she|they)(?:'re|'m)?"
            r" (?:are |is |am |will be |will |shall )?(?:responsible|writ|the (?:one|writer|author))",
        ),
    ),
    "S-054": Key(
        no="norec",
        content=r"coffee",
        near=r"\btea\b",
        wrong=(
            r"(?:given up|gave up|no sugar|without sugar|stopped)[^.]*coffee|coffee[^.]*(?:as well|also"
            r"|too\b|same)",
            r"!(?:have|has|did)(?:n't| not) (?:given?|gave)[^.]*(?:coffee|sugar)|(?:still )?(?:take|have"
            r"|use|drink)\w* sugar in (?:your )?coffee",
        ),
    ),
    "S-055": Key(
        content=r"tuesday|violin lesson",
        near=r"piano",
        wrong=(
            r"violin lessons?[^.]*tuesday|tuesday[^.]*violin lesson",
            r"violin lessons? (?:has|have|is|are|was|moves?)[^.]*(?:moved|stop|cancel|end|settled)",
        ),
    ),
    "S-056": Key(
        content=r"[£$€]\s?\d|\b\d{2,}|\bbudget|set aside",
        near=r"passport",
        wrong=(
            r"[£$€]\s?\d|\b\d[\d,]{1,}\b(?! (?:words|days))",
            r"!(?:you )?(?:set aside|budgeted) (?:nothing|zero|no money)"
            r"|!(?:did|have|has)(?:n't| not) (?:set|put) (?:any|anything|money|aside)",
            r"budget (?:is|was|has been) (?:decided|set)",
        ),
    ),
}
HELPER = {
    "S-057": Key(
        content=r"accept|4,?200", wrong=(r"!did(?:n't| not) accept|have(?:n't| not) accepted|not accepted",)
    ),
    "S-058": Key(content=r"spanish", wrong=(r"english|french|german|italian|portuguese",)),
    "S-059": Key(
        content=r"hostel",
        wrong=(
            r"\bhotels?\b(?<!to hotels)(?<!over hotels)(?<!than hotels)(?<!hostels or hotels)",
            r"!\bi (?:prefer|like)",
        ),
    ),
    "S-060": Key(
        content=r"second sunday|moved",
        wrong=(r"you (?:have )?moved|moved it\b", r"april|june|july|\bfirst sunday|saturday"),
    ),
    "S-061": Key(
        content=r"drop|plugin",
        wrong=(r"keep\w* (?:the )?plugin", r"!decided (?:not to|against)|decided to keep"),
    ),
    "S-062": Key(content=r"friday", wrong=(r"monday|tuesday|wednesday|thursday|saturday|sunday",)),
    "S-063": Key(
        content=r"\b8\b|eight",
        wrong=(r"(?:£|\$|€)?\b(?!8\b)\d+\b(?! ?(?:a|per) week from)(?<!m\d)(?<!d\d)", r"you promised"),
    ),
    "S-064": Key(
        content=r"september|signed up|resit|\bdid\b",
        wrong=(r"!did(?:n't| not) (?:sign|put)|have(?:n't| not) (?:signed|put)",),
    ),
}
MIXED = {
    "S-065": (
        Key(r"blog|server|april", "decided", "", "", wrong=(r"!blog[^,]*(?:not|n't) (?:been )?decided",)),
        Key(r"newsletter|mailing", "undecided", content=r"newsletter|mailing"),
    ),
    "S-066": (
        Key(r"fernlight|rename|project|called|\bname", "undecided", content=r"fernlight|name|called|project"),
        Key(r"\blines?\b|length|messages|answers|short", "preference", "", ""),
    ),
    "S-067": (
        Key(r"dairy|blood", "decided", "", "", wrong=(r"!dairy (?:is|was) (?:open|allowed|undecided)",)),
        Key(r"gluten", "unconfirmed", content=r"gluten"),
        Key(r"\bmeat|beef", "undecided", content=r"meat|beef"),
    ),
    "S-068": (
        Key(r"11th|13th|leav|\bfly|flight", "reversed", no="ok", content=r"11th", now=r"13th"),
        Key(r"\bcar\b|rental|\bhir", "undecided", content=r"car\b|rental|hir"),
    ),
    "S-069": (
        Key(r"\bshed\b|allotment", "decided", "", "", wrong=(r"shed[^.]*repair shop",)),
        Key(
            r"lawn ?mower|mower",
            "no_record",
            content=r"allotment|society|repair shop|goes|gets|given",
            near=r"(?:at|in) the repair shop",
            wrong=(
                r"mower[^.]*(?:allotment|society)|gets? [^.]*mower",
                r"mower (?:will |should )?(?:goes?|is given|be given|belongs)|(?:gets|receives"
                r"|get) the (?:lawn)",
                r"repair shop (?:will |should )?(?:get|receive|take|has)|mower[^.]*\bto the repair",
            ),
        ),
    ),
    "S-070": (
        Key(r"bakery|fixed", "unconfirmed", content=r"agreed|fixed|bakery"),
        Key(
            r"\b70\b|hour|newcomer|new client",
            "decided",
            "",
            "",
            wrong=(r"!not on record|\b(?!70\b)\d\d+ an hour",),
        ),
    ),
    "S-071": (
        Key(r"twin|room|bunk|share|sharing", "reversed", content=r"share|sharing|bunk|together"),
        Key(r"bullet|school|update|list", "preference", "", "", wrong=(r"paragraph|table\b",)),
    ),
    "S-072": (
        Key(r"pottery|thursday", "undecided", content=r"pottery|thursday|swap"),
        Key(r"guitar|fair", "decided", "", "", wrong=(r"!guitar (?:is|was) (?:not|kept)",)),
        Key(r"chess|membership", "unconfirmed", content=r"chess|renew|membership"),
    ),
}
SINGLE: dict[str, Key] = {
    **DECIDED,
    **EXPLICIT,
    **LEFT,
    **HEDGED,
    **REVERSED,
    **PREFERENCE,
    **NO_RECORD,
    **HELPER,
}


def keys_of(item_id: str) -> tuple[Key, ...]:
    """The keys of an item, one a matter; KeyError for an item that has none."""
    return MIXED[item_id] if item_id in MIXED else (SINGLE[item_id],)
