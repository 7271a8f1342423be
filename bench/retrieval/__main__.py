"""Run: ``python -m bench.retrieval``."""

from bench.retrieval.run import main

if __name__ == "__main__":
    main()
