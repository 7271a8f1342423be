"""What the bank declares: its tables, tools and rules. Its code is `toolkit.py`, read as text."""

from tutti.tasks.synthesis.domains import FieldSpec, Parameter, Rule, TableSpec, ToolSpec

DISPUTES = ("not recognised", "charged twice", "goods never came")
LOSSES = ("lost", "stolen")


def _text(name: str, refers_to: str = "", one_of: tuple[str, ...] = ()) -> FieldSpec:
    return FieldSpec(name=name, kind="text", refers_to=refers_to, one_of=one_of)


def _texts(name: str) -> FieldSpec:
    return FieldSpec(name=name, kind="texts", refers_to=name)


def _date(name: str) -> FieldSpec:
    return FieldSpec(name=name, kind="date")


def _choice(name: str, one_of: tuple[str, ...]) -> FieldSpec:
    return FieldSpec(name=name, kind="text", one_of=one_of, optional=True)


def _amount(name: str, least: float | None = 0) -> FieldSpec:
    return FieldSpec(name=name, kind="number", least=least)


FIELDS = {
    "bank": (
        *(_text("name"), _date("today")),
        FieldSpec(name="daily_limit", kind="integer", least=1),
        FieldSpec(name="dispute_days", kind="integer", least=1),
    ),
    "clients": (
        *(_text("client_id"), _text("first_name"), _text("last_name"), _date("birth_date")),
        *(_text("phone"), _text("city"), _texts("accounts"), _texts("cards"), _texts("loans")),
        _texts("beneficiaries"),
    ),
    "accounts": (
        *(_text("account_id"), _text("client", "clients")),
        _text("kind", one_of=("current", "savings", "deposit")),
        *(_text("status", one_of=("open", "frozen", "closed")), _amount("balance")),
        _texts("transactions"),
    ),
    "cards": (
        *(_text("card_id"), _text("client", "clients"), _text("account", "accounts")),
        *(_text("kind", one_of=("debit", "credit")), _text("last_four")),
        *(_text("status", one_of=("active", "frozen")), _choice("frozen_for", LOSSES)),
    ),
    "transactions": (
        *(_text("transaction_id"), _text("account", "accounts")),
        _text("kind", one_of=("card", "transfer", "move", "repayment")),
        *(_date("date"), _text("party"), _amount("amount", None), _choice("dispute", DISPUTES)),
    ),
    "beneficiaries": (
        *(_text("beneficiary_id"), _text("client", "clients"), _text("name")),
        _text("account_number"),
    ),
    "loans": (
        *(_text("loan_id"), _text("client", "clients"), _text("purpose")),
        *(_amount("owed"), _amount("monthly")),
    ),
}
ABOUT = {
    "bank": "the bank's day and terms; one record",
    "transactions": "amounts below zero left the account",
}
TABLES = tuple(
    TableSpec(name=name, key=fields[0].name, about=ABOUT.get(name, ""), fields=fields)
    for name, fields in FIELDS.items()
)
PARAMETERS = {
    each.name: each
    for each in (
        Parameter(name="first_name", kind="text", about="the client's first name"),
        Parameter(name="last_name", kind="text", about="the client's last name"),
        Parameter(name="birth_date", kind="date", about="year-month-day"),
        Parameter(name="phone", kind="text", about="as 555-123-4567"),
        Parameter(name="client_id", kind="text", about="as CL-12345"),
        Parameter(name="account_id", kind="text", about="as AC-12345"),
        Parameter(name="from_account_id", kind="text", about="the account that pays"),
        Parameter(name="to_account_id", kind="text", about="the account that receives"),
        Parameter(name="card_id", kind="text", about="as CA-12345"),
        Parameter(name="transaction_id", kind="text", about="as AC-12345-T1"),
        Parameter(name="beneficiary_id", kind="text", about="as CL-12345-B1"),
        Parameter(name="loan_id", kind="text", about="as LO-12345"),
        Parameter(name="amount", kind="number", about="above zero, at most two decimals"),
        Parameter(name="name", kind="text", about="the beneficiary's name"),
        Parameter(name="account_number", kind="text", about="the beneficiary's account number"),
        Parameter(name="expression", kind="text", about="numbers with + - * / and brackets"),
        Parameter(name="summary", kind="text", about="what the client wants"),
    )
}


def _columns(table: str) -> str:
    return " ".join(field.name for field in FIELDS[table])


def _tool(
    name: str, kind: str, about: str, takes: str, returns: str = "", changes: str = ""
) -> ToolSpec:
    return ToolSpec.model_validate(
        {
            "name": name,
            "kind": kind,
            "about": about,
            "parameters": tuple(PARAMETERS[each] for each in takes.split()),
            "changes": tuple(changes.split()),
            "returns": tuple(returns.split()),
        }
    )


