"""m&m's 33 tools: names, arguments and results as its data use them; the descriptions are ours."""

from typing import NamedTuple


class PlanTool(NamedTuple):
    """A tool of a plan."""

    name: str
    """As plans in JSON have it; programs have ``_`` for a space."""
    arguments: str
    results: str
    description: str

    @property
    def function(self) -> str:
        """Its name in programs."""
        return self.name.replace(" ", "_")


OBJECTS = "image, objects"
TOOLS = tuple(
    PlanTool(*row)
    for row in (
        ("text generation", "text", "text", "continues a text, or writes what a prompt asks for"),
        ("text summarization", "text", "text", "shortens a text"),
        ("text classification", "text", "text", "a text's class, such as its sentiment"),
        ("question answering", "text, question", "text", "answers a question from a text"),
        ("image generation", "text", "image", "draws an image of what a text describes"),
        ("image captioning", "image", "text", "describes an image"),
        ("optical character recognition", "image", "text", "reads the words in an image"),
        ("image classification", "image", "text", "the class of an image's subject"),
        ("image editing", "image, prompt", "image", "changes an image as a text asks"),
        ("object detection", "image", OBJECTS, "finds objects, each with a label and a box"),
        ("image segmentation", "image", OBJECTS, "finds objects, each with a label and a mask"),
        (
            "automatic speech recognition",
            "audio",
            "text",
            "writes down recorded speech",
        ),
        ("visual question answering", "image, question", "text", "answers a question on an image"),
        ("image crop", "image, object", "image", "keeps the box of one object"),
        ("image crop left", "image", "image", "keeps the left part of an image"),
        ("image crop right", "image", "image", "keeps the right part of an image"),
        ("image crop top", "image", "image", "keeps the upper part of an image"),
        ("image crop bottom", "image", "image", "keeps the lower part of an image"),
        ("background blur", "image, object", "image", "blurs all but an object"),
        ("color pop", "image, object", "image", "keeps the colours of an object alone"),
        ("count", "objects", "number", "the number of objects in a list"),
        ("tag", "image, objects", "image", "draws boxes and labels of objects"),
        ("select object", "objects, object_name", "object", "takes the named object of a list"),
        ("emoji", "image, object, emoji", "image", "covers an object with the named emoji"),
        ("get date fact", "date", "text", "a fact about a date, month/day"),
        ("get year fact", "year", "text", "a fact about a year"),
        ("get math fact", "number", "text", "a mathematical fact about a number"),
        ("get trivia fact", "number", "text", "some other fact about a number"),
        ("love calculator", "first_name, second_name", "number", "how well two names match"),
        ("get location", "city", "lon, lat", "the coordinates of a city or an address"),
        ("search movie", "movie_title, movie_year", "text", "facts about a film"),
        ("get weather", "lon, lat", "objects", "the weather forecast at coordinates"),
        ("wikipedia simple search", "text", "text", "the summary of the best page for a query"),
    )
)
FUNCTIONS = [tool.function for tool in TOOLS]
