"""HTTP/1.1 as the gateway needs it: server and client on asyncio protocols, parsed by httptools.

An order of magnitude less CPU a request than the frameworks' (see docs/gateway.md): no task, no
future and no header object for a call that is passed on. Nothing here knows of models or programs.
"""
