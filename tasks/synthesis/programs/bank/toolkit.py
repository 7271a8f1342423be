"""The bank's tools and rules. Runs in the sandbox only, which gives it `ToolError`."""

import ast
import operator
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class ToolError(Exception):
        """What a tool raises to refuse a call."""


Record = dict[str, Any]
Db = dict[str, dict[str, Record]]
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
PAYING = {"transfer": "account_id", "move_money": "from_account_id", "repay_loan": "account_id"}
"""The tools that take money from an account, and their parameter that names it."""


def _of(db: Db, table: str, key: str) -> Record:
    if key not in db[table]:
        raise ToolError(f"{table}: there is no {key!r}")
    return db[table][key]


def _book(db: Db, account: Record, amount: float, kind: str, party: str) -> str:
    """Change a balance and write the transaction; below zero is what leaves the account."""
    account["balance"] = round(account["balance"] + amount, 2)
    key = f"{account['account_id']}-T{len(account['transactions']) + 1}"
    account["transactions"].append(key)
    booked = {"transaction_id": key, "account": account["account_id"], "kind": kind}
    today = db["bank"]["bank"]["today"]
    told = {"date": today, "party": party, "amount": float(amount), "dispute": None}
    db["transactions"][key] = {**booked, **told}
    return key


def _positive(amount: float) -> None:
    if not amount > 0 or round(amount, 2) != amount:
        raise ToolError(f"amount: {amount} is not above 0 with at most two digits after the point")


def find_client_by_name(db: Db, first_name: str, last_name: str, birth_date: str) -> Record:
    """The client with a full name and a date of birth."""
    wanted = (first_name.casefold(), last_name.casefold(), birth_date)
    for each in db["clients"].values():
        names = (each["first_name"].casefold(), each["last_name"].casefold())
        if (*names, each["birth_date"]) == wanted:
            return each
    raise ToolError("no client has this name and date of birth")


def find_client_by_phone(db: Db, phone: str) -> Record:
    """The client with a phone number."""
    for each in db["clients"].values():
        if each["phone"] == phone:
            return each
    raise ToolError("no client has this phone number")


def get_account(db: Db, account_id: str) -> Record:
    """An account."""
    return _of(db, "accounts", account_id)


def get_card(db: Db, card_id: str) -> Record:
    """A card."""
    return _of(db, "cards", card_id)


def list_transactions(db: Db, account_id: str) -> list[Record]:
    """The transactions of an account, oldest first."""
    account = _of(db, "accounts", account_id)
    return [_of(db, "transactions", each) for each in account["transactions"]]


def get_beneficiary(db: Db, beneficiary_id: str) -> Record:
    """A beneficiary."""
    return _of(db, "beneficiaries", beneficiary_id)


def get_loan(db: Db, loan_id: str) -> Record:
    """A loan."""
    return _of(db, "loans", loan_id)


def transfer(db: Db, account_id: str, beneficiary_id: str, amount: float) -> Record:
    """Pay a beneficiary from an account."""
    account, to = _of(db, "accounts", account_id), _of(db, "beneficiaries", beneficiary_id)
    _positive(amount)
    key = _book(db, account, -amount, "transfer", to["name"])
    return {"transaction_id": key, "balance": account["balance"]}


def move_money(db: Db, from_account_id: str, to_account_id: str, amount: float) -> Record:
    """Move money from an account to another."""
    source, target = _of(db, "accounts", from_account_id), _of(db, "accounts", to_account_id)
    _positive(amount)
    if source is target:
        raise ToolError("the two accounts are one")
    _book(db, source, -amount, "move", to_account_id)
    _book(db, target, amount, "move", from_account_id)
    return {"from_balance": source["balance"], "to_balance": target["balance"]}


def freeze_card(db: Db, card_id: str, reason: str) -> Record:
    """Freeze a card."""
    card = _of(db, "cards", card_id)
    card["status"] = "frozen"
    card["frozen_for"] = reason
    return card


def dispute_transaction(db: Db, transaction_id: str, reason: str) -> Record:
    """Dispute a card payment."""
    transaction = _of(db, "transactions", transaction_id)
    transaction["dispute"] = reason
    return transaction


def add_beneficiary(db: Db, client_id: str, name: str, account_number: str) -> Record:
    """Add somebody whom a client pays."""
    client = _of(db, "clients", client_id)
    key = f"{client_id}-B{len(client['beneficiaries']) + 1}"
    client["beneficiaries"].append(key)
    added = {"beneficiary_id": key, "client": client_id}
    db["beneficiaries"][key] = {**added, "name": name, "account_number": account_number}
    return db["beneficiaries"][key]


