"""The gateway's own HTTP routes: cells, releases, engines, and views of its state."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

import orjson
from pydantic import ValidationError

from tutti.storage import StoreError
from tutti.tasks.platform import explain
from tutti.tasks.serving.gateway import views
from tutti.tasks.serving.gateway.calls.proxied_call import CallState
from tutti.tasks.serving.gateway.calls.request import check_ids, read_object
from tutti.tasks.serving.gateway.calls.routes import BadRequest, Routes
from tutti.tasks.serving.gateway.core import GatewayCore
from tutti.tasks.serving.gateway.endpoints.endpoint import Endpoint, EndpointConfig
from tutti.tasks.serving.scheduling import Program, ReasonCode, make_policy
from tutti.tasks.serving.wire.exchange import Exchange
from tutti.tasks.serving.wire.screen import AccessDenied, Handler, answer

TEXT = b"text/plain; version=0.0.4; charset=utf-8"
STORE_FULL = 507


class AdminApi:
    """Handles requests to the gateway itself."""

    def __init__(self, gateway: GatewayCore) -> None:
        self.gateway = gateway

    def routes(self) -> Routes:
        """Handlers by method and path, with the scope that each needs."""
        return {
            ("GET", "/health"): (None, self._shown(views.health)),  # load balancers have no token
            ("GET", "/ui"): (None, self.page),
            ("GET", "/programs"): ("read", self._shown(views.programs)),
            ("GET", "/profiles"): ("read", self.profiles),
            ("GET", "/profiles/"): ("read", self.profiles),
            ("GET", "/engines"): ("read", self._shown(views.engines)),
            ("GET", "/state"): ("read", self._shown(views.state)),
            ("GET", "/metrics"): ("read", self.metrics),
            ("POST", "/programs/release"): ("call", self.release),
            ("POST", "/programs/clock"): ("call", self.clock),
            ("PUT", "/cell"): ("admin", self._later(self.begin_cell)),
            ("DELETE", "/cell"): ("admin", self._later(self.end_cell)),
            ("POST", "/flush"): ("admin", self._later(self.flush)),
            ("POST", "/engines"): ("admin", self.add_engine),
            ("DELETE", "/engines/"): ("admin", self.remove_engine),
            ("PUT", "/weights"): ("admin", self.set_weights),
            ("POST", "/pulse/reset"): ("admin", self.reset_pulse),
        }

    async def begin_cell(self, exchange: Exchange) -> None:
        """Start a cell: a fresh policy, a first sample of the engines' counters."""
        gateway, fields = self.gateway, read_object(exchange)
        try:
            cell, name = str(fields["cell_id"]), str(fields["policy"])
            check_ids(cell)
            options = dict(fields.get("options") or {})
            if name == "cap" and "limit" not in options:
                options["limit"] = int(fields["limit"])
            make_policy(name, options)
            concurrency = fields.get("concurrency")
            gateway.concurrency = None if concurrency is None else int(concurrency)
        except (KeyError, ValueError, TypeError) as error:
            raise BadRequest(
                f"a cell needs `cell_id`, a known `policy` and its options: {error!r}"
            ) from None
        for proxied in list(gateway.in_flight.values()):
            # of an abandoned cell; no policy would admit these calls
            if proxied.state is CallState.HELD:
                wait = [(b"Retry-After", b"1")]
                proxied.refuse(503, "another cell has begun", wait, ReasonCode.CELL_CHANGED)
        for pool in gateway.pools.by_name.values():
            if fields.get("pool") in (None, pool.name):
                pool.begin(name, options, gateway.events.note)
                gateway.set_wake(pool)
        gateway.cell_id = cell
        await gateway.pools.sample_now()
        answer(exchange, 200, orjson.dumps({"cell_id": cell}))

    async def end_cell(self, exchange: Exchange) -> None:
        """End the cell: a last sample, everything committed."""
        await self.gateway.pools.sample_now()
        self.gateway.cell_id, self.gateway.concurrency = "", None
        await self.flush(exchange)

    async def flush(self, exchange: Exchange) -> None:
        """Commit what was recorded; 507 when the store cannot take it."""
        try:
            self.gateway.recording.catch_up()
            committed = await asyncio.to_thread(self.gateway.recorder.flush)
        except StoreError as error:
            answer(exchange, STORE_FULL, orjson.dumps({"error": str(error)}))
        else:
            answer(exchange, 200, orjson.dumps({"committed": committed}))

    def release(self, exchange: Exchange) -> None:
        """Release a program: its place is free immediately."""
        program, known = self._program(exchange)
        spent: dict[str, float] = {}
        for each in known:
            for unit, amount in each.spent.items():
                spent[unit] = spent.get(unit, 0) + amount
        if spent:  # one clock of all pools
            spent |= {"held_s": known[0].clock.held_s, "partner_s": known[0].clock.partner_s}
        released = [
            self.gateway.release(pool, program) for pool in self.gateway.pools.by_name.values()
        ]
        found = {"program_id": program, "released": any(released), "spent": spent}
        answer(exchange, 200, orjson.dumps(found))

    def clock(self, exchange: Exchange) -> None:
        """Show the waits of a program so far, including its calls in flight."""
        _, known = self._program(exchange)
        answer(exchange, 200, orjson.dumps(views.clock(self.gateway, known)))

    def _program(self, exchange: Exchange) -> tuple[str, list[Program]]:
        """Return the program that the body names, and its part in each pool that knows it."""
        fields = read_object(exchange)
        if "program_id" not in fields:
            raise BadRequest("the body must name `program_id`")
        name = str(fields["program_id"])
        pools = self.gateway.pools.by_name.values()
        found = [pool.scheduler.ledger.programs.get(name) for pool in pools]
        known = [program for program in found if program is not None]
        for program in known:
            exchange.permission.key.check_owner(program)
        return name, known

    def profiles(self, exchange: Exchange) -> None:
        """Show the times of all programs, or of the one in the path."""
        name = unquote(exchange.target.decode("latin-1").partition("?")[0][len("/profiles/") :])
        found = views.profiles(self.gateway)
        if name and name not in found:
            raise AccessDenied(404, f"no program {name!r}")
        answer(exchange, 200, orjson.dumps(found[name] if name else found))

    def add_engine(self, exchange: Exchange) -> None:
        try:
            config = EndpointConfig.model_validate(read_object(exchange))
            permits = self.gateway.targets.check(config)
            endpoint = self.gateway.pools.add(config, permits)
            self.gateway.pools.restore()
        except ValidationError as error:
            raise BadRequest(explain(error)) from None
        except ValueError as error:
            raise BadRequest(str(error)) from None
        answer(exchange, 201, orjson.dumps({"id": endpoint.name}))

    def remove_engine(self, exchange: Exchange) -> None:
        """Drain an engine, then remove it."""
        name = unquote(exchange.target.decode("latin-1")[len("/engines/") :])
        self._engine(name)
        self.gateway.spawn(self.gateway.pools.remove(name))
        answer(exchange, 202, orjson.dumps({"id": name, "draining": True}))

    def set_weights(self, exchange: Exchange) -> None:
        """Set the version of an engine's weights from now on, which its calls record."""
        fields = read_object(exchange)
        version, name = fields.get("version"), fields.get("engine")
        if not isinstance(version, str) or not isinstance(name, str):
            raise BadRequest("the body must name `engine` and `version`")
        self._engine(name).weights = version
        answer(exchange, 200, orjson.dumps({"engine": name, "version": version}))

    def _engine(self, name: str) -> Endpoint:
        try:
            return self.gateway.pools.find(name)[1]
        except LookupError as error:
            raise AccessDenied(404, str(error)) from None

    def metrics(self, exchange: Exchange) -> None:
        text = views.prometheus(self.gateway)
        exchange.respond(200, [(b"Content-Type", TEXT)], text.encode())

    def page(self, exchange: Exchange) -> None:
        """Serve the live page; its script polls `/state` with the viewer's token."""
        body, headers = views.page()
        exchange.respond(200, headers, body)

    def reset_pulse(self, exchange: Exchange) -> None:
        self.gateway.pulse.reset()
        answer(exchange, 200, b"{}")

    def _shown(self, view: Callable[[GatewayCore], object]) -> Handler:
        return lambda exchange: answer(exchange, 200, orjson.dumps(view(self.gateway)))

    def _later(self, work: Callable[[Exchange], Awaitable[None]]) -> Handler:
        async def run(exchange: Exchange) -> None:
            try:
                await work(exchange)
            except BadRequest as error:
                answer(exchange, 400, orjson.dumps({"error": str(error)}))
            except Exception:
                answer(exchange, 500, orjson.dumps({"error": "the gateway failed; see its log"}))
                raise

        def start(exchange: Exchange) -> None:
            self.gateway.spawn(run(exchange))

        return start
