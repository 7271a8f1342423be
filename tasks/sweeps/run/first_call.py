"""One call to each endpoint before anything is measured on it, so that a wrong key, name or field
is known after seconds and not after every sample has failed. Errors that may pass are tried again.

Engines that tutti starts are not called: their start has seen that they answer.
"""

import asyncio
import contextlib
import uuid

from tutti.tasks.agents import (
    PASSING,
    CallOrigin,
    Client,
    ContextExceeded,
    GatewayModel,
    ModelCallFailed,
    Retry,
    sampling_of,
)
from tutti.tasks.progress import StageProgress, stage
from tutti.tasks.serving import EngineFailed, not_listed
from tutti.tasks.serving.engines import ExternalEndpoint
from tutti.tasks.sweeps.plan import WARM, Serving
from tutti.tasks.sweeps.spec import Suite

WAIT_S = 120.0  # an endpoint that scales to zero needs a minute to come back
TOKENS = 16  # fewer are refused by some providers
QUESTION = {"role": "user", "content": "Reply with the word ready."}
BUSY = (429, 503, 529)
"""Answers of an endpoint that exists: the run waits for it as for any other."""
NO_MESSAGE = 200  # the status of an answer that is cut off
TRIES = 5  # a second apart and more: a server that has just started may need some seconds
RETRY = Retry(
    dict.fromkeys({NO_MESSAGE, *PASSING}.difference(BUSY), TRIES), first_s=1.0, deadline_s=WAIT_S
)


@stage(name="first call", tags=("engine",))
async def call_endpoints(
    progress: StageProgress, serving: Serving, suite: Suite, gateway_url: str
) -> None:
    """Call each model that others serve once, as the suite's attempts will.

    Prints a warning for one that its endpoint does not list. Raises EngineFailed.
    """
    outside = [
        name
        for name, served in serving.served.items()
        if any(
            isinstance(each, ExternalEndpoint) and each.engine_id == served.engine_id
            for each in serving.every
        )
    ]
    async with Client(gateway_url) as client:
        for done, name in enumerate(outside):
            progress.show(done, len(outside), name)
            await _call(client, serving, name, suite)
            if words := await not_listed(serving.served[name].model):
                line = f"  models.{name}: {words}; what answers may be another model"
                progress.console.print(line, style="yellow", markup=False)


async def _call(client: Client, serving: Serving, name: str, suite: Suite) -> None:
    served = serving.served[name]
    is_measured = name == serving.engine.name
    # Judge, user and experts are called warm.
    temperature = suite.sampling.temperature if is_measured else WARM
    sampling = sampling_of(served.model, temperature, TOKENS, 0)
    origin = CallOrigin(f"first-call-{uuid.uuid4().hex[:12]}", "")
    model = GatewayModel(client, served.name, origin, sampling, RETRY)
    try:
        async with asyncio.timeout(WAIT_S):
            await model.complete([QUESTION], (), 0)
    except ContextExceeded:
        return  # it has answered; whether the tasks fit is each attempt's to find out
    except TimeoutError as error:
        raise EngineFailed(_words(name, f"did not answer within {WAIT_S:.0f} s")) from error
    except ModelCallFailed as error:
        if error.status not in BUSY:
            again = f" and {TRIES - 1} tries after it" if error.status in RETRY.tries else ""
            raise EngineFailed(_words(name, f"failed its first call{again}: {error}")) from error
    finally:
        with contextlib.suppress(ModelCallFailed):  # its lease at the gateway ends by itself
            await model.release()


def _words(name: str, what: str) -> str:
    return (
        f"models.{name} {what}\nNothing was measured on it. Correct its entry, its key or its "
        f"server (`tutti models --check` tests it), then run the same command again."
    )
