"""What a released program has spent: over all pools, and of judges, users and experts apart."""

from typing import Any

from aiohttp.test_utils import TestServer

from tests.serving.conftest import running
from tests.serving.engine_double import EngineDouble
from tutti import storage
from tutti.tasks.serving.gateway.endpoint import EndpointConfig
from tutti.tasks.serving.gateway.settings import Settings
from tutti.tasks.serving.registry import Prices

ASKED: list[tuple[str, str | None]] = [("m", None), ("m", None), ("other", "user"), ("m", "expert")]
ASKED += [("m", "somebody")]


async def test_what_a_program_spent_by_role(catalog: storage.Catalog) -> None:
    """An agent in one pool and its user in another: the release tells both, and each's part. A
    role that is none of ours is the agent's."""
    double = EngineDouble()
    async with TestServer(double.application()) as server:
        url = str(server.make_url("")).rstrip("/")
        prices = Prices(prompt=1, completion=10)
        pools = [
            EndpointConfig(url=url, id="one", models=("m",), prices=prices),
            EndpointConfig(url=url, id="two", models=("other",), pool="other", metrics=False),
        ]
        settings = Settings(policy="passthrough")
        async with running(catalog, settings, pools) as (_, client):
            for model, role in ASKED:
                headers = {"X-Program-Id": "p"} | ({} if role is None else {"X-Tutti-Role": role})
                body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
                async with client.post("/v1/chat/completions", json=body, headers=headers) as done:
                    assert done.status == 200, await done.text()
            async with client.post("/programs/release", json={"program_id": "p"}) as done:
                spent: dict[str, Any] = (await done.json())["spent"]
    assert (spent["calls"], spent["user.calls"], spent["expert.calls"]) == (5, 1, 1)
    assert spent["prompt_tokens"] == 5 * spent["user.prompt_tokens"]
    assert spent["cost_usd"] == 4 * spent["expert.cost_usd"] > 0
    assert (spent["unpriced"], spent["user.unpriced"]) == (1, 1)
    assert spent["partner_s"] > 0, "the user's calls"
    assert not [unit for unit in spent if unit.startswith(("somebody", "orchestrator"))]
