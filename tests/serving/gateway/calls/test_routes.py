"""Tests that only listed methods and paths are passed to engines, in any spelling.

This was an attack: ``/v1/load%5Flora_adapter`` gave a token with the scope call an admin's rights,
and ``DELETE /v1/files/…`` was passed on with the provider's key, bypassing the budget.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.conftest import Bench, released
from tests.serving.gateway.conftest import MakeRaw
from tutti.tasks.serving.gateway.calls.access import Access
from tutti.tasks.serving.gateway.calls.routes import ADAPTERS, CALLS, SIZES, BadRequest, model_route
from tutti.tasks.serving.wire.screen import AccessDenied


@st.composite
def encoded(draw: st.DrawFn, path: str) -> bytes:
    which = draw(st.lists(st.booleans(), min_size=len(path), max_size=len(path)))
    upper = draw(st.booleans())
    form = "%{:02X}" if upper else "%{:02x}"
    return "".join(
        form.format(ord(c)) if hide and c != "/" else c for c, hide in zip(path, which, strict=True)
    ).encode()


@given(st.data(), st.sampled_from(sorted(ADAPTERS)))
def test_an_admins_path_stays_one_in_any_spelling(data: st.DataObject, kind: str) -> None:
    route = model_route(b"POST", b"/v1/" + data.draw(encoded(kind)))
    assert (route.scope, route.path) == ("admin", b"/v1/" + kind.encode())


@given(st.binary(max_size=40), st.sampled_from([b"GET", b"POST", b"DELETE", b"PUT", b"PATCH"]))
def test_whatever_is_asked_for_only_listed_paths_go_through(rest: bytes, method: bytes) -> None:
    try:
        route = model_route(method, b"/v1/" + rest)
    except (AccessDenied, BadRequest):
        return
    listed = route.kind in CALLS | ADAPTERS | SIZES or route.kind.startswith("models")
    assert listed and b"%" not in route.path.partition(b"?")[0].replace(b"%2F", b"")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", "/v1/files/file-1", 404),
        ("GET", "/v1/files", 404),
        ("POST", "/v1/batches", 404),
        ("GET", "/v1/responses/resp_1", 404),
        ("POST", "/v1/messages/batches", 404),
        ("POST", "/v1/chat/completions/", 404),
        ("POST", "/v1//chat/completions", 404),
        ("POST", "/v1/./chat/completions", 404),
        ("POST", "/v1/x/../chat/completions", 404),
        ("POST", "/v1/chat%252Fcompletions", 404),
        ("DELETE", "/v1/models/m", 405),
        ("GET", "/v1/chat/completions", 405),
        ("GET", "/v1/models/../files", 404),
        ("GET", "/v1/models/unknown", 404),
        ("OPTIONS", "/v1/chat/completions", 405),
        ("POST", "/p/x/metrics", 404),
    ],
)
async def test_what_is_not_listed_reaches_no_engine(
    raw: Bench, method: str, path: str, status: int
) -> None:
    from yarl import URL

    address = URL(f"http://127.0.0.1:{raw.gateway.server.port}{path}", encoded=True)
    answer = await raw.client.request(method, address, json=None)
    assert (answer.status, raw.engine.asked) == (status, [])


async def test_the_scope_call_loads_no_adapter(make_raw: MakeRaw) -> None:
    from yarl import URL

    bench = await make_raw(access=Access("caller:call:c"))
    for path in ("/v1/load_lora_adapter", "/v1/load%5Flora_adapter", "/p/x/v1/load%5flora_adapter"):
        address = URL(f"http://127.0.0.1:{bench.gateway.server.port}{path}", encoded=True)
        headers = {"Authorization": "Bearer c"}
        assert (await bench.client.post(address, json={}, headers=headers)).status == 403
    assert bench.engine.asked == []
    await released(bench.gateway)


async def test_a_method_is_not_changed_by_a_header(raw: Bench) -> None:
    await raw.chat("p", headers={"X-HTTP-Method-Override": "DELETE", "Cookie": "a=b"})
    sent = raw.engine.asked[-1].headers
    assert "x-http-method-override" not in sent and "cookie" not in sent
    await released(raw.gateway)


async def test_no_second_header_hides_a_compressed_body(raw: Bench) -> None:
    """Each of several encodings must be none; the last one does not replace the first."""
    from multidict import CIMultiDict

    for said in (["gzip", "identity"], ["identity", "gzip"], ["gzip"]):
        headers = CIMultiDict([("Content-Encoding", each) for each in said])
        data = b'{"model": "m", "messages": []}'
        headers.add("Content-Type", "application/json")
        path = "/v1/chat/completions"
        answer = await raw.client.post(path, data=data, headers=headers, compress=None)
        assert (answer.status, raw.engine.asked) == (400, []), said
