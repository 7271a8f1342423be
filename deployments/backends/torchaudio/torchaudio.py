"""An empty torchaudio, for programs that import it and train on text."""


def __getattr__(name: str) -> object:
    """Raises AttributeError, as a module without this name does, and says why."""
    raise AttributeError(f"torchaudio.{name}: this torchaudio is empty; install the real one")
