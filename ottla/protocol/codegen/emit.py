"""Turns a parsed schema into the source of one module of protocol/messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from struct import calcsize

from ottla.protocol import primitives
from ottla.protocol.codegen.fields import annotation, default_text
from ottla.protocol.codegen.schema import FIXED, FOREVER, Field, Schema, Section, snake

_HEAD = '"""{name}: generated from protocol/schemas/{file}.schema by protocol.codegen; do not edit."""\n'
_OWN_NAMES = {"buf", "flex", "m", "pos", "put", "version"}


@dataclass(slots=True)
class MessageShape:
    """A struct to emit: its class name, its fields, and the section of the schema that has its versions."""

    name: str
    fields: list[Field]
    section: Section


class Emitter:
    """Generates the source text of one module."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.lines: list[str] = []
        self.formats: set[str] = set()
        self.shapes: dict[str, MessageShape] = {}

    def source(self) -> str:
        for section in self.schema.sections:
            for name, fields in section.structs.items():
                self._collect(MessageShape(name, fields, section))
            self._collect(MessageShape(section.name, section.fields, section))
        for shape in self.shapes.values():
            self._class(shape)
            self._reader(shape)
            self._writer(shape)
        for section in self.schema.sections:
            self._entry(section)
        body = "\n".join(self.lines) + "\n"
        return self._preamble(body) + body

    def _collect(self, shape: MessageShape) -> None:
        for item in shape.fields:
            if item.is_struct and item.children:
                self._collect(MessageShape(item.type, item.children, shape.section))
        known = self.shapes.get(shape.name)
        if known is not None and known.fields != shape.fields:
            prefix = "Response" if shape.section.name.endswith("Response") else "Request"
            self._rename(shape, prefix + shape.name)
        self.shapes.setdefault(shape.name, shape)

    @staticmethod
    def _rename(shape: MessageShape, name: str) -> None:
        def walk(fields: list[Field]) -> None:
            for item in fields:
                if item.type == shape.name:
                    item.type = name
                walk(item.children)

        walk(shape.section.fields)
        shape.name = name

    def _preamble(self, body: str) -> str:
        out = [_HEAD.format(name=self.schema.name, file=self.schema.module), "from __future__ import annotations\n"]
        from_struct = [n for n in ("pack", "unpack_from") if _mentions(body, n + "(")]
        from_struct += ["Struct as _Struct"] if self.formats else []
        if from_struct:
            out.append(f"from struct import {', '.join(from_struct)}\n")
        out.append("import msgspec\n")
        names = [
            n
            for n in vars(primitives)
            if not n.startswith("_") and n not in ("Struct", "Callable", "TypeAlias", "DecodeError", "annotations")
        ]
        used = sorted(n for n in names if _mentions(body, n))
        if "DecodeError" in body:
            out.append("from ottla.protocol.errors import DecodeError")
        out.append("from ottla.protocol.primitives import (\n" + "".join(f"    {n},\n" for n in used) + ")\n")
        for fmt in sorted(self.formats):
            out.append(f'_{_ident(fmt)} = _Struct(">{fmt}")')
        out.append("\n" + ("API_KEY" if self.schema.is_api else "RECORD_TYPE") + f" = {self.schema.key}")
        if not self.schema.is_api:
            low, high = self.schema.sections[0].low, self.schema.sections[0].high
            out.append(f"MIN_VERSION = {low}\nMAX_VERSION = {high}")
        out.append("\n")
        return "\n".join(out)

    # message classes

    def _class(self, shape: MessageShape) -> None:
        self.lines.append(f"class {shape.name}(msgspec.Struct, gc=False):")
        for item in shape.fields:
            self.lines.append(f"    {item.name}: {annotation(item)} = {default_text(item)}")
        if not shape.fields:
            self.lines.append("    pass")
        self.lines.append("\n")

    # helpers of readers and writers

    @staticmethod
    def _flex(section: Section) -> str | None:
        """The condition for a flexible version in the generated code: None for never, "" for always."""
        if section.flexible > section.high:
            return None
        return "" if section.flexible <= section.low else f"version >= {section.flexible}"

    @staticmethod
    def _guard(item: Field, section: Section) -> str:
        parts = []
        if item.low > section.low:
            parts.append(f"version >= {item.low}")
        if item.high < section.high and item.high != FOREVER:
            parts.append(f"version <= {item.high}")
        return " and ".join(parts)

    @staticmethod
    def _choose(flex: str | None, compact: str, plain: str) -> str:
        if flex is None:
            return plain
        return compact if flex == "" else f"({compact} if flex else {plain})"

    def _runs(self, shape: MessageShape) -> list[list[Field]]:
        """Return the untagged fields. Adjacent fields of fixed width with the same versions form one group."""
        runs: list[list[Field]] = []
        for item in shape.fields:
            if item.tag is not None:
                continue
            fixed = item.type in FIXED and not item.array
            last = runs[-1][-1] if runs else None
            if (
                fixed
                and last is not None
                and last.type in FIXED
                and not last.array
                and (last.low, last.high) == (item.low, item.high)
            ):
                runs[-1].append(item)
            else:
                runs.append([item])
        return runs

    # functions that read messages

    def _reader(self, shape: MessageShape) -> None:
        section, flex = shape.section, self._flex(shape.section)
        out = self.lines
        out.append(f"def _read_{snake(shape.name)}(buf: Buffer, pos: int, version: int) -> tuple[{shape.name}, int]:")
        if flex:
            out.append(f"    flex = {flex}")
        for run in self._runs(shape):
            guard = self._guard(run[0], section)
            indent = "    "
            if guard:
                for item in run:
                    out.append(f"    {_local(item)}: {annotation(item)} = {self._value_default(item)}")
                out.append(f"    if {guard}:")
                indent = "        "
            if run[0].type in FIXED and not run[0].array:
                self._read_fixed(run, indent)
            else:
                self._read_one(run[0], flex, indent, annotate=not guard)
        self._read_tags(shape, flex)
        args = ", ".join(_local(item) for item in shape.fields)
        out.append(f"    return {shape.name}({args}), pos\n\n")

    def _value_default(self, item: Field) -> str:
        text = default_text(item)
        return f"{item.type}()" if text.startswith("msgspec.field") else text

    def _read_fixed(self, run: list[Field], indent: str) -> None:
        fmt = "".join(FIXED[i.type] for i in run)
        self.formats.add(fmt)
        names = ", ".join(_local(i) for i in run)
        comma = "," if len(run) == 1 else ""
        left = f"({names}{comma})" if comma else names
        self.lines.append(f"{indent}{left} = _{_ident(fmt)}.unpack_from(buf, pos)")
        self.lines.append(f"{indent}pos += {calcsize('>' + fmt)}")

    def _read_one(self, item: Field, flex: str | None, indent: str, *, annotate: bool) -> None:
        out = self.lines
        note = f": {annotation(item)}" if annotate else ""
        nullable = "nullable_" if item.nullable else ""
        if item.array:
            fn = self._choose(flex, f"read_compact_{nullable}length", f"read_{nullable}length")
            out.append(f"{indent}_count, pos = {fn}(buf, pos)")
            if item.nullable:
                if annotate:
                    out.append(f"{indent}{_local(item)}{note} = None")
                else:
                    out.append(f"{indent}{_local(item)} = None")
                out.append(f"{indent}if _count >= 0:")
                indent, note = indent + "    ", ""
            self._read_array(item, flex, indent, note)
        elif item.is_struct:
            if item.nullable:
                out.append(f"{indent}{_local(item)}{note} = None")
                out.append(f"{indent}_present = buf[pos]")
                out.append(f"{indent}pos += 1")
                out.append(f"{indent}if _present == 1:")
                out.append(f"{indent}    {_local(item)}, pos = _read_{snake(item.type)}(buf, pos, version)")
            else:
                out.append(f"{indent}{_local(item)}, pos = _read_{snake(item.type)}(buf, pos, version)")
        else:
            # A ``records`` field that is not nullable is read as bytes, because `read_bytes` rejects null.
            kind = "bytes" if item.type == "records" and not item.nullable else item.type
            nullable = "nullable_" if item.nullable and kind != "records" else ""
            fn = self._choose(flex, f"read_compact_{nullable}{kind}", f"read_{nullable}{kind}")
            out.append(f"{indent}{_local(item)}, pos = {fn}(buf, pos)")

    def _read_array(self, item: Field, flex: str | None, indent: str, note: str) -> None:
        out = self.lines
        if item.type in FIXED:
            fmt = FIXED[item.type]
            if item.type == "uuid":
                each = "bytes(buf[_at : _at + 16]) for _at in range(pos, pos + 16 * _count, 16)"
                out.append(f"{indent}{_local(item)}{note} = [{each}]")
                out.append(f"{indent}pos += 16 * _count")
                return
            out.append(f'{indent}{_local(item)}{note} = list(unpack_from(f">{{_count}}{fmt}", buf, pos))')
            out.append(f"{indent}pos += {calcsize('>' + fmt)} * _count")
            return
        out.append(f"{indent}{_local(item)}{note} = []")
        out.append(f"{indent}for _ in range(_count):")
        variable = f"_{item.name}_item"
        if item.is_struct:
            out.append(f"{indent}    {variable}, pos = _read_{snake(item.type)}(buf, pos, version)")
        else:
            fn = self._choose(flex, f"read_compact_{item.type}", f"read_{item.type}")
            out.append(f"{indent}    {variable}, pos = {fn}(buf, pos)")
        out.append(f"{indent}    {_local(item)}.append({variable})")

    def _read_tags(self, shape: MessageShape, flex: str | None) -> None:
        if flex is None:
            return
        out, indent = self.lines, "    "
        tagged = [i for i in shape.fields if i.tag is not None]
        for item in tagged:
            out.append(f"    {_local(item)}: {annotation(item)} = {self._value_default(item)}")
        if flex:
            out.append("    if flex:")
            indent = "        "
        if not tagged:
            out.append(f"{indent}if buf[pos]:")
            out.append(f"{indent}    pos = skip_tags(buf, pos)")
            out.append(f"{indent}else:")
            out.append(f"{indent}    pos += 1")
            return
        out.append(f"{indent}_tags, pos = read_tag_count(buf, pos)")
        out.append(f"{indent}for _ in range(_tags):")
        out.append(f"{indent}    _tag, _at, _end = read_tag(buf, pos)")
        out.append(f"{indent}    pos = _at")
        word = "if"
        for item in tagged:
            out.append(f"{indent}    {word} _tag == {item.tag}:")
            if item.type in FIXED and not item.array:
                self._read_fixed([item], indent + "        ")
            else:
                # A tagged struct is written without the presence byte unless it is nullable.
                self._read_one(item, "", indent + "        ", annotate=False)
            word = "elif"
        out.append(f"{indent}    else:")
        out.append(f"{indent}        pos = _end")
        out.append(f"{indent}    if pos != _end:")
        out.append(f'{indent}        raise DecodeError("a tagged field of another size than declared")')

    # functions that write messages

    def _writer(self, shape: MessageShape) -> None:
        section, flex = shape.section, self._flex(shape.section)
        out = self.lines
        out.append(f"def _write_{snake(shape.name)}(put: Put, m: {shape.name}, version: int) -> None:")
        if flex:
            out.append(f"    flex = {flex}")
        for run in self._runs(shape):
            guard = self._guard(run[0], section)
            indent = "    "
            if guard:
                out.append(f"    if {guard}:")
                indent = "        "
            if run[0].type in FIXED and not run[0].array:
                self._write_fixed(run, indent)
            else:
                self._write_one(run[0], flex, indent)
        self._write_tags(shape, flex)
        if not self._runs(shape) and flex is None:
            out.append("    pass")
        out.append("\n")

    def _write_fixed(self, run: list[Field], indent: str) -> None:
        fmt = "".join(FIXED[i.type] for i in run)
        self.formats.add(fmt)
        self.lines.append(f"{indent}put(_{_ident(fmt)}.pack({', '.join('m.' + i.name for i in run)}))")

    def _write_one(self, item: Field, flex: str | None, indent: str, put: str = "put") -> None:
        out = self.lines
        value = f"m.{item.name}"
        if item.array:
            if item.nullable:
                null = {None: 'b"\\xff\\xff\\xff\\xff"', "": 'b"\\0"'}.get(flex, 'b"\\0" if flex else b"\\xff\\xff\\xff\\xff"')
                out.append(f"{indent}if {value} is None:")
                out.append(f"{indent}    {put}({null})")
                out.append(f"{indent}else:")
                indent += "    "
            count = {None: f"length(len({value}))", "": f"uvarint(len({value}) + 1)"}.get(
                flex, f"uvarint(len({value}) + 1) if flex else length(len({value}))"
            )
            out.append(f"{indent}{put}({count})")
            if item.type in FIXED and item.type != "uuid":
                out.append(f'{indent}{put}(pack(f">{{len({value})}}{FIXED[item.type]}", *{value}))')
                return
            out.append(f"{indent}for item_{item.name} in {value}:")
            if item.is_struct:
                out.append(f"{indent}    _write_{snake(item.type)}({put}, item_{item.name}, version)")
            elif item.type == "uuid":
                out.append(f"{indent}    {put}(item_{item.name})")
            else:
                out.append(f"{indent}    {put}({self._choose(flex, 'compact_string', 'string')}(item_{item.name}))")
        elif item.is_struct:
            if item.nullable:
                out.append(f"{indent}if {value} is None:")
                out.append(f'{indent}    {put}(b"\\xff")')
                out.append(f"{indent}else:")
                out.append(f'{indent}    {put}(b"\\x01")')
                indent += "    "
            out.append(f"{indent}_write_{snake(item.type)}({put}, {value}, version)")
        elif item.type == "string":
            out.append(f"{indent}{put}({self._choose(flex, 'compact_string', 'string')}({value}))")
        else:
            out.append(f"{indent}{put}({self._choose(flex, 'compact_bytes_length', 'bytes_length')}({value}))")
            if item.nullable:
                out.append(f"{indent}if {value} is not None:")
                indent += "    "
            out.append(f"{indent}{put}({value})")

    def _write_tags(self, shape: MessageShape, flex: str | None) -> None:
        if flex is None:
            return
        out, indent = self.lines, "    "
        if flex:
            out.append("    if flex:")
            indent = "        "
        tagged = sorted((i for i in shape.fields if i.tag is not None), key=lambda i: i.tag or 0)
        if not tagged:
            out.append(f'{indent}put(b"\\0")')
            return
        out.append(f"{indent}_tags: list[Buffer] = []")
        if not all(item.type in FIXED and not item.array for item in tagged):
            out.append(f"{indent}_parts: list[Buffer]")
        for item in tagged:
            default = default_text(item)
            test = (
                f"m.{item.name} is not None"
                if default == "None"
                else f"(m.{item.name} is None or m.{item.name})"
                if default == "[]" and item.nullable
                else f"m.{item.name}"
                if default in ("[]", '""', "False")
                else f"m.{item.name} != {default}"
            )
            guard = self._guard(item, shape.section)
            if shape.section.flexible >= item.low:
                guard = "" if item.high >= shape.section.high else guard
            out.append(f"{indent}if {guard + ' and ' if guard else ''}{test}:")
            if item.type in FIXED and not item.array:
                # Tag, size and value are packed at once. A tag below 128 and the size of a fixed-width field take one byte each.
                assert item.tag is not None and item.tag < 128, item.name
                fmt = FIXED[item.type]
                self.formats.add(f"BB{fmt}")
                size = calcsize(f">{fmt}")
                out.append(f"{indent}    _tags.append(_{_ident(f'BB{fmt}')}.pack({item.tag}, {size}, m.{item.name}))")
                continue
            out.append(f"{indent}    _parts = []")
            self._write_one(item, "", indent + "    ", "_parts.append")
            out.append(f"{indent}    _tags.append(tagged_field({item.tag}, _parts))")
        out.append(f"{indent}put_tags(put, _tags)")

    def _entry(self, section: Section) -> None:
        if not self.schema.is_api:
            read, write = "decode", "encode"
        else:
            word = "request" if section.name.endswith("Request") else "response"
            read, write = f"decode_{word}", f"encode_{word}"
        name = snake(section.name)
        self.lines.append(f"{read} = _read_{name}")
        self.lines.append(f"{write} = _write_{name}")


def _local(item: Field) -> str:
    """The variable into which a reader reads a field: the field's name, unless the generated code uses that name itself."""
    return f"{item.name}_" if item.name in _OWN_NAMES else item.name


def _ident(fmt: str) -> str:
    return "fmt_" + fmt.replace("?", "B_").replace("16s", "U_")


def _mentions(body: str, name: str) -> bool:
    return re.search(rf"(?<![.\w]){re.escape(name)}" + ("" if name.endswith("(") else r"\b"), body) is not None
