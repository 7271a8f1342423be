"""What the shop declares: its tables, tools and rules. Its code is `toolkit.py`, read as text."""

from collections.abc import Mapping

from tutti.tasks.synthesis.domains import FieldSpec, Parameter, Rule, TableSpec, ToolSpec

STATUSES = ("pending", "shipped", "delivered", "cancelled")
REASONS = ("no longer needed", "ordered by mistake")


def _text(name: str, refers_to: str = "", about: str = "", optional: bool = False) -> FieldSpec:
    return FieldSpec(name=name, kind="text", refers_to=refers_to, about=about, optional=optional)


ADDRESS = (_text("street"), _text("city"), _text("zip"))
TABLES = (
    TableSpec(
        name="shop",
        key="name",
        about="the shop's day and terms; one record",
        fields=(
            _text("name"),
            FieldSpec(name="today", kind="date"),
            FieldSpec(name="return_days", kind="integer", least=1),
        ),
    ),
    TableSpec(
        name="customers",
        key="customer_id",
        fields=(
            *(_text("customer_id"), _text("first_name"), _text("last_name"), _text("email")),
            *ADDRESS,
            FieldSpec(name="orders", kind="texts", refers_to="orders"),
            FieldSpec(name="payments", kind="texts", refers_to="payments"),
        ),
    ),
    TableSpec(
        name="products",
        key="product_id",
        fields=(
            *(_text("product_id"), _text("name"), _text("category")),
            FieldSpec(name="variants", kind="texts", refers_to="variants"),
        ),
    ),
    TableSpec(
        name="variants",
        key="variant_id",
        fields=(
            *(_text("variant_id"), _text("product", "products")),
            _text("options", about="colour and size"),
            FieldSpec(name="price", kind="number", least=0),
            FieldSpec(name="stock", kind="integer", least=0),
        ),
    ),
    TableSpec(
        name="orders",
        key="order_id",
        fields=(
            *(_text("order_id"), _text("customer", "customers")),
            FieldSpec(name="status", kind="text", one_of=STATUSES),
            FieldSpec(name="placed", kind="date"),
            FieldSpec(name="delivered", kind="date", optional=True),
            *ADDRESS,
            FieldSpec(name="items", kind="texts", refers_to="variants"),
            FieldSpec(name="returned", kind="texts", refers_to="variants"),
            _text("payment", "payments"),
            FieldSpec(name="cancel_reason", kind="text", one_of=REASONS, optional=True),
        ),
    ),
    TableSpec(
        name="payments",
        key="payment_id",
        fields=(
            *(_text("payment_id"), _text("customer", "customers")),
            FieldSpec(name="kind", kind="text", one_of=("card", "wallet", "gift_card")),
            _text("last_four", about="of its number"),
            FieldSpec(
                name="balance", kind="number", least=0, optional=True, about="of a gift card"
            ),
        ),
    ),
    TableSpec(
        name="settlements",
        key="settlement_id",
        about="what was charged or refunded after an order was placed",
        fields=(
            *(_text("settlement_id"), _text("order", "orders"), _text("payment", "payments")),
            FieldSpec(name="kind", kind="text", one_of=("charge", "refund")),
            FieldSpec(name="amount", kind="number", least=0),
        ),
    ),
)

CUSTOMER = tuple(each.name for each in TABLES[1].fields)
ORDER = tuple(each.name for each in TABLES[4].fields)
PARAMETERS: Mapping[str, Parameter] = {
    each.name: each
    for each in (
        Parameter(name="first_name", kind="text", about="the customer's first name"),
        Parameter(name="last_name", kind="text", about="the customer's last name"),
        Parameter(name="zip_code", kind="text", about="five digits"),
        Parameter(name="email", kind="text", about="the customer's email address"),
        Parameter(name="customer_id", kind="text", about="as CU-12345"),
        Parameter(name="order_id", kind="text", about="as OR-12345"),
        Parameter(name="product_id", kind="text", about="as PR-12345"),
        Parameter(name="payment_id", kind="text", about="as PA-12345"),
        Parameter(name="variant_ids", kind="texts", about="the variants of the items, as VA-12345"),
        Parameter(name="old_variant_id", kind="text", about="the variant in the order"),
        Parameter(name="new_variant_id", kind="text", about="the variant wanted instead"),
        Parameter(name="words", kind="text", about="part of a product's name"),
        Parameter(name="street", kind="text", about="house number and street"),
        Parameter(name="city", kind="text", about="the city"),
        Parameter(name="reason", kind="text", about=f"'{REASONS[0]}' or '{REASONS[1]}'"),
        Parameter(name="expression", kind="text", about="numbers with + - * / and brackets"),
        Parameter(name="summary", kind="text", about="what the customer wants"),
    )
}


