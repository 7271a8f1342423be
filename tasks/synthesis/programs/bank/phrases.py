"""How clients of the bank say what they want; `{…}` are filled by the templates."""

from collections.abc import Mapping

REASONS: Mapping[str, tuple[str, ...]] = {
    "transfer": (
        "You want to pay {amount} to {name}, who is among your beneficiaries.",
        "You owe {name} {amount} and want it transferred from your current account.",
        "Please send {amount} from your current account to your beneficiary {name}.",
        "It is {name}'s turn to be paid: {amount}, from the current account.",
    ),
    "pay_new": (
        "You want to add {name} as a beneficiary and pay {amount} to that person.",
        "Your new landlord is {name}, whom the bank does not know yet; {amount} is due.",
        "You bought a bicycle from {name} for {amount} and want to add and pay the seller.",
        "A craftsman, {name}, has sent you a bill of {amount}. Have the person added and paid.",
    ),
    "lost_card": (
        "You no longer have your {card} and want it frozen at once.",
        "Your {card} is gone, and you want the bank to freeze it.",
        "You are calling from a street phone: the {card} has to be blocked.",
        "Somebody else may be holding your {card}, so it must be frozen.",
    ),
    "freeze_all": (
        "Your wallet is gone with all your cards; every active one has to be frozen.",
        "You want each of your active cards frozen, because your bag disappeared.",
        "All of your cards were in the coat that is gone. Freeze whichever are active.",
        "None of your cards is with you any more, and those still active must be blocked.",
    ),
    "dispute": (
        "You want to dispute the card payment at {merchant}.",
        "There is a payment at {merchant} on your current account that you object to.",
        "The charge by {merchant} is not right, and you want to dispute it.",
        "You looked through your payments and wish to contest the one at {merchant}.",
    ),
    "repay": (
        "You want to repay {amount} of your {purpose} loan from your current account.",
        "You have saved a little: {amount} should go into the loan for the {purpose}.",
        "Please take {amount} off the {purpose} loan; your current account pays.",
        "You would like to pay an extra {amount} towards what you borrowed for the {purpose}.",
    ),
    "empty_close": (
        "You want to close your {kind} account; its money goes to the current account first.",
        "The {kind} account is no longer worth it: move all of it to current, then close it.",
        "You are tidying up. Everything in the {kind} account goes to current and it is closed.",
        "Please empty your {kind} account into the current one and close it.",
    ),
    "close": (
        "You want to close your {kind} account, which should be empty.",
        "You never used your {kind} account, and it can be closed.",
        "There should be nothing left in the {kind} account, so have it closed.",
        "Please close the {kind} account that you no longer need.",
    ),
    "balances": (
        "You want to know how much money you have at the bank over all accounts.",
        "For a form you need the sum of the balances of all your accounts.",
        "You ask what your accounts hold, taken together.",
        "How much do you have in all accounts at this bank? You want one figure.",
    ),
    "spending": (
        "You want to know the sum of all card payments on your current account.",
        "You are planning a budget and ask what your card payments come to altogether.",
        "What have you paid by card, as far as the current account shows? You want the total.",
        "You would like the card payments of the current account added up.",
    ),
    "over_limit": (
        "You want to pay {amount} to your beneficiary {name} in one go, today.",
        "A deposit is due: {amount} to {name}, all of it today.",
        "Please transfer {amount} from the current account to {name} right now.",
        "You promised {name} the full {amount} by tonight and want it sent.",
    ),
    "frozen_pay": (
        "You want to pay {amount} to {name} from your current account.",
        "Your beneficiary {name} should get {amount} from your current account today.",
        "Please send {name} the {amount} you owe; take it from the current account.",
        "You would like to transfer {amount} to {name}, as you do every month.",
    ),
    "old_dispute": (
        "You want to dispute the card payment at {merchant}.",
        "It took you long to notice, but the payment at {merchant} should be disputed.",
        "You found an old charge by {merchant} that you want to contest.",
        "Going through your papers, you decided to object to the payment at {merchant}.",
    ),
    "full_close": (
        "You want your {kind} account closed, just as it is.",
        "You insist that the {kind} account is closed today, with whatever is in it.",
        "Please close the {kind} account; the money in it need not be moved, you say.",
        "You are through with your {kind} account: it should be closed without further steps.",
    ),
}
ASKS: Mapping[str, tuple[str, ...]] = {
    "left": (
        "Ask what is left in the current account then.",
        "You want to hear the balance of the current account afterwards.",
        "Have the agent tell you the remaining balance of your current account.",
    ),
    "safe": (
        "You are worried: ask for the balance of the account that the card belongs to.",
        "Ask how much is in the card's account at the moment.",
        "Before you hang up, you want to know the balance of the account behind the card.",
    ),
    "how_much": (
        "Ask how much the payment was, to the cent.",
        "You forgot the amount and want to be told it.",
        "Have the agent name the exact amount of that payment.",
    ),
    "owed": (
        "Ask how much you still owe on it.",
        "You want to know what remains of the loan.",
        "At the end, have the agent tell you the rest of the debt.",
    ),
    "nothing": (
        "You want nothing else.",
        "Confirm when you are asked; there is nothing more to do.",
        "If the agent asks for anything further, say that this was all.",
    ),
    "sum": (
        "It is only a question; nothing is to be changed.",
        "You want the figure to the cent, and no change to anything.",
        "Ask for the exact amount. You want nothing done.",
    ),
    "refused_balance": (
        "If it cannot be done, accept that and ask for the balance of that account.",
        "Should the agent refuse, do not argue; ask what the account's balance is.",
        "If it is not possible, you only want to hear how much is in that account.",
    ),
    "refused_amount": (
        "If it cannot be done, accept that and ask how much the payment was.",
        "Should the agent refuse, do not argue; ask for the exact amount of the payment.",
        "If it is not possible, you only want to be told what that payment came to.",
    ),
}
