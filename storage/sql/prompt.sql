-- The messages that a call was made with, in order. A call names them by spans of the attempt's
-- messages, so that a conversation that grows is stored once and not once a call. Those of an
-- expert, a judge or a simulated user are of a thread beside the attempt's own messages.
create or replace macro prompt(id) as table
with asked as (
    select attempt_id, prompt_thread, prompt_spans, generate_subscripts(prompt_spans, 1) as nth
    from calls where call_id = id
),
positions as (
    select attempt_id, prompt_thread as thread, nth,
           unnest(range(cast(prompt_spans[nth].first as bigint), prompt_spans[nth].last + 1)) as position
    from asked
),
found as (
    select nth, position, role, content, reasoning, tool_calls, tool_call_id, name
    from positions join messages using (attempt_id, position) where thread is null
    union all
    select nth, position, role, content, reasoning, tool_calls, tool_call_id, name
    from positions join auxiliary_messages using (attempt_id, thread, position)
)
select row_number() over (order by nth, position) - 1 as nth, role, content, reasoning, tool_calls,
       tool_call_id, name
from found order by all;
