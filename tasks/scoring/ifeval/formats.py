"""IFEval's instructions on format: lists, sections, paragraphs, beginnings and ends.

Each check takes a non-empty response and the instruction's options.
"""

import json
import re

from tutti.tasks.scoring.ifeval.check import Options

CONSTRAINED = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_BULLET = re.compile(r"^\s*(?:\*[^*]|-)")


def placeholders(response: str, options: Options) -> bool:
    """At least `num_placeholders` texts in square brackets."""
    return len(re.findall(r"\[[^\[\]\n]+\]", response)) >= int(options["num_placeholders"])


def postscript(response: str, options: Options) -> bool:
    """A line holds the marker, as "P.S." or "P.P.S", in any case, a space after each point."""
    letters = [letter for letter in options["postscript_marker"] if letter.isalnum()]
    pattern = r"\.\s?".join(map(re.escape, letters))
    if options["postscript_marker"].endswith("."):
        pattern += r"\."
    return re.search(pattern, response, re.IGNORECASE) is not None


def constrained(response: str, options: Options) -> bool:
    """It says one of the three fixed answers."""
    return any(answer in response for answer in CONSTRAINED)


def is_json(response: str, options: Options) -> bool:
    """All of it is JSON, a code fence around it allowed."""
    text = response.strip()
    if text.startswith("```"):
        text = text.removeprefix("```").removesuffix("```")
        text = text[4:] if text[:4].lower() == "json" else text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def sections(response: str, options: Options) -> bool:
    """At least `num_sections` numbered headings: the splitter and a number, as "Section 1"."""
    pattern = re.escape(options["section_spliter"].strip()) + r"\s?\d+"
    return len(re.findall(pattern, response)) >= int(options["num_sections"])


def bullets(response: str, options: Options) -> bool:
    """Exactly `num_bullets` lines that start with "*" (not "**") or "-"."""
    lines = [line for line in response.split("\n") if _BULLET.match(line)]
    rules = sum(set(line) <= set("- \t\r") and line.count("-") > 1 for line in lines)
    found = len(lines) - rules
    return found == int(options["num_bullets"])


def highlights(response: str, options: Options) -> bool:
    """At least `num_highlights` parts of a line within "*" or "**"."""
    single = re.findall(r"\*([^\n*]*)\*", response)
    double = re.findall(r"\*\*([^\n*]*)\*\*", response)
    found = sum(bool(text.strip()) for text in single + double)
    return found >= int(options["num_highlights"])


def title(response: str, options: Options) -> bool:
    """A title in double angular brackets on one line."""
    marked = [(line.find("<<") + 2, line.rfind(">>"), line) for line in response.split("\n")]
    return any(1 < start < end and line[start:end].strip("<> \t") for start, end, line in marked)


def two_responses(response: str, options: Options) -> bool:
    """Two different texts with six asterisks between them."""
    parts = [part.strip() for part in response.split("******")]
    inner = [part for i, part in enumerate(parts) if part or 0 < i < len(parts) - 1]
    return len(inner) == 2 and "" not in inner and inner[0] != inner[1]


def repeats_prompt(response: str, options: Options) -> bool:
    """It begins with the request, word for word but for case."""
    return response.strip().lower().startswith(str(options["prompt_to_repeat"]).strip().lower())


def ends_with(response: str, options: Options) -> bool:
    """It ends in the phrase, but for case and closing quotes."""
    end = str(options["end_phrase"]).strip().lower()
    return response.strip().strip('"').lower().endswith(end)


def quoted(response: str, options: Options) -> bool:
    """All of it is within double quotes."""
    text = response.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


def paragraphs(response: str, options: Options) -> bool:
    """Exactly `num_paragraphs` texts with "***" between them; none between two dividers."""
    parts: list[str] = [part.strip() for part in re.split(r"\s?\*\*\*\s?", response)]
    if "" in parts[1:-1]:
        return False
    return sum(part != "" for part in parts) == int(options["num_paragraphs"])


def paragraph_first_word(response: str, options: Options) -> bool:
    """Exactly `num_paragraphs`, by blank lines; the `nth_paragraph` starts with `first_word`."""
    parts = [part.strip() for part in response.split("\n\n") if part.strip()]
    nth = int(options["nth_paragraph"])
    if len(parts) != int(options["num_paragraphs"]) or nth > len(parts):
        return False
    word = parts[nth - 1].split()[0].lstrip("'\"")
    first = re.split(r"[.,?!'\"]", word)[0]
    return first.lower() == str(options["first_word"]).lower()
