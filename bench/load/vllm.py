"""``vllm bench serve`` on the load bench's prompt: ``PYTHON -m bench.load.vllm PROMPT TOKENS …``.

Run by the models' Python; what follows are vLLM's own options. Its CPU wheel has no command of its
own for it, and its data sets want pandas, which no server needs: so the prompts are given to it.
"""

import argparse
import asyncio
import sys


def main(prompt: str, tokens: int, options: list[str]) -> None:
    """Run it."""
    from vllm.benchmarks import serve
    from vllm.benchmarks.datasets import SampleRequest

    parser = argparse.ArgumentParser()
    serve.add_cli_args(parser)
    given = parser.parse_args(options)
    serve.get_samples = lambda *_: [
        SampleRequest(prompt, prompt_len=len(prompt) // 4, expected_output_len=tokens)
        for _ in range(given.num_prompts)
    ]
    asyncio.run(serve.main_async(given))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