def _tool(
    name: str, kind: str, about: str, takes: str, returns: tuple[str, ...] = (), changes: str = ""
) -> ToolSpec:
    return ToolSpec.model_validate(
        {
            "name": name,
            "kind": kind,
            "about": about,
            "parameters": tuple(PARAMETERS[each] for each in takes.split()),
            "changes": tuple(changes.split()),
            "returns": returns,
        }
    )


TOOLS = (
    _tool(
        "find_customer_by_name",
        "READ",
        "Find a customer by full name and zip code.",
        "first_name last_name zip_code",
        CUSTOMER,
    ),
    _tool("find_customer_by_email", "READ", "Find a customer by email.", "email", CUSTOMER),
    _tool("get_customer", "READ", "Look up a customer by id.", "customer_id", CUSTOMER),
    _tool(
        "get_order",
        "READ",
        "Look up an order, with a line for each item: variant, product, options, price.",
        "order_id",
        (*ORDER, "lines"),
    ),
    _tool(
        "get_product",
        "READ",
        "Look up a product and its variants with price and stock.",
        "product_id",
        ("product_id", "name", "category", "variants"),
    ),
    _tool("find_products", "READ", "List the products whose name has the words.", "words"),
    _tool(
        "get_payment",
        "READ",
        "Look up a means of payment: card, wallet or gift card with its balance.",
        "payment_id",
        ("payment_id", "customer", "kind", "last_four", "balance"),
    ),
    _tool(
        "cancel_order",
        "WRITE",
        "Cancel an order; it is refunded to the payment it was paid with.",
        "order_id reason",
        ("order_id", "status", "refund"),
        "orders.status orders.cancel_reason payments.balance settlements",
    ),
    _tool(
        "change_order_address",
        "WRITE",
        "Send an order to another address.",
        "order_id street city zip_code",
        ORDER,
        "orders.street orders.city orders.zip",
    ),
    _tool(
        "change_customer_address",
        "WRITE",
        "Change the address in a customer's profile; orders keep theirs.",
        "customer_id street city zip_code",
        CUSTOMER,
        "customers.street customers.city customers.zip",
    ),
    _tool(
        "return_items",
        "WRITE",
        "Take back items of a delivered order and refund them to a means of payment.",
        "order_id variant_ids payment_id",
        ("order_id", "returned", "refund"),
        "orders.returned payments.balance settlements",
    ),
    _tool(
        "exchange_item",
        "WRITE",
        "Exchange an item of a delivered order; the price difference is charged or refunded.",
        "order_id old_variant_id new_variant_id payment_id",
        ("order_id", "items", "difference"),
        "orders.items variants.stock payments.balance settlements",
    ),
    _tool("calculate", "GENERIC", "Compute an arithmetic expression.", "expression"),
    _tool("hand_over", "GENERIC", "Give the conversation to a human colleague.", "summary"),
)


def rules(today: str, return_days: int) -> tuple[Rule, ...]:
    """The policy of a shop with its day and its days for returns."""
    days = f"{return_days} days"
    told = (
        ("today", f"Today is {today}.", None),
        (
            "identify",
            "First find the customer, by full name and zip code or by email; serve only them.",
            None,
        ),
        ("cancel_pending", "Cancel only pending orders.", "only_pending_cancelled"),
        ("cancel_reason", f"Cancel only as {listed_reasons()}.", "only_known_reasons"),
        (
            "redirect_pending",
            "Change the address only of pending orders.",
            "only_pending_redirected",
        ),
        (
            "return_window",
            f"Return or exchange items only of delivered orders, within {days} of delivery.",
            "only_in_window",
        ),
        ("return_once", "Take an item back only once.", "only_once"),
        (
            "same_product",
            "Exchange an item only for another variant of the same product.",
            "only_same_product",
        ),
        ("in_stock", "Exchange only for a variant that is in stock.", "only_in_stock"),
        (
            "original_payment",
            "Refund and charge only the order's own payment or a gift card of its customer.",
            "only_original_payment",
        ),
        ("covered", "A gift card pays no more than its balance.", "only_covered"),
        ("refuse", "Refuse what these rules forbid, and say why.", None),
    )
    return tuple(Rule(id=name, text=text, function=function) for name, text, function in told)


def listed_reasons() -> str:
    """The reasons for which an order may be cancelled, for a sentence."""
    return " or ".join(f"'{reason}'" for reason in REASONS)
