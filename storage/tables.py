"""``python -m tutti.storage.tables`` prints the page ``docs/tables.md``."""

from tutti.storage.meanings import as_markdown
from tutti.storage.views import commented

if __name__ == "__main__":
    print(as_markdown(commented()), end="")
