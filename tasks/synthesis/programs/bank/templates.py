"""The intents of the bank's clients: a template yields those of a client, without their words."""

from collections.abc import Iterator, Mapping
from datetime import date

from tutti.tasks.synthesis.domains import Action
from tutti.tasks.synthesis.programs.bank.records import draw_name, draw_number
from tutti.tasks.synthesis.programs.base.desks import Desk, Record
from tutti.tasks.synthesis.programs.base.intents import Intent, is_plain
from tutti.tasks.synthesis.programs.base.program import call, call_on

DISPUTES = ("not recognised", "charged twice", "goods never came")
LOSSES = ("lost", "stolen")
LEAST = 100
"""Accounts that can pay no more than this get no transfers."""


class Bank(Desk):
    """A bank, as its templates read it."""

    @property
    def terms(self) -> Record:
        """The bank's day and terms."""
        return self.records["bank"]["bank"]

    @property
    def limit(self) -> int:
        """The most that an account may transfer per day."""
        return int(self.terms["daily_limit"])

    def current(self, client: Record) -> Record:
        """Return a client's current account."""
        return self.of(client, "accounts")[0]

    def payable(self, client: Record) -> float:
        """Return the most that the current account can transfer today."""
        current = self.current(client)
        return min(current["balance"], self.limit) if current["status"] == "open" else 0

    def payments(self, client: Record, recent: bool) -> list[Record]:
        """Return the card payments on the current account that may be disputed, or are too old."""
        today, days = date.fromisoformat(self.terms["today"]), self.terms["dispute_days"]
        booked = self.of(self.current(client), "transactions")
        ages = [(today - date.fromisoformat(each["date"])).days for each in booked]
        return [e for e, age in zip(booked, ages, strict=True) if (age <= days) == recent]

    def amount(self, most: float) -> int:
        """Return an integer amount from 20 to `most`, a multiple of 5."""
        return 5 * self.rng.randint(4, int(most // 5))


def pay(account: Record, beneficiary_id: str, amount: float) -> Action:
    """Return a transfer from an account."""
    return call_on("transfer", account, beneficiary_id=beneficiary_id, amount=amount)


def transfer(bank: Bank, client: Record) -> Iterator[Intent]:
    """Pay a beneficiary."""
    current, most = bank.current(client), bank.payable(client)
    for to in bank.of(client, "beneficiaries") if most > LEAST else ():
        amount, key = bank.amount(most), to["beneficiary_id"]
        actions = (
            call_on("get_account", current),
            call_on("get_beneficiary", to),
            pay(current, key, amount),
        )
        yield Intent(
            actions,
            touches=(current["account_id"],),
            slots={"name": to["name"], "amount": str(amount)},
            forbidden=(pay(current, key, bank.limit + amount),),
            facts=(round(current["balance"] - amount, 2),),
        )


def pay_new(bank: Bank, client: Record) -> Iterator[Intent]:
    """Add a beneficiary and pay it."""
    current, most, client_id = bank.current(client), bank.payable(client), client["client_id"]
    everybody = bank.records["beneficiaries"]
    for _ in range(2) if most > LEAST else ():
        name, number, amount = draw_name(bank.rng), draw_number(bank.rng), bank.amount(most)
        known = [each["name"] for each in bank.of(client, "beneficiaries")]
        if name in known:
            continue
        new = f"{client_id}-B{len(known) + 1}"
        strange = next(key for key, each in everybody.items() if each["client"] != client_id)
        add = call_on("add_beneficiary", client, name=name, account_number=number)
        yield Intent(
            (call_on("get_account", current), add, pay(current, new, amount)),
            touches=(current["account_id"],),
            slots={"name": name, "number": number, "amount": str(amount)},
            forbidden=(pay(current, strange, amount),),
            facts=(round(current["balance"] - amount, 2),),
        )


def lost_card(bank: Bank, client: Record) -> Iterator[Intent]:
    """Freeze one card."""
    current = bank.current(client)
    for card in bank.of(client, "cards"):
        reason, by_kind = bank.rng.choice(LOSSES), bank.rng.random() < 0.5
        name = f"{card['kind']} card" if by_kind else f"card ending in {card['last_four']}"
        named = "kind" if by_kind else "last_four"
        freeze = call_on("freeze_card", card, reason=reason)
        if card["status"] == "active":
            yield Intent(
                (call_on("get_card", card), freeze, call_on("get_account", current)),
                touches=(card["card_id"], current["account_id"]),
                slots={named: card[named], "reason": reason},
                forbidden=(call_on("freeze_card", card, reason="not needed"),),
                facts=(current["balance"],),
                says={"card": name},
            )


def freeze_all(bank: Bank, client: Record) -> Iterator[Intent]:
    """Freeze all active cards."""
    cards = bank.of(client, "cards")
    active = [card for card in cards if card["status"] == "active"]
    if len(cards) < 2 or not active:
        return
    reason = bank.rng.choice(LOSSES)
    looks = [call_on("get_card", card) for card in cards]
    yield Intent(
        (*looks, *(call_on("freeze_card", card, reason=reason) for card in active)),
        touches=client["cards"],
        slots={"reason": reason},
        forbidden=[call_on("freeze_card", card, reason="not needed") for card in cards],
    )


def dispute(bank: Bank, client: Record) -> Iterator[Intent]:
    """Dispute a recent card payment."""
    old = bank.payments(client, recent=False)
    for payment in bank.payments(client, recent=True):
        reason = bank.rng.choice(DISPUTES)
        if old:
            look = call_on("list_transactions", bank.current(client))
            yield Intent(
                (look, call_on("dispute_transaction", payment, reason=reason)),
                touches=(payment["transaction_id"],),
                slots={"merchant": payment["party"], "reason": reason},
                forbidden=(call_on("dispute_transaction", old[0], reason=reason),),
                facts=(-payment["amount"],),
            )


def repay(bank: Bank, client: Record) -> Iterator[Intent]:
    """Repay a part of a loan."""
    current = bank.current(client)
    for loan in bank.of(client, "loans") if current["status"] == "open" else ():
        owed, balance, purpose = loan["owed"], current["balance"], loan["purpose"]
        amount = bank.amount(min(balance, owed / 2))
        ids = {"loan_id": loan["loan_id"], "account_id": current["account_id"]}
        looks = call_on("get_loan", loan), call_on("get_account", current)
        yield Intent(
            (*looks, call("repay_loan", **ids, amount=amount)),
            touches=tuple(ids.values()),
            slots={"purpose": purpose, "amount": str(amount)},
            forbidden=(call("repay_loan", **ids, amount=int(max(owed, balance)) + 1),),
            facts=(round(owed - amount, 2),),
        )


def empty_close(bank: Bank, client: Record) -> Iterator[Intent]:
    """Move all money to the current account, then close the other."""
    current, *others = bank.of(client, "accounts")
    for account in others if current["status"] == "open" else ():
        balance, close = account["balance"], call_on("close_account", account)
        ids = {"from_account_id": account["account_id"], "to_account_id": current["account_id"]}
        if account["status"] == "open" and is_plain(balance):
            move = call("move_money", **ids, amount=balance)
            yield Intent(
                (call_on("get_account", account), move, close),
                touches=tuple(ids.values()),
                slots={"kind": account["kind"]},
                forbidden=(close,),
                facts=(round(current["balance"] + balance, 2),),
            )


def close(bank: Bank, client: Record) -> Iterator[Intent]:
    """Close an empty account."""
    current, *others = bank.of(client, "accounts")
    for account in others:
        if account["status"] == "open" and not account["balance"]:
            yield Intent(
                (call_on("get_account", account), call_on("close_account", account)),
                touches=(account["account_id"],),
                slots={"kind": account["kind"]},
                forbidden=(call_on("close_account", current),),
            )


def balances(bank: Bank, client: Record) -> Iterator[Intent]:
    """Ask for the sum of all accounts' balances."""
    accounts = bank.of(client, "accounts")
    full = [account for account in accounts if account["balance"]]
    if len(full) > 1:
        yield Intent(
            [call_on("get_account", account) for account in accounts],
            touches=client["accounts"],
            forbidden=[call_on("close_account", account) for account in full],
            facts=(round(sum(account["balance"] for account in accounts), 2),),
        )


def spending(bank: Bank, client: Record) -> Iterator[Intent]:
    """Ask for the sum of the card payments on the current account."""
    account = bank.current(client)
    old = bank.payments(client, recent=False)
    if old:
        paid = sum(each["amount"] for each in bank.of(account, "transactions"))
        yield Intent(
            (call_on("list_transactions", account),),
            touches=(account["account_id"],),
            forbidden=(call_on("dispute_transaction", old[0], reason=DISPUTES[0]),),
            facts=(round(-paid, 2),),
        )


def over_limit(bank: Bank, client: Record) -> Iterator[Intent]:
    """Pay more than the daily limit."""
    current = bank.current(client)
    for to in bank.of(client, "beneficiaries") if current["status"] == "open" else ():
        amount = bank.limit + 50 * bank.rng.randint(1, 8)
        slots = {"name": to["name"], "amount": str(amount)}
        reason = bank.say("over_limit", **slots)
        if current["balance"] >= amount:
            yield _refused(current, pay(current, to["beneficiary_id"], amount), reason, slots)


def frozen_pay(bank: Bank, client: Record) -> Iterator[Intent]:
    """Pay from a frozen account."""
    current = bank.current(client)
    for to in bank.of(client, "beneficiaries") if current["status"] == "frozen" else ():
        amount = bank.amount(min(current["balance"], bank.limit))
        slots = {"name": to["name"], "amount": str(amount)}
        reason = bank.say("frozen_pay", **slots)
        yield _refused(current, pay(current, to["beneficiary_id"], amount), reason, slots)


def full_close(bank: Bank, client: Record) -> Iterator[Intent]:
    """Close an account that has money, which the client does not want moved."""
    for account in bank.of(client, "accounts")[1:]:
        slots = {"kind": account["kind"]}
        reason = bank.say("full_close", **slots)
        if account["balance"]:
            yield _refused(account, call_on("close_account", account), reason, slots)


def _refused(account: Record, forbidden: Action, reason: str, slots: Mapping[str, str]) -> Intent:
    """Return a refused call, after which the user asks for an account's balance."""
    return Intent(
        (call_on("get_account", account),),
        touches=(account["account_id"],),
        slots=slots,
        forbidden=(forbidden,),
        facts=(account["balance"],),
        reason=reason,
    )


def old_dispute(bank: Bank, client: Record) -> Iterator[Intent]:
    """Dispute a card payment that is too old."""
    for payment in bank.of(bank.current(client), "transactions"):
        reason = bank.rng.choice(DISPUTES)
        if payment in bank.payments(client, recent=False):
            yield Intent(
                (call_on("list_transactions", bank.current(client)),),
                touches=(payment["transaction_id"],),
                slots={"merchant": payment["party"]},
                forbidden=(call_on("dispute_transaction", payment, reason=reason),),
                facts=(-payment["amount"],),
                says={"reason": reason},
            )
