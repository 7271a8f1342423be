"""How customers of the shop say what they want; `{…}` are filled by the templates."""

from collections.abc import Mapping

REASONS: Mapping[str, tuple[str, ...]] = {
    "cancel": (
        "You want to cancel {order}.",
        "You have changed your mind about {order} and would like it cancelled.",
        "Please have {order} called off before it leaves the warehouse.",
        "You are contacting the shop to stop {order} altogether.",
    ),
    "cancel_two": (
        "You want to cancel two orders: {order} and {second}.",
        "Neither {order} nor {second} should come; you want both cancelled.",
        "You are moving abroad for a while, so {order} and {second} both have to be cancelled.",
        "Have the shop call off {order} as well as {second}.",
    ),
    "return": (
        "You want to return the {items} from {order}.",
        "The {items} from {order} did not turn out as you hoped, and you want to send that back.",
        "From {order} you would like to give back the {items}, and nothing else.",
        "You want your money back for the {items} that came with {order}.",
    ),
    "return_gift": (
        "You want to return everything in {order} and have the refund on your gift card.",
        "All of {order} goes back; the money should be put on your gift card.",
        "You would like to give back the whole of {order} in exchange for gift card credit.",
        "Nothing in {order} suits you. Return all of it, refunded to the gift card that you hold.",
    ),
    "exchange": (
        "You want to exchange the {item} from {order} for the one in {options}.",
        "The {item} from {order} came as ordered, but you would rather have it in {options}.",
        "You would like to swap the {item} that came with {order} for the version in {options}.",
        "In {options} the {item} would suit you better than the one you got with {order}.",
    ),
    "address": (
        "You want {order} to be sent to another address.",
        "You will be staying elsewhere, so {order} should go to a different address.",
        "The delivery address of {order} is wrong and has to be changed.",
        "Please let {order} be delivered to your sister's home instead.",
    ),
    "move": (
        "You have moved. Your profile and all your pending orders need the new address.",
        "You live somewhere else now: update your profile, and redirect whatever is pending.",
        "After your move you want the new address in your account and on each pending order.",
        "A new home, a new address: it belongs in your profile and on every order still pending.",
    ),
    "total": (
        "You want to know how much you would get back for the {items} from {order}.",
        "Before you decide, you want to hear what a return of the {items} from {order} would pay.",
        "You are thinking about giving back the {items} from {order} and ask for the sum.",
        "How much would a return of the {items} from {order} bring you? You want the figure.",
    ),
    "spent": (
        "You want to know what you have spent on all your orders that were delivered.",
        "For your household accounts you need the sum of all your delivered orders.",
        "You ask how much your delivered orders cost, taken together.",
        "You are adding up your year: what did everything that was delivered to you cost?",
    ),
    "late_return": (
        "You want to return the {items} from {order}.",
        "You finally unpacked {order}, and now you want to give back the {items}.",
        "It took you a while, but the {items} from {order} should go back for a refund.",
        "You would like a refund for the {items} from {order}, which you hardly used.",
    ),
    "late_cancel": (
        "You want to cancel {order}.",
        "You insist that {order} is cancelled, wherever it may be by now.",
        "You have found a better offer, so {order} should be cancelled today.",
        "You no longer want {order} and ask to have it cancelled.",
    ),
    "wrong_exchange": (
        "You want to exchange the {item} from {order} for {other}.",
        "Instead of the {item} from {order} you would like to have {other}.",
        "You hope to swap the {item} that came with {order} for {other}.",
        "The {item} from {order} is not for you; you ask to get {other} in its place.",
    ),
    "wrong_refund": (
        "You want to return the {items} from {order}, with the refund on your {kind}.",
        "The {items} from {order} should go back, but the money must go to your {kind}.",
        "You would like to give back the {items} from {order} and be paid to your {kind}, "
        "which you did not use for it.",
        "Refund the {items} from {order}, you say, but to your {kind} instead.",
    ),
}
ASKS: Mapping[str, tuple[str, ...]] = {
    "refund": (
        "Ask how much is refunded.",
        "You want to be told the exact refund.",
        "Do not hang up before you know what you get back.",
    ),
    "balance": (
        "Ask for the new balance of the gift card.",
        "You want to hear what is on the gift card afterwards.",
        "At the end, have the agent tell you the gift card's balance.",
    ),
    "difference": (
        "Ask what the difference in price is.",
        "You want to know by how much the price differs.",
        "Have the agent name the amount that the two differ by.",
    ),
    "refused_sum": (
        "If it cannot be done, accept that and ask what the whole order cost.",
        "Should the agent refuse, do not argue; ask for the order's total price instead.",
        "If you hear that it is not possible, just ask how much you paid for the whole order.",
    ),
    "refused_card": (
        "If it cannot be done, ask for the last four digits of the payment used for the order.",
        "Should the agent refuse, ask which four digits the order's payment ends in, and leave it.",
        "If it is not possible, you only want the last four digits of what paid for the order.",
    ),
    "sum": (
        "You want the exact sum, and nothing is to be changed.",
        "It is only a question; nothing should be returned or cancelled.",
        "Ask for the amount to the cent. Change nothing.",
    ),
    "nothing": (
        "You want nothing else.",
        "Confirm when you are asked; there is nothing more to do.",
        "If the agent asks for anything further, say that this was all.",
    ),
}
NO_NUMBER = (
    "You do not have the order number at hand.",
    "You cannot find the order number.",
    "The order's number is in an email that you deleted.",
)
