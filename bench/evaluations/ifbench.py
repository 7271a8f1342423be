"""IFBench: our checks beside those of its own program.

In: the Python that has what IFBench needs, and a checkout of allenai/IFBench. Out: the agreement,
an instruction at a time, strictly and loosely, over made-up responses to every prompt: texts for
which each kind of instruction holds, and the same texts changed. What the official program cannot
check without a tagger is left out.
"""

import json
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.evaluations.agreement import Agreement, official
from tutti.tasks.benchmarks import Source, Task, benchmark_named
from tutti.tasks.scoring.ifbench import INSTRUCTIONS
from tutti.tasks.scoring.rules.ifeval import follows, versions

NOT_COMPARED = frozenset({"words:start_verb", "words:odd_even_syllables"})
"""Instructions that need a tagger or a package that our environment lacks."""
STORY = " ".join(
    f"{letter} word stands here, and Emma saw it." for letter in string.ascii_uppercase
)
TEXTS = {
    "plain": "Do you know this? They said so, but we and you, or she, know better! It is so.",
    "turns": "Is it here? No, there. It is late. 'Yes!' said Mr. Brown. She didn't, e.g. reply.",
    "story": STORY,
    "grow": "Big bears. Big bears bite.\nMy many merry men may march. "
    "Ten tall trees took time too.",
    "link": "We go home. Home is far. Far it is: far, but good.\ngood is good\n\nend the end",
    "emoji": "I like it 😀. You do, too! 🎉 They did not 🙂",
    "faces": "One sentence here. 😀 Another one follows it?! 🎉",
    "deep": 'a (b [c {d (e [f] g) h} i] j) "x \'y "z" y\' x" and (then; [so: {it, goes?! !}.])',
    "list": "First one here. Then a second.\n* point one\n- sub\n* point two\n- sub",
    "bullets": "First one here. Then a second.\n* point one\n* point two",
    "stairs": "one\n two\n  three\n\n   four",
    "lines": "one\ntwo\nthree\n\nfour",
    "title": "The Old Man And The Sea, Don't You Think?",
    "thesis": "<i>All is well</i> and so it is. <em>More</em> !?!?!?!? SEPARATOR SEPARATOR",
    "template": "My Answer: yes My Conclusion: no Future Outlook: 2 or 3,500 or 1.5 of 7",
    "odd": "strength, brown trucks; an old grass sphinx\nmadam level radar civic kayak refer rotor "
    "stats tenet solos minim",
    "alphabet": "A bear came down early for great hay",
    "japanese": "one two three four 日本 six seven eight nine カタカナ 11 12 13 14 ひらがな",
    "yes": "Yes.",
    "know": "I know",
    "letter": "a)",
    "multiples": "14, 21, 28, 35, 42, 49",
    "eagle": "eagle bald the is symbol national the. elgae dlab eht",
    "csv": "\n".join(["ID,Country,City,Year,Count", *("1,A,B,2020,3" for _ in range(7))]),
    "csv2": "\n".join(
        ["ProductID,Category,Brand,Price,Stock", *('1,"A&B, c",B,2,3' for _ in range(14))]
    ),
    "csv3": "\n".join(
        ['"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"', *['"1"\t"M"\t"A"\t"2"\t"9"'] * 3]
    ),
    "dates": "1796-04-12, 1805-12-02,1815-06-18",
    "nospace": "Nothing-to-see.",
    "alike": "It is red. He is wet. We do try.",
}


def checks(python: str, checkout: Path) -> Agreement:
    """Every prompt with each response."""
    data = checkout / "data" / "IFBench_test.jsonl"
    tasks = list(benchmark_named("ifbench").load(Source(data), []))
    rows = [json.loads(line) for line in data.read_text("utf-8").splitlines()]
    asked: list[dict[str, Any]] = []
    made: list[tuple[str, Task, str]] = []
    for place, (task, row) in enumerate(zip(tasks, rows, strict=True)):
        for kind, text in _responses(task, place):
            asked.append({"row": row, "response": text})
            made.append((kind, task, text))
    found, said = Agreement(), official(python, "ifbench.py", [str(checkout)], asked)
    for verdict, (kind, task, text) in zip(said, made, strict=True):
        _compare(found, verdict, task, (kind, text))
    return found


def _compare(found: Agreement, verdict: Any, task: Task, response: tuple[str, str]) -> None:
    kind, text = response
    names, options = task.target["instruction_id_list"], task.target["kwargs"]
    for place, (name, given) in enumerate(zip(names, options, strict=True)):
        for rule in ("strict", "loose"):
            its = verdict[rule][place]
            if name in NOT_COMPARED or its is None:
                continue
            texts = [text] if rule == "strict" else list(versions(text))
            ours = any(follows(name, given, each, INSTRUCTIONS, "ifbench") for each in texts)
            found.add(rule, ours, its, f"{task.key} {name} ({kind})")


def _responses(task: Task, place: int) -> Iterator[tuple[str, str]]:
    yield from TEXTS.items()
    yield "prompt", task.inputs["question"]
    for given in task.target["kwargs"]:
        yield from _made_for(given)
    yield "intro", f"Here you are:\n{list(TEXTS.values())[place % len(TEXTS)]}\nBye."


def _made_for(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Texts that follow an instruction with these options."""
    if "prompt_to_repeat" in given:
        request = given["prompt_to_repeat"]
        yield "request", f"Please {request.split(' ', 1)[1]}"
        yield "span", request[int(given.get("n_start", 0)) : int(given.get("n_end", 8)) + 1]
    if "reference_text" in given:
        yield "copy", given["reference_text"]
        part = int(len(given["reference_text"]) * given["percentage"] / 100)
        yield "part", given["reference_text"][:part] + "0123456789" * 3
    if "keyword1" in given:
        times = zip(range(1, 6), (1, 2, 3, 5, 7), strict=True)
        yield "keywords", " ".join(f"{given[f'keyword{i}']} " * n for i, n in times)
    if "keyword" in given:
        word = given["keyword"]
        yield "second", f"The {word} is not what we saw as {word} here."
        yield (
            "placed",
            f"{'All is well. ' * (int(given.get('n', 1)) - 1)}"
            + " ".join([*["so"] * (int(given.get("m", 1)) - 1), word, "it is."]),
        )
    if "word" in given:
        yield "within", "All is well. " * (int(given["N"]) - 1) + f"A {given['word']} it is."
    if "min_words" in given:
        yield "length", "word " * int(given["min_words"])
    if "N" in given:
        count = int(given["N"])
        yield "many", " ".join(f"you said word{n}" for n in range(count))
    if "small_n" in given:
        step = int(given["small_n"])
        yield "steps", " ".join("It is" + " so" * (n * step) + "." for n in range(4))