def repay_loan(db: Db, loan_id: str, account_id: str, amount: float) -> Record:
    """Repay part of a loan from an account."""
    loan, account = _of(db, "loans", loan_id), _of(db, "accounts", account_id)
    _positive(amount)
    _book(db, account, -amount, "repayment", loan_id)
    loan["owed"] = round(loan["owed"] - amount, 2)
    return {"loan_id": loan_id, "owed": loan["owed"], "balance": account["balance"]}


def close_account(db: Db, account_id: str) -> Record:
    """Close an account."""
    account = _of(db, "accounts", account_id)
    account["status"] = "closed"
    return account


def calculate(db: Db, expression: str) -> float:
    """The value of an arithmetic expression, to two digits after the point."""
    try:
        return round(float(_value(ast.parse(expression, mode="eval").body)), 2)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError) as error:
        raise ToolError(f"expression: {error}") from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("only numbers, + - * / and brackets")


def hand_over(db: Db, summary: str) -> str:
    """Give the conversation to a human."""
    return "A colleague takes over."


def _payer(db: Db, name: str, arguments: Record) -> Record | None:
    """The account that a call takes money from, if it does and the account exists."""
    return db["accounts"].get(arguments.get(PAYING.get(name, ""), ""))


def within_daily_limit(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would transfer more from an account in a day than the limit."""
    account = _payer(db, name, arguments)
    if name != "transfer" or account is None:
        return ""
    bank = db["bank"]["bank"]
    booked = [db["transactions"][each] for each in account["transactions"]]
    out = [t for t in booked if t["kind"] == "transfer" and t["date"] == bank["today"]]
    day = sum(-t["amount"] for t in out) + arguments.get("amount", 0)
    limit = bank["daily_limit"]
    return f"transfers of a day would be {day:.2f}, above {limit}" if day > limit else ""


def only_open_accounts(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would take money from, or put it on, an account that is not open."""
    target = db["accounts"].get(arguments.get("to_account_id", ""))
    for account in (_payer(db, name, arguments), target):
        if account is not None and account["status"] != "open":
            return f"account {account['account_id']} is {account['status']}"
    return ""


def only_own_beneficiaries(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would pay somebody who is no beneficiary of the account's client."""
    account = _payer(db, name, arguments)
    to = db["beneficiaries"].get(arguments.get("beneficiary_id", ""))
    strange = account is not None and to is not None and to["client"] != account["client"]
    return "the beneficiary belongs to another client" if strange else ""


def only_own_money(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would move money to, or repay a loan from, an account of somebody else."""
    account = _payer(db, name, arguments)
    target = db["accounts"].get(arguments.get("to_account_id", ""))
    loan = db["loans"].get(arguments.get("loan_id", ""))
    for other in (target, loan):
        if account is not None and other is not None and other["client"] != account["client"]:
            return "the two belong to different clients"
    return ""


def only_covered(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would overdraw an account."""
    account = _payer(db, name, arguments)
    short = account is not None and account["balance"] < arguments.get("amount", 0)
    return "the balance does not cover the amount" if short else ""


def only_empty_closed(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would close an account that has money, or is not open."""
    account = db["accounts"].get(arguments.get("account_id", ""))
    if name != "close_account" or account is None:
        return ""
    if account["status"] != "open":
        return f"the account is {account['status']}"
    return "" if account["balance"] == 0 else f"its balance is {account['balance']}"


def only_recent_disputes(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would dispute what is no card payment, is disputed, or is too old."""
    transaction = db["transactions"].get(arguments.get("transaction_id", ""))
    if name != "dispute_transaction" or transaction is None:
        return ""
    if transaction["kind"] != "card":
        return "it is no card payment"
    if transaction["dispute"]:
        return "it is disputed already"
    bank = db["bank"]["bank"]
    days = (date.fromisoformat(bank["today"]) - date.fromisoformat(transaction["date"])).days
    return f"it is {days} days old" if days > bank["dispute_days"] else ""


def only_active_cards(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would freeze a card that is frozen, or for an unknown reason."""
    card = db["cards"].get(arguments.get("card_id", ""))
    if name != "freeze_card" or card is None:
        return ""
    if card["status"] != "active":
        return f"the card is {card['status']}"
    return "" if arguments.get("reason") in ("lost", "stolen") else "the reason is unknown"


def only_what_is_owed(db: Db, name: str, arguments: Record) -> str:
    """Whether a call would repay more than is owed."""
    loan = db["loans"].get(arguments.get("loan_id", ""))
    more = name == "repay_loan" and loan is not None and arguments.get("amount", 0) > loan["owed"]
    return "more than is owed" if more else ""
