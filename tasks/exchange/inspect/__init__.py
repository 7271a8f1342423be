"""Inspect's logs: import and export."""

from tutti.storage import StoreError


def require_inspect() -> None:
    """Raise StoreError if inspect_ai is not installed."""
    try:
        import inspect_ai.log  # noqa: F401
    except ImportError as error:
        words = "Inspect's logs need inspect_ai: pip install 'tutti[inspect]'"
        raise StoreError(f"{words} ({error})") from error
