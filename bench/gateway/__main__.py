"""Run: ``python -m bench.gateway``."""

from bench.gateway.run import main

if __name__ == "__main__":
    main()
