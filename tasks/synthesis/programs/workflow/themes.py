"""The desks that a workflow is drawn for: what each may ask, check and do."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """Something only the user knows."""

    tool: str
    topic: str
    said: str
    """How the user says it, with ``{}`` for the value."""
    values: tuple[str, str, str]


@dataclass(frozen=True)
class Check:
    """Something that the database knows of a case: one of three values, or a number."""

    tool: str
    field: str
    values: tuple[str, ...] = ()
    least: int = 0
    most: int = 0


@dataclass(frozen=True)
class Act:
    """Something that is done to a case."""

    tool: str
    words: str
    code: str
    """The first letters of the slip's number."""


@dataclass(frozen=True)
class Theme:
    """A desk."""

    name: str
    about: str
    case: str
    """What a case is called."""
    reasons: tuple[str, ...]
    """Why the user calls, with ``{}`` for the case's number."""
    questions: tuple[Question, ...]
    checks: tuple[Check, ...]
    between: tuple[Act, ...]
    """What may be done on the way."""
    closing: tuple[Act, ...]
    """What closes a case."""


VISA = Theme(
    "visa_desk",
    "Policy of the visa desk",
    "application",
    (
        "You want your visa application {} decided.",
        "You call about your application {} and want to know where you stand.",
        "Your trip is near and application {} is still open; you want it settled today.",
    ),
    (
        Question("note_purpose", "purpose", "You travel for {}.", ("study", "work", "family")),
        Question(
            "note_stay", "stay", "Your stay is {}.", ("a fortnight", "one season", "a full year")
        ),
        Question(
            "note_lodging", "lodging", "You will live in {}.", ("a hotel", "a hostel", "a flat")
        ),
        Question(
            "note_payer", "payer", "The trip is paid by {}.", ("yourself", "a sponsor", "a school")
        ),
    ),
    (
        Check("check_passport", "passport", ("valid", "expiring", "damaged")),
        Check("check_record", "record", ("clean", "fined", "overstayed")),
        Check("check_photo", "photo", ("accepted", "blurred", "absent")),
        Check("check_funds", "funds", (), 200, 9000),
        Check("check_visits", "visits", (), 0, 12),
    ),
    (
        Act("request_photo", "request a new photo", "PH"),
        Act("book_interview", "book an interview", "IN"),
        Act("take_deposit", "take a deposit", "DE"),
    ),
    (
        Act("grant_visa", "grant the visa", "GR"),
        Act("refuse_visa", "refuse the visa", "RF"),
        Act("refer_to_consul", "refer the application to the consul", "CO"),
        Act("grant_short_visa", "grant a short visa", "SH"),
    ),
)
PARCEL = Theme(
    "parcel_claims",
    "Policy of the parcel claims desk",
    "claim",
    (
        "Your parcel arrived in a bad state and you want claim {} settled.",
        "You ask what becomes of your parcel claim {}.",
        "You have waited long enough and want a decision on claim {}.",
    ),
    (
        Question("note_contents", "contents", "It held {}.", ("glassware", "clothing", "papers")),
        Question(
            "note_wrapping", "wrapping", "The wrapping is {}.", ("kept", "thrown away", "torn")
        ),
        Question(
            "note_witness",
            "witness",
            "It was opened before {}.",
            ("the courier", "a neighbour", "nobody"),
        ),
        Question(
            "note_wish", "wish", "You would like {}.", ("money", "another parcel", "a voucher")
        ),
    ),
    (
        Check("check_scan", "scan", ("delivered", "returned", "missing")),
        Check("check_insurance", "insurance", ("full", "basic", "lapsed")),
        Check("check_seal", "seal", ("intact", "broken", "replaced")),
        Check("check_value", "value", (), 10, 900),
        Check("check_delay", "delay_days", (), 0, 40),
    ),
    (
        Act("order_inspection", "order an inspection", "NS"),
        Act("ask_depot", "send a search order to the depot", "DP"),
        Act("lock_label", "lock the label", "LB"),
    ),
    (
        Act("pay_claim", "pay the claim", "PY"),
        Act("reject_claim", "reject the claim", "RJ"),
        Act("send_replacement", "send a replacement", "RP"),
        Act("pay_half", "pay half of the claim", "HF"),
    ),
)
REPAIR = Theme(
    "device_repair",
    "Policy of the device repair desk",
    "repair",
    (
        "Your device is broken and repair {} should be decided.",
        "You want to know what is done with your device, repair {}.",
        "You brought a device in last week; it is repair {}, and you want it finished.",
    ),
    (
        Question("note_fault", "fault", "It shows {}.", ("no picture", "no sound", "a crack")),
        Question(
            "note_cause",
            "cause",
            "It happened after {}.",
            ("a fall", "a thunderstorm", "an update"),
        ),
        Question(
            "note_backup",
            "backup",
            "Your data are {}.",
            ("saved elsewhere", "on it only", "worthless"),
        ),
        Question("note_haste", "haste", "You need it {}.", ("tomorrow", "next week", "some day")),
    ),
    (
        Check("check_warranty", "warranty", ("running", "ended", "void")),
        Check("check_parts", "parts", ("in store", "on order", "discontinued")),
        Check("check_battery", "battery", ("healthy", "weak", "swollen")),
        Check("check_age", "age_months", (), 1, 90),
        Check("check_earlier", "earlier_repairs", (), 0, 9),
    ),
    (
        Act("save_data", "save the data", "SD"),
        Act("reserve_part", "reserve a part", "RS"),
        Act("lend_device", "lend a device", "LN"),
    ),
    (
        Act("repair_free", "repair it free of charge", "FR"),
        Act("repair_paid", "repair it at the list price", "LP"),
        Act("exchange_device", "exchange the device", "EX"),
        Act("return_unrepaired", "return it unrepaired", "UN"),
    ),
)
THEMES = (VISA, PARCEL, REPAIR)
