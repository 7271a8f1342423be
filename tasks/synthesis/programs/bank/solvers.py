"""Reference solvers of the bank's tasks: they read the slots, not the golden calls.

Each solver gets the client's record and its intent's slots, and returns the agent's sentence.
"""

from tutti.tasks.agents import Oracle
from tutti.tasks.synthesis.programs.base.desks import Record
from tutti.tasks.synthesis.programs.base.intents import money
from tutti.tasks.synthesis.programs.base.program import Reading, Slots, find, use


def _theirs(client: Record, what: str, field: str, value: str) -> Reading:
    """Return the client's record with a value. Raises LookupError."""
    keys = client["beneficiaries" if what == "beneficiary" else f"{what}s"]
    named = f"{what} of {client['client_id']} with {field} {value}"
    return find(named, f"get_{what}", f"{what}_id", keys, lambda each: each[field] == value)


def transfer(client: Record, slots: Slots) -> Oracle:
    """Look up the beneficiary by name, and pay from the current account."""
    to = yield from _theirs(client, "beneficiary", "name", slots["name"])
    account = yield from _theirs(client, "account", "kind", "current")
    return (yield from _pay(account, to, int(slots["amount"])))


def _pay(account: Record, to: Record, amount: int) -> Oracle:
    ids = {"account_id": account["account_id"], "beneficiary_id": to["beneficiary_id"]}
    done = yield from use("transfer", **ids, amount=amount)
    return f"{to['name']} is paid; {money(done['balance'])} is left."


def pay_new(client: Record, slots: Slots) -> Oracle:
    """Add the beneficiary, then pay."""
    account = yield from _theirs(client, "account", "kind", "current")
    added = {"name": slots["name"], "account_number": slots["number"]}
    to = yield from use("add_beneficiary", client_id=client["client_id"], **added)
    return (yield from _pay(account, to, int(slots["amount"])))


def lost_card(client: Record, slots: Slots) -> Oracle:
    """Look up the card by its kind or last digits, freeze it, and read its account."""
    (named,) = (name for name in ("kind", "last_four") if name in slots)
    card = yield from _theirs(client, "card", named, slots[named])
    yield from use("freeze_card", card_id=card["card_id"], reason=slots["reason"])
    account = yield from use("get_account", account_id=card["account"])
    return f"The card is frozen; its account holds {money(account['balance'])}."


def freeze_all(client: Record, slots: Slots) -> Oracle:
    """Freeze each active card."""
    for card_id in reversed(client["cards"]):
        card = yield from use("get_card", card_id=card_id)
        if card["status"] == "active":
            yield from use("freeze_card", card_id=card_id, reason=slots["reason"])
    return "All your cards are frozen."


def find_payment(client: Record, merchant: str) -> Reading:
    """Return the card payment at a merchant, on any account. Raises LookupError."""
    for account_id in client["accounts"]:
        booked = yield from use("list_transactions", account_id=account_id)
        found = [each for each in booked if (each["kind"], each["party"]) == ("card", merchant)]
        if found:
            return found[0]
    raise LookupError(f"{client['client_id']} has no card payment at {merchant}")


def dispute(client: Record, slots: Slots) -> Oracle:
    """Look up the payment by its merchant, and dispute it."""
    payment = yield from find_payment(client, slots["merchant"])
    key = payment["transaction_id"]
    yield from use("dispute_transaction", transaction_id=key, reason=slots["reason"])
    return f"The payment of {money(-payment['amount'])} is disputed."


def repay(client: Record, slots: Slots) -> Oracle:
    """Look up the loan by its purpose, and repay it from the current account."""
    account = yield from _theirs(client, "account", "kind", "current")
    loan = yield from _theirs(client, "loan", "purpose", slots["purpose"])
    ids = {"loan_id": loan["loan_id"], "account_id": account["account_id"]}
    done = yield from use("repay_loan", **ids, amount=int(slots["amount"]))
    return f"It is repaid; {money(done['owed'])} is still owed."


def empty_close(client: Record, slots: Slots) -> Oracle:
    """Read the balance, move it, and close the account."""
    account = yield from _theirs(client, "account", "kind", slots["kind"])
    current = yield from _theirs(client, "account", "kind", "current")
    key = account["account_id"]
    ids = {"from_account_id": key, "to_account_id": current["account_id"]}
    done = yield from use("move_money", **ids, amount=account["balance"])
    yield from use("close_account", account_id=key)
    return f"The account is closed; the current account holds {money(done['to_balance'])}."


def close(client: Record, slots: Slots) -> Oracle:
    """Close the account of the kind."""
    account = yield from _theirs(client, "account", "kind", slots["kind"])
    if account["balance"]:
        raise LookupError(f"{account['account_id']} is not empty")
    yield from use("close_account", account_id=account["account_id"])
    return "The account is closed."


def balances(client: Record, slots: Slots) -> Oracle:
    """Add up all balances."""
    held = []
    for account_id in client["accounts"]:
        account = yield from use("get_account", account_id=account_id)
        held.append(account["balance"])
    return f"Your accounts hold {money(sum(held))}."


def spending(client: Record, slots: Slots) -> Oracle:
    """Add up the card payments of the account that has transactions."""
    paid = 0.0
    for account_id in client["accounts"]:
        booked = yield from use("list_transactions", account_id=account_id)
        paid -= sum(each["amount"] for each in booked if each["kind"] == "card")
    return f"Your card payments come to {money(paid)}."


def refused_balance(client: Record, slots: Slots) -> Oracle:
    """Refuse, and state the balance of the account in question."""
    account = yield from _theirs(client, "account", "kind", slots.get("kind", "current"))
    return f"That is not possible. The account holds {money(account['balance'])}."


def refused_amount(client: Record, slots: Slots) -> Oracle:
    """Refuse, and state the amount of the payment."""
    payment = yield from find_payment(client, slots["merchant"])
    return f"That is not possible. The payment was {money(-payment['amount'])}."