def _with_reason(tool: ToolSpec, reasons: tuple[str, ...]) -> ToolSpec:
    """A tool with a last parameter `reason`, one of a few."""
    about = " or ".join(f"'{each}'" for each in reasons)
    reason = Parameter(name="reason", kind="text", about=about)
    return tool.model_copy(update={"parameters": (*tool.parameters, reason)})


BOOKED = "accounts.balance accounts.transactions transactions"
CLIENT = _columns("clients")
TOOLS = (
    _tool(
        "find_client_by_name",
        "READ",
        "Find a client by full name and date of birth.",
        "first_name last_name birth_date",
        CLIENT,
    ),
    _tool("find_client_by_phone", "READ", "Find a client by phone number.", "phone", CLIENT),
    _tool("get_account", "READ", "Look up an account.", "account_id", _columns("accounts")),
    _tool("get_card", "READ", "Look up a card.", "card_id", _columns("cards")),
    _tool(
        "list_transactions",
        "READ",
        "List an account's transactions, oldest first; amounts below zero left the account.",
        "account_id",
    ),
    _tool(
        "get_beneficiary",
        "READ",
        "Look up somebody whom a client pays.",
        "beneficiary_id",
        _columns("beneficiaries"),
    ),
    _tool("get_loan", "READ", "Look up a loan.", "loan_id", _columns("loans")),
    _tool(
        "transfer",
        "WRITE",
        "Pay a beneficiary from an account.",
        "account_id beneficiary_id amount",
        "transaction_id balance",
        BOOKED,
    ),
    _tool(
        "move_money",
        "WRITE",
        "Move money from one account to another.",
        "from_account_id to_account_id amount",
        "from_balance to_balance",
        BOOKED,
    ),
    _with_reason(
        _tool(
            "freeze_card",
            "WRITE",
            "Freeze a card for good.",
            "card_id",
            _columns("cards"),
            "cards.status cards.frozen_for",
        ),
        LOSSES,
    ),
    _with_reason(
        _tool(
            "dispute_transaction",
            "WRITE",
            "Dispute a card payment.",
            "transaction_id",
            _columns("transactions"),
            "transactions.dispute",
        ),
        DISPUTES,
    ),
    _tool(
        "add_beneficiary",
        "WRITE",
        "Add somebody whom a client may pay.",
        "client_id name account_number",
        _columns("beneficiaries"),
        "clients.beneficiaries beneficiaries",
    ),
    _tool(
        "repay_loan",
        "WRITE",
        "Repay a part or all of a loan from an account.",
        "loan_id account_id amount",
        "loan_id owed balance",
        f"loans.owed {BOOKED}",
    ),
    _tool(
        "close_account",
        "WRITE",
        "Close an account for good.",
        "account_id",
        _columns("accounts"),
        "accounts.status",
    ),
    _tool("calculate", "GENERIC", "Compute an arithmetic expression.", "expression"),
    _tool("hand_over", "GENERIC", "Give the conversation to a human colleague.", "summary"),
)


def rules(today: str, daily_limit: int, dispute_days: int) -> tuple[Rule, ...]:
    """The policy of a bank with its day and terms."""
    limit, days = f"{daily_limit} a day", f"{dispute_days} days"
    told = (
        ("today", f"Today is {today}.", None),
        (
            "identify",
            "First find the client, by full name and date of birth or by phone; serve only them.",
            None,
        ),
        ("daily_limit", f"Transfers from an account are at most {limit}.", "within_daily_limit"),
        (
            "open_accounts",
            "Money leaves and reaches only open accounts, never frozen or closed ones.",
            "only_open_accounts",
        ),
        (
            "own_beneficiaries",
            "Transfers go only to beneficiaries of the account's own client.",
            "only_own_beneficiaries",
        ),
        (
            "own_money",
            "Money is moved, and loans are repaid, only between things of one client.",
            "only_own_money",
        ),
        ("covered", "No account is overdrawn.", "only_covered"),
        ("close_empty", "Close only open accounts whose balance is zero.", "only_empty_closed"),
        (
            "disputes",
            f"Dispute only card payments that are at most {days} old, and once.",
            "only_recent_disputes",
        ),
        ("active_cards", "Freeze only active cards, as lost or stolen.", "only_active_cards"),
        ("owed", "Repay no more of a loan than is owed.", "only_what_is_owed"),
        ("refuse", "Refuse what these rules forbid, and say why.", None),
    )
    return tuple(Rule(id=name, text=text, function=function) for name, text, function in told)
