"""What clients of the bank want done: each template yields intents of a client."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from random import Random
from typing import Any

from tutti.tasks.synthesis.domains import Action
from tutti.tasks.synthesis.domains.domain import Records
from tutti.tasks.synthesis.programs.bank.phrases import ASKS, REASONS
from tutti.tasks.synthesis.programs.bank.records import draw_name, draw_number
from tutti.tasks.synthesis.programs.bank.spec import DISPUTES, LOSSES
from tutti.tasks.synthesis.programs.intents import Intent, is_plain, money

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Bank:
    """An instance with the questions that templates have about it."""

    records: Records
    rng: Random

    @property
    def limit(self) -> int:
        """What an account may transfer a day."""
        return int(self.records["bank"]["bank"]["daily_limit"])

    def of(self, client: Record, table: str) -> list[Record]:
        """A client's records of a table."""
        return [self.records[table][key] for key in client[table]]

    def current(self, client: Record) -> Record:
        """A client's current account."""
        return self.of(client, "accounts")[0]

    def payments(self, client: Record) -> list[Record]:
        """The card payments on the current account."""
        booked = self.current(client)["transactions"]
        return [self.records["transactions"][key] for key in booked]

    def amount(self, most: float) -> int:
        """A whole amount from 20 to `most`, a multiple of 5."""
        return 5 * self.rng.randint(4, int(most // 5))

    def say(self, template: str, /, **values: str) -> str:
        """A way to say an intent."""
        return self.rng.choice(REASONS[template]).format(**values)

    def ask(self, name: str) -> str:
        """A way to ask for a fact."""
        return self.rng.choice(ASKS[name])


Template = Callable[[Bank, Record], Iterator[Intent]]


def act(tool: str, /, **arguments: Any) -> Action:
    """A call."""
    return Action(name=tool, arguments=arguments)


def read(account: Record) -> Action:
    """Look at an account."""
    return act("get_account", account_id=account["account_id"])


def pay(account: Record, beneficiary_id: str, amount: float) -> Action:
    """Transfer from an account."""
    to = {"beneficiary_id": beneficiary_id, "amount": amount}
    return act("transfer", account_id=account["account_id"], **to)


def dollars(amount: int) -> str:
    """As a user says it."""
    return f"{amount} dollars"


def _payable(bank: Bank, client: Record) -> float:
    """What the current account can transfer today."""
    current = bank.current(client)
    return min(current["balance"], bank.limit) if current["status"] == "open" else 0


def transfer(bank: Bank, client: Record) -> Iterator[Intent]:
    """Pay a beneficiary."""
    current, most = bank.current(client), _payable(bank, client)
    for to in bank.of(client, "beneficiaries") if most > 100 else ():
        amount, key = bank.amount(most), to["beneficiary_id"]
        left = round(current["balance"] - amount, 2)
        if is_plain(left):
            yield Intent(
                name="transfer",
                reason=bank.say("transfer", name=to["name"], amount=dollars(amount)),
                actions=(
                    read(current),
                    act("get_beneficiary", beneficiary_id=key),
                    pay(current, key, amount),
                ),
                touches=frozenset((current["account_id"],)),
                slots={"name": to["name"], "amount": str(amount)},
                rules=("identify", "daily_limit", "open_accounts", "own_beneficiaries", "covered"),
                forbidden=(pay(current, key, bank.limit + amount),),
                communicate=(money(left),),
                known="The money comes from your current account.",
                instructions=bank.ask("left"),
            )


def pay_new(bank: Bank, client: Record) -> Iterator[Intent]:
    """Add a beneficiary and pay it."""
    current, most = bank.current(client), _payable(bank, client)
    if most <= 100:
        return
    for _ in range(2):
        name, number, amount = draw_name(bank.rng), draw_number(bank.rng), bank.amount(most)
        left = round(current["balance"] - amount, 2)
        known = [each["name"] for each in bank.of(client, "beneficiaries")]
        new = f"{client['client_id']}-B{len(known) + 1}"
        strange = next(
            key
            for key, each in bank.records["beneficiaries"].items()
            if each["client"] != client["client_id"]
        )
        if name not in known and is_plain(left):
            yield Intent(
                name="pay_new",
                reason=bank.say("pay_new", name=name, amount=dollars(amount)),
                actions=(
                    read(current),
                    act(
                        "add_beneficiary",
                        client_id=client["client_id"],
                        name=name,
                        account_number=number,
                    ),
                    pay(current, new, amount),
                ),
                touches=frozenset((current["account_id"],)),
                slots={"name": name, "number": number, "amount": str(amount)},
                rules=("identify", "daily_limit", "own_beneficiaries", "covered"),
                forbidden=(pay(current, strange, amount),),
                communicate=(money(left),),
                known=f"The account number of {name} is {number}; your current account pays.",
                instructions=bank.ask("left"),
            )


def lost_card(bank: Bank, client: Record) -> Iterator[Intent]:
    """Freeze one card."""
    cards, current = bank.of(client, "cards"), bank.current(client)
    for card in cards:
        reason = bank.rng.choice(LOSSES)
        by_kind = bank.rng.random() < 0.5
        said = f"{card['kind']} card" if by_kind else f"card ending in {card['last_four']}"
        slots = {"kind": card["kind"]} if by_kind else {"last_four": card["last_four"]}
        if card["status"] == "active" and is_plain(current["balance"]):
            yield Intent(
                name="lost_card",
                reason=bank.say("lost_card", card=said),
                actions=(
                    act("get_card", card_id=card["card_id"]),
                    act("freeze_card", card_id=card["card_id"], reason=reason),
                    read(current),
                ),
                touches=frozenset((card["card_id"], current["account_id"])),
                slots={**slots, "reason": reason},
                rules=("identify", "active_cards"),
                forbidden=(act("freeze_card", card_id=card["card_id"], reason="not needed"),),
                communicate=(money(current["balance"]),),
                known=f"The card was {reason}.",
                instructions=bank.ask("safe"),
            )


def freeze_all(bank: Bank, client: Record) -> Iterator[Intent]:
    """Freeze all active cards."""
    cards = bank.of(client, "cards")
    active = [card["card_id"] for card in cards if card["status"] == "active"]
    if len(cards) < 2 or not active:
        return
    reason = bank.rng.choice(LOSSES)
    frozen = [act("freeze_card", card_id=each, reason=reason) for each in active]
    yield Intent(
        name="freeze_all",
        reason=bank.say("freeze_all"),
        actions=(*(act("get_card", card_id=card["card_id"]) for card in cards), *frozen),
        touches=frozenset(card["card_id"] for card in cards),
        slots={"reason": reason},
        rules=("identify", "active_cards"),
        forbidden=tuple(
            act("freeze_card", card_id=card["card_id"], reason="not needed") for card in cards
        ),
        known=f"The cards were {reason}.",
        unknown="You do not know the numbers of the cards, nor which of them are active.",
        instructions=bank.ask("nothing"),
    )


def dispute(bank: Bank, client: Record) -> Iterator[Intent]:
    """Dispute a recent card payment."""
    recent = [each for each in bank.payments(client) if is_recent(bank, each)]
    account, old = bank.current(client), [e for e in bank.payments(client) if e not in recent]
    for payment in recent:
        reason, key = bank.rng.choice(DISPUTES), payment["transaction_id"]
        wrong = old[0]["transaction_id"] if old else ""
        if wrong and is_plain(-payment["amount"]):
            yield Intent(
                name="dispute",
                reason=bank.say("dispute", merchant=payment["party"]),
                actions=(
                    act("list_transactions", account_id=account["account_id"]),
                    act("dispute_transaction", transaction_id=key, reason=reason),
                ),
                touches=frozenset((key,)),
                slots={"merchant": payment["party"], "reason": reason},
                rules=("identify", "disputes"),
                forbidden=(act("dispute_transaction", transaction_id=wrong, reason=reason),),
                communicate=(money(-payment["amount"]),),
                known=f"Your reason is: {reason}.",
                instructions=bank.ask("how_much"),
            )


def is_recent(bank: Bank, payment: Record) -> bool:
    """Whether a payment may still be disputed; both days are ISO 8601."""
    terms = bank.records["bank"]["bank"]
    days = date.fromisoformat(terms["today"]) - date.fromisoformat(payment["date"])
    return bool(days.days <= terms["dispute_days"])


def repay(bank: Bank, client: Record) -> Iterator[Intent]:
    """Repay a part of a loan."""
    current = bank.current(client)
    for loan in bank.of(client, "loans") if current["status"] == "open" else ():
        amount = bank.amount(min(current["balance"], loan["owed"] / 2))
        after = round(loan["owed"] - amount, 2)
        ids = {"loan_id": loan["loan_id"], "account_id": current["account_id"]}
        more = int(max(loan["owed"], current["balance"])) + 1
        if is_plain(after):
            yield Intent(
                name="repay",
                reason=bank.say("repay", amount=dollars(amount), purpose=loan["purpose"]),
                actions=(
                    act("get_loan", loan_id=loan["loan_id"]),
                    read(current),
                    act("repay_loan", **ids, amount=amount),
                ),
                touches=frozenset((loan["loan_id"], current["account_id"])),
                slots={"purpose": loan["purpose"], "amount": str(amount)},
                rules=("identify", "owed", "covered", "open_accounts"),
                forbidden=(act("repay_loan", **ids, amount=more),),
                communicate=(money(after),),
                known="The money comes from your current account.",
                instructions=bank.ask("owed"),
            )


def empty_close(bank: Bank, client: Record) -> Iterator[Intent]:
    """Move all money to the current account, then close the other."""
    current, *others = bank.of(client, "accounts")
    for account in others if current["status"] == "open" else ():
        balance, key = account["balance"], account["account_id"]
        after = round(current["balance"] + balance, 2)
        move = {"from_account_id": key, "to_account_id": current["account_id"]}
        if account["status"] == "open" and is_plain(balance) and is_plain(after):
            yield Intent(
                name="empty_close",
                reason=bank.say("empty_close", kind=account["kind"]),
                actions=(
                    *(read(account), act("move_money", **move, amount=balance)),
                    act("close_account", account_id=key),
                ),
                touches=frozenset((key, current["account_id"])),
                slots={"kind": account["kind"]},
                rules=("identify", "close_empty", "covered", "open_accounts", "own_money"),
                forbidden=(act("close_account", account_id=key),),
                communicate=(money(after),),
                unknown="You do not know what the account holds.",
                instructions=bank.ask("left"),
            )


def close(bank: Bank, client: Record) -> Iterator[Intent]:
    """Close an account that is empty."""
    current, *others = bank.of(client, "accounts")
    for account in others:
        key = account["account_id"]
        if account["status"] == "open" and not account["balance"]:
            yield Intent(
                name="close",
                reason=bank.say("close", kind=account["kind"]),
                actions=(read(account), act("close_account", account_id=key)),
                touches=frozenset((key,)),
                slots={"kind": account["kind"]},
                rules=("identify", "close_empty"),
                forbidden=(act("close_account", account_id=current["account_id"]),),
                instructions=bank.ask("nothing"),
            )


CHANGES: tuple[Template, ...] = (
    *(transfer, pay_new, lost_card, freeze_all, dispute, repay, empty_close, close),
)
