"""An agent's tools: their interface, search and Python, and those of MCP servers."""

from typing import TYPE_CHECKING

from tutti.face import lazy

if TYPE_CHECKING:
    from tutti.tasks.agents.tools.mcp import open_mcp as open_mcp
    from tutti.tasks.agents.tools.retrieve import MAX_QUERY_CHARS as MAX_QUERY_CHARS
    from tutti.tasks.agents.tools.retrieve import open_http as open_http
    from tutti.tasks.agents.tools.retrieve import service_search as service_search
    from tutti.tasks.agents.tools.tool import MALFORMED as MALFORMED
    from tutti.tasks.agents.tools.tool import TOOL_SCHEMAS as TOOL_SCHEMAS
    from tutti.tasks.agents.tools.tool import DescribedTools as DescribedTools
    from tutti.tasks.agents.tools.tool import Environment as Environment
    from tutti.tasks.agents.tools.tool import JoinedTools as JoinedTools
    from tutti.tasks.agents.tools.tool import Partner as Partner
    from tutti.tasks.agents.tools.tool import ToolResult as ToolResult
    from tutti.tasks.agents.tools.tool import Tools as Tools
    from tutti.tasks.agents.tools.tool import ToolUnavailable as ToolUnavailable
    from tutti.tasks.agents.tools.tool import arguments_of as arguments_of
    from tutti.tasks.agents.tools.tool import refused as refused
    from tutti.tasks.agents.tools.toolbox import SearchTool as SearchTool
    from tutti.tasks.agents.tools.toolbox import Toolbox as Toolbox

if not TYPE_CHECKING:  # with it, a type checker would accept any name of this package
    __getattr__ = lazy(__name__, __file__)
