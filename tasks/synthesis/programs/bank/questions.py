"""What ends without a change: questions of the bank's clients, and what its rules forbid."""

from collections.abc import Iterator

from tutti.tasks.synthesis.domains import Action
from tutti.tasks.synthesis.programs.bank.spec import DISPUTES
from tutti.tasks.synthesis.programs.bank.templates import (
    Bank,
    Record,
    Template,
    act,
    dollars,
    is_recent,
    pay,
    read,
)
from tutti.tasks.synthesis.programs.intents import Intent, is_plain, money


def balances(bank: Bank, client: Record) -> Iterator[Intent]:
    """The sum of all accounts' balances."""
    accounts = bank.of(client, "accounts")
    amount = round(sum(account["balance"] for account in accounts), 2)
    full = [account for account in accounts if account["balance"]]
    if len(full) > 1 and is_plain(amount):
        yield Intent(
            name="balances",
            reason=bank.say("balances"),
            actions=tuple(map(read, accounts)),
            touches=frozenset(client["accounts"]),
            slots={},
            rules=("identify", "close_empty"),
            forbidden=tuple(act("close_account", account_id=a["account_id"]) for a in full),
            communicate=(money(amount),),
            instructions=bank.ask("sum"),
        )


def spending(bank: Bank, client: Record) -> Iterator[Intent]:
    """The sum of the card payments on the current account."""
    account, payments = bank.current(client), bank.payments(client)
    amount = round(-sum(each["amount"] for each in payments), 2)
    old = [each for each in payments if not is_recent(bank, each)]
    if old and is_plain(amount):
        ids = {"transaction_id": old[0]["transaction_id"], "reason": DISPUTES[0]}
        yield Intent(
            name="spending",
            reason=bank.say("spending"),
            actions=(act("list_transactions", account_id=account["account_id"]),),
            touches=frozenset((account["account_id"],)),
            slots={},
            rules=("identify", "disputes"),
            forbidden=(act("dispute_transaction", **ids),),
            communicate=(money(amount),),
            instructions=bank.ask("sum"),
        )


def over_limit(bank: Bank, client: Record) -> Iterator[Intent]:
    """Pay more than the limit of a day."""
    current = bank.current(client)
    if current["status"] != "open":
        return
    for to in bank.of(client, "beneficiaries"):
        amount = bank.limit + 50 * bank.rng.randint(1, 8)
        slots = {"name": to["name"], "amount": str(amount)}
        reason = bank.say("over_limit", name=to["name"], amount=dollars(amount))
        forbidden = pay(current, to["beneficiary_id"], amount)
        if current["balance"] >= amount:
            yield from _refused(bank, current, ("over_limit", reason, forbidden), slots)


def frozen_pay(bank: Bank, client: Record) -> Iterator[Intent]:
    """Pay from a frozen account."""
    current = bank.current(client)
    if current["status"] != "frozen":
        return
    for to in bank.of(client, "beneficiaries"):
        amount = bank.amount(min(current["balance"], bank.limit))
        slots = {"name": to["name"], "amount": str(amount)}
        reason = bank.say("frozen_pay", name=to["name"], amount=dollars(amount))
        forbidden = pay(current, to["beneficiary_id"], amount)
        yield from _refused(bank, current, ("frozen_pay", reason, forbidden), slots)


def full_close(bank: Bank, client: Record) -> Iterator[Intent]:
    """Close an account that has money, which the client does not want moved."""
    for account in bank.of(client, "accounts")[1:]:
        reason = bank.say("full_close", kind=account["kind"])
        forbidden = act("close_account", account_id=account["account_id"])
        if account["balance"]:
            slots = {"kind": account["kind"]}
            yield from _refused(bank, account, ("full_close", reason, forbidden), slots)


DECIDING = {
    "over_limit": "daily_limit",
    "frozen_pay": "open_accounts",
    "full_close": "close_empty",
}
"""The rule that forbids what a template asks for."""
INSISTS = {
    "over_limit": "The current account has to pay, the whole sum at once.",
    "frozen_pay": "The current account has to pay, no other.",
    "full_close": "You refuse to have the money moved anywhere.",
}


def _refused(
    bank: Bank, account: Record, told: tuple[str, str, Action], slots: dict[str, str]
) -> Iterator[Intent]:
    """An intent that is refused, after which the user asks for an account's balance; `told`: its
    template, reason and forbidden call."""
    name, reason, forbidden = told
    if is_plain(account["balance"]):
        yield Intent(
            name=name,
            reason=reason,
            actions=(read(account),),
            touches=frozenset((account["account_id"],)),
            slots=slots,
            rules=("identify", DECIDING[name], "refuse"),
            forbidden=(forbidden,),
            communicate=(money(account["balance"]),),
            known=INSISTS[name],
            instructions=bank.ask("refused_balance"),
        )


def old_dispute(bank: Bank, client: Record) -> Iterator[Intent]:
    """Dispute a card payment that is too old."""
    account = bank.current(client)
    for payment in bank.payments(client):
        reason, key = bank.rng.choice(DISPUTES), payment["transaction_id"]
        if not is_recent(bank, payment) and is_plain(-payment["amount"]):
            yield Intent(
                name="old_dispute",
                reason=bank.say("old_dispute", merchant=payment["party"]),
                actions=(act("list_transactions", account_id=account["account_id"]),),
                touches=frozenset((key,)),
                slots={"merchant": payment["party"]},
                rules=("identify", "disputes", "refuse"),
                forbidden=(act("dispute_transaction", transaction_id=key, reason=reason),),
                communicate=(money(-payment["amount"]),),
                known=f"Your reason is: {reason}.",
                unknown="You do not remember when you paid.",
                instructions=bank.ask("refused_amount"),
            )


QUESTIONS: tuple[Template, ...] = (
    *(balances, spending, over_limit, frozen_pay, full_close, old_dispute),
)
