"""Checks of records against a domain's tables, by pydantic models of the tables.

In: a domain. Out: the first fault of its records, or of those that a task changes.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    create_model,
)

from tutti.tasks.synthesis.domains.domain import Domain, FieldSpec, Kind, TableSpec

ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
Keys = Mapping[str, Collection[str]]
"""By table, the keys that its records have."""
Changed = Mapping[str, Mapping[str, Mapping[str, Any]]]


def _iso_date(text: str) -> str:
    if not ISO_DATE.fullmatch(text):
        raise ValueError("not an ISO 8601 date")
    date.fromisoformat(text[:10])
    datetime.fromisoformat(text)
    return text


TYPES: Mapping[str, Any] = {
    "text": StrictStr,
    "integer": StrictInt,
    "number": Annotated[float, Field(strict=True, allow_inf_nan=False)],
    "boolean": StrictBool,
    "date": Annotated[StrictStr, AfterValidator(_iso_date)],
    "texts": list[StrictStr],
}
ADAPTERS: dict[str, TypeAdapter[Any]] = {kind: TypeAdapter(TYPES[kind]) for kind in TYPES}


def is_of_kind(value: Any, kind: Kind) -> bool:
    """Whether a value is strictly of a kind: neither "7" nor 7.0 is an integer."""
    try:
        ADAPTERS[kind].validate_python(value)
    except ValidationError:
        return False
    return True


def record_model(table: TableSpec) -> type[BaseModel]:
    """Return the pydantic model of a table's records: every field required, no other allowed."""
    # A field may be named as a method of BaseModel is ("copy"): it stands under its alias only.
    fields: dict[str, Any] = {
        f"field_{each.name}": (_type(each), Field(alias=each.name)) for each in table.fields
    }
    config = ConfigDict(extra="forbid", strict=True)
    made: type[BaseModel] = create_model(f"{table.name}_record", __config__=config, **fields)
    return made


def _type(field: FieldSpec) -> Any:
    kind: Any = TYPES[field.kind]
    if field.one_of:
        choice: Any = Literal.__getitem__(field.one_of)
        kind = list.__class_getitem__(choice) if field.kind == "texts" else choice
    if field.least is not None or field.most is not None:
        kind = Annotated[kind, Field(ge=field.least, le=field.most)]
    return kind | None if field.optional else kind


class TableChecks:
    """The checks of one table's records, for the gates and for a teacher's answers."""

    def __init__(self, table: TableSpec) -> None:
        self.table = table
        self.model = record_model(table)
        self._adapter = TypeAdapter(self.model)

    def faults(
        self, record: Mapping[str, Any], keys: Keys, key: str | None = None
    ) -> Iterator[str]:
        """Yield the faults of a record, as ``field: fault``. `keys`: the keys of every table's
        records; `key`: its own, if known. If fields are wrong, references are not checked."""
        try:
            self._adapter.validate_python(record)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                where = ".".join(str(part) for part in each["loc"])
                missing = each["type"] == "missing"
                given = "" if missing else f", given {str(each['input'])[:60]!r}"
                yield f"{where}: {each['msg']}{given}"
            return
        own = record[self.table.key]
        if key is not None and str(own) != key:
            yield f"{self.table.key}: {own!r} is not its key"
        for field in self.table.fields:
            value = record[field.name]
            if field.refers_to and value is not None:
                held = map(str, value if isinstance(value, list) else [value])
                strays = (each for each in held if each not in keys[field.refers_to])
                yield from (f"{field.name}: {s!r} is no key of {field.refers_to}" for s in strays)


class RecordChecks:
    """The checks of one domain's records."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._tables = {each.name: each for each in domain.tables}
        self.fault = next(_table_faults(domain), "")
        """The first fault of the domain's own records; empty if there is none."""
        if self.fault:
            return
        self._checks = {each.name: TableChecks(each) for each in domain.tables}
        every = ((t, key, record) for t, rs in domain.records.items() for key, record in rs.items())
        self.fault = next(filter(None, (self._record_fault(*each) for each in every)), "")

    def changed_fault(self, changed: Changed) -> str:
        """The first fault of the records that a task changes, after its changes; else empty."""
        for table, keyed in changed.items():
            if table not in self._tables:
                return f"changed: there is no table {table!r}"
            for key, fields in keyed.items():
                record = self.domain.records.get(table, {}).get(key)
                if record is None:
                    return f"changed: {table} has no record {key!r}"
                if fault := self._record_fault(table, key, {**record, **fields}):
                    return f"changed: {fault}"
        return ""

    def _record_fault(self, table: str, key: str, record: Mapping[str, Any]) -> str:
        """The first fault of a record, as ``table/key.field: fault``; else an empty string."""
        fault = next(self._checks[table].faults(record, self.domain.records, key), "")
        return f"{table}/{key}.{fault}" if fault else ""


def _table_faults(domain: Domain) -> Iterator[str]:
    names = [each.name for each in domain.tables]
    yield from (f"table {name!r} is declared twice" for name in names if names.count(name) > 1)
    yield from (
        f"records of a table {n!r} that is not declared" for n in domain.records.keys() - names
    )
    yield from (f"table {name!r} has no records" for name in names if name not in domain.records)
    for table in domain.tables:
        fields = [each.name for each in table.fields]
        if table.key not in fields:
            yield f"{table.name}: its key {table.key!r} is none of its fields"
        yield from (f"{table.name}.{f} is declared twice" for f in fields if fields.count(f) > 1)
        for field in table.fields:
            if field.refers_to and field.refers_to not in names:
                yield f"{table.name}.{field.name} refers to a table {field.refers_to!r}: not there"
            if field.one_of and field.kind not in ("text", "texts"):
                yield f"{table.name}.{field.name}: one_of of a {field.kind}"
