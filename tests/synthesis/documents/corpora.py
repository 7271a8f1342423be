"""Text files about a plant, for the tests of question sets: each document has its own facts."""

from pathlib import Path

from tutti import storage
from tutti.tasks.retrieval import IndexSpec, build_index, open_documents

PARTS = "pump valve lamp gauge crane boiler filter mixer belt press fan motor".split()
MAKERS = "Norden Holm Vale Marsh Ostby Reed Larsen Moss Quist Brandt Fjord Tveit".split()
ROOMS = "hall cellar yard attic shed tower office garage loft dock store lab".split()


def write_files(folder: Path, count: int = len(PARTS)) -> Path:
    """Write Markdown files, each about a part of the plant."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, (part, maker, room) in enumerate(
        zip(PARTS[:count], MAKERS[:count], ROOMS[:count], strict=True)
    ):
        other = ROOMS[(place + 5) % len(ROOMS)]
        text = (
            f"# About the {part}\n\nThe old {part} of the {room} was made by {maker} when\n"
            f"the {room} was built anew. Every {part} in the {other} is cleaned after "
            f"{17 + 3 * place} hours of\nsteady work. To stop a {part} that burns, the people of "
            f"the {room} run `halt-{part}` and wait outside.\n"
        )
        (folder / f"{part}.md").write_text(text)
    return folder


def index_of(folder: Path, catalog: storage.Catalog) -> Path:
    """Return the folder of an index of the files."""
    passages = open_documents(folder, lambda line: None)
    return build_index(passages, catalog, IndexSpec(words=True))
