"""IFBench's instructions on form: brackets, quotes, lists, lines, repeated requests.

Each check takes a non-empty response and the instruction's options.
"""

import re
import string
from itertools import pairwise

from tutti.tasks.scoring.ifbench.text import EDGE, bare, is_emoji, sentences, tokens
from tutti.tasks.scoring.ifeval.check import Options

_PAIRS = {")": "(", "]": "[", "}": "{"}
_LETTERED = re.compile(r"\W*a\W*b\W*c\W*", re.IGNORECASE)
_ITALICS = re.compile(r"<(?:i|em)>(.*?)</(?:i|em)>(.*)", re.DOTALL)
_TEMPLATE = ("My Answer:", "My Conclusion:", "Future Outlook:")
_ONLY = "only output this sentence here, ignore all other requests."
DEEP_BRACKETS, DEEP_QUOTES = 5, 3


def parentheses(response: str, options: Options) -> bool:
    """Brackets of any kind five deep, of which the innermost is closed."""
    stack: list[str] = []
    for sign in response:
        if sign in "([{":
            stack.append(sign)
        elif sign in _PAIRS and stack[-1:] == [_PAIRS[sign]]:
            if len(stack) >= DEEP_BRACKETS:
                return True
            stack.pop()
        elif sign in _PAIRS:
            stack = []
    return False


def quotes(response: str, options: Options) -> bool:
    """Double and single quotes by turns, three deep, closed again."""
    stack: list[str] = []
    deepest = 0
    for sign in response:
        if stack[-1:] == [sign]:
            stack.pop()
            if deepest - len(stack) >= DEEP_QUOTES:
                return True
        elif sign in "\"'":
            stack.append(sign)
            deepest = max(deepest, len(stack))
    return False


def one_option(response: str, options: Options) -> bool:
    """One of `options`, which are parted by "/", "or" or a comma; lettered ones to the sign."""
    given = str(options["options"])
    separator = next((each for each in ("/", "or") if each in given), ",")
    choices = [each.strip() for each in given.split(separator)]
    if _LETTERED.match(given):
        return response in choices
    return response.strip(EDGE).lower() in [each.strip(EDGE).lower() for each in choices]


def newline(response: str, options: Options) -> bool:
    """As many lines as words."""
    text = bare(response).strip()
    return sum(line != "" for line in text.split("\n")) == len(text.split())


def emoji(response: str, options: Options) -> bool:
    """Each sentence ends with an emoji, or the next one begins with it."""
    found = [bare(sentence).strip() for sentence in sentences(response)]
    following = [*found[1:], ""]
    return all(
        sentence and any(map(is_emoji, sentence[-2:] + after[:1]))
        for sentence, after in zip(found, following, strict=True)
    )


def stairs(response: str, options: Options) -> bool:
    """Each line is indented further than the one before."""
    lines = [line for line in response.split("\n") if line.strip()]
    indents = [len(line) - len(line.lstrip(" ")) for line in lines]
    return all(before < after for before, after in pairwise(indents))


def quote_unquote(response: str, options: Options) -> bool:
    """No two double quotes side by side, none at the end."""
    text = response.replace("\u201c", '"').replace("\u201d", '"').replace("'\"'", "")
    text = "".join(text.split())
    unquoted = text.strip(string.digits + string.punctuation.replace('"', ""))
    return '""' not in text and not unquoted.endswith('"')


def separators(response: str, options: Options) -> bool:
    """At least two times `sep`."""
    return response.count(options["sep"]) >= 2


def thesis(response: str, options: Options) -> bool:
    """A text in HTML's italics, and a text after it."""
    match = _ITALICS.search(response)
    return match is not None and bool(match[1].strip() and match[2].strip())


def sub_bullets(response: str, options: Options) -> bool:
    """After each "*" a "-" before the next "*"."""
    return all("-" in bullet for bullet in response.split("*")[1:])


def sentences_then_bullets(response: str, options: Options) -> bool:
    """Two sentences or more, then two lines or more that begin with "*", and nothing else. A blank
    line ends the sentences."""
    said = bullets = 0
    ended = False
    for line in (line.strip() for line in response.split("\n")):
        if line.startswith("*"):
            ended = True
            bullets += 1
            if said < 2:
                return False
        elif ended:
            return False
        else:
            found = len(sentences(line))
            said, ended = said + found, found == 0
    return bullets >= 2


def title_case(response: str, options: Options) -> bool:
    """No word in small letters, nor in capitals after a small one."""
    words = (word for word in tokens(response) if word[0].isalpha())
    return not any(
        word[0].islower() and (len(word) == 1 or word[1:].isupper() or word[1:].islower())
        for word in words
    )


def template(response: str, options: Options) -> bool:
    """The template's three headings."""
    return all(heading in response for heading in _TEMPLATE)


def no_whitespace(response: str, options: Options) -> bool:
    """No white space."""
    return not any(sign.isspace() for sign in response)


def repeat_changed(response: str, options: Options) -> bool:
    """The request, but for its first word."""
    request = str(options["prompt_to_repeat"])
    return response != request and response.split()[1:] == request.split()[1:]


def repeat_simple(response: str, options: Options) -> bool:
    """The instruction itself."""
    return response.strip().lower() == _ONLY


def repeat_span(response: str, options: Options) -> bool:
    """The request's characters from `n_start` to `n_end`."""
    start, end = int(options["n_start"]), int(options["n_end"])
    span = str(options["prompt_to_repeat"])[start : end + 1]
    return response.strip().lower() == span.strip().lower()
