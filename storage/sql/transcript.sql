-- Everything an attempt said, called and got back, in order.
create or replace macro transcript(attempt) as table
select position, role, content, reasoning, tool_calls, tool_call_id, name, call_id
from messages where attempt_id = attempt order by position;
