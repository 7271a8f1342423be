"""Whether records are what a domain's tables say: pydantic models made from the tables.

In: a domain. Out: the first fault of its records, or of those that a task changes.
"""

import re
from collections.abc import Iterator, Mapping
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
    """Whether a value is of a kind: strictly, so that "7" is no integer and 7.0 neither."""
    try:
        ADAPTERS[kind].validate_python(value)
    except ValidationError:
        return False
    return True


def record_model(table: TableSpec) -> type[BaseModel]:
    """The pydantic model of a table's records: every field required, no other allowed."""
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


class RecordChecks:
    """The checks of one domain's records; they hold the models, and the verdict on all records."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._tables = {each.name: each for each in domain.tables}
        self.fault = next(_table_faults(domain), "")
        """The first fault of the domain's own records; empty if there is none."""
        if self.fault:
            return
        self._models = {each.name: TypeAdapter(record_model(each)) for each in domain.tables}
        faults = (
            fault
            for table, records in domain.records.items()
            for key, record in records.items()
            if (fault := self._record_fault(table, key, record))
        )
        self.fault = next(faults, "")

    def changed_fault(self, changed: Changed) -> str:
        """The first fault of the records that a task changes, with its changes; else empty."""
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
        """What is wrong with one record, as ``table/key.field: what``; else empty."""
        try:
            self._models[table].validate_python(record)
        except ValidationError as error:
            one = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in one["loc"])
            given = "" if one["type"] == "missing" else f", given {str(one['input'])[:60]!r}"
            return f"{table}/{key}.{where}: {one['msg']}{given}"
        spec = self._tables[table]
        if str(record[spec.key]) != key:
            return f"{table}/{key}.{spec.key}: {record[spec.key]!r} is not its key"
        for field in spec.fields:
            if field.refers_to and (stray := self._stray(field, record[field.name])):
                return f"{table}/{key}.{field.name}: {stray!r} is no key of {field.refers_to}"
        return ""

    def _stray(self, field: FieldSpec, value: Any) -> str:
        keys = self.domain.records[field.refers_to]
        held = value if isinstance(value, list) else [] if value is None else [value]
        return next((str(each) for each in held if str(each) not in keys), "")


def _table_faults(domain: Domain) -> Iterator[str]:
    """What is wrong with the tables themselves."""
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
