"""Ways to damage a file: its bytes, the values of its JSON, the cells and settings of its lines."""

import json
import struct
import zlib
from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any

BYTES = (0, 1, 9, 10, 13, 32, 34, 44, 45, 58, 63, 91, 123, 127, 128, 192, 237, 254, 255)
NUMBERS = (0, 1, 7, 8, 255, 65_535, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**64 - 1)


def bytes_changed(random: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """A few of: bits flipped, bytes and numbers set, cut, removed, repeated, taken from others."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        at = random.randrange(len(changed) + 1)
        to = min(len(changed), at + random.choice((1, 2, 4, 8, 16, 100, 1000)))
        match random.randrange(9):
            case 0 if at < len(changed):
                changed[at] ^= 1 << random.randrange(8)
            case 1 if at < len(changed):
                changed[at] = random.choice(BYTES)
            case 2:
                size, order = random.choice((2, 4, 8)), random.choice(("little", "big"))
                number = random.choice(NUMBERS) % 2 ** (8 * size)
                changed[at : at + size] = number.to_bytes(size, order)
            case 3 if random.random() < 0.3:
                del changed[at:]
            case 4:
                del changed[at:to]
            case 5:
                changed[at:at] = changed[at:to] * random.choice((1, 1, 2, 50))
            case 6:
                changed[at:at] = random.randbytes(to - at)
            case 7 if others:
                other = random.choice(others)
                start = random.randrange(len(other) + 1)
                changed[at:to] = other[start : start + random.choice((1, 8, 100, 10_000))]
            case _:
                digits = [i for i, byte in enumerate(changed) if 48 <= byte <= 57]
                if digits:
                    changed[random.choice(digits)] = random.randrange(48, 58)
    return bytes(changed)


def png_changed(random: Random, data: bytes) -> bytes:
    """A chunk of a PNG changed, left out or repeated, with its checksum made right again."""
    chunks, at = [], 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    for _ in range(random.choice((1, 1, 2))):
        number = random.randrange(len(chunks))
        kind, content = chunks[number]
        match random.randrange(5):
            case 0:
                del chunks[number]
                chunks = chunks or [(kind, content)]
            case 1:
                chunks.insert(number, random.choice(chunks))
            case 2:
                kind = random.choice((b"PLTE", b"tRNS", b"IDAT", b"iCCP", b"zTXt", b"acTL", kind))
                chunks[number] = kind, content
            case _:
                try:
                    pixels = zlib.decompress(content) if random.random() < 0.5 else b""
                except zlib.error:  # no pixels, or damaged ones
                    pixels = b""
                if pixels:
                    content = zlib.compress(bytes_changed(random, pixels))
                else:
                    content = bytes_changed(random, content)
                chunks[number] = kind, content
    parts = (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
    return data[:8] + b"".join(parts)


def npy_changed(random: Random, data: bytes, odd: Sequence[str]) -> bytes:
    """The header of a .npy file changed, and its length made right again."""
    (length,) = struct.unpack("<H", data[8:10])
    header = data[10 : 10 + length].decode("latin-1")
    changed = lines_changed(random, header, odd, " ,:'(")[:65_000]
    return data[:8] + struct.pack("<H", len(changed)) + changed + data[10 + length :]


RAW_JSON = (
    "NaN",
    "-Infinity",
    "1e999",
    "-1e-999",
    "1" * 400,
    "1" * 5000,
    "-" + "9" * 30,
    "0.1e1",
    r'"\ud800"',
    r'"\udfff\u0000"',
    '"' + "x" * 100_000 + '"',
    "[" * 200 + "]" * 200,
    "[" * 100_000,
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 3000 + "1" + "}" * 3000,
    "[" + "0," * 50_000 + "0]",
    "'",
    "",
)
PLAIN = (None, True, False, 0, 1, -1, 2, 0.5, 1.0, 2**31, 2**63, -(2**70), "", "0", "é", "\0", [])
PLAIN = (*PLAIN, {}, [[]], [{}], {"": ""}, [0, 1], ["a", "b"], {"type": "BPE"}, {"id": 0})


def json_changed(random: Random, said: Any, others: Sequence[Any] = ()) -> bytes:
    """A few values replaced, exchanged, removed or repeated, some of them by what no JSON says."""
    said = json.loads(json.dumps(said))
    raw: dict[str, str] = {}
    for number in range(random.choice((1, 1, 1, 2, 3))):
        holder, key = _place(random, said)
        if holder is None:
            return json.dumps(random.choice(PLAIN)).encode()
        match random.randrange(8):
            case 0 | 1 | 2:
                holder[key] = deepcopy(random.choice(PLAIN))
            case 3:
                mark = f"@@raw {number}@@"
                raw[json.dumps(mark)] = random.choice(RAW_JSON)
                holder[key] = mark
            case 4:
                del holder[key]
            case 5 if isinstance(holder, dict):
                mark = f"@@again {number}@@"
                raw[json.dumps(mark)] = json.dumps(random.choice(list(holder)))
                holder[mark] = deepcopy(random.choice((holder[key], *PLAIN)))
            case 6 if isinstance(holder[key], int | float):
                holder[key] = random.choice((-1, 10, 1000)) * holder[key] + random.choice((-1, 1))
            case _:
                other, place = _place(random, random.choice([said, *others]))
                if other is not None:  # a copy, since a value within itself is no JSON
                    holder[key] = json.loads(json.dumps(other[place]))
    text = json.dumps(said, ensure_ascii=random.random() < 0.5)
    for mark, instead in raw.items():
        text = text.replace(mark, instead)
    data = text.encode("utf-8", "surrogatepass")
    return bytes_changed(random, data) if random.random() < 0.1 else data


def _place(random: Random, said: Any) -> tuple[Any, Any]:
    """Somewhere in a value: what holds it, and its key there; the deeper the rarer."""
    holder, key, here = None, None, said
    while isinstance(here, dict | list) and here and (holder is None or random.random() < 0.7):
        holder, key = (
            here,
            random.choice(list(here) if isinstance(here, dict) else range(len(here))),
        )
        here = holder[key]
    return holder, key


CELLS = ("", " ", "?", "nan", "-inf", "1e400", "1e-400", "9" * 5000, "0x10", "1_000", "٣", "²", "½")
CELLS = (*CELLS, '"', '""', '"a', "'", "\0", "\ufeff", "\u2028", "\r", "true", "a" * 200_000, "1,2")
CELLS = (*CELLS, ":", "::::", "," * 10_000, "#", "@data", "@classLabel true a", "-", "+1", "1e5")
SETTINGS = ("0", "-1", "1.5", "inf", "nan", "-nan", "1e400", "9" * 5000, "true", '""', '"x"', "[]")
SETTINGS = (*SETTINGS, "{}", "[[]]", '"\\u0000"', '"\\ud800"', "1979-05-27", "07:32:00", "{a = 1}")
SETTINGS = (*SETTINGS, "[" * 5000, "[" * 5000 + "]" * 5000, "{a=" * 500 + "1" + "}" * 500, "0x10")
SETTINGS = (*SETTINGS, '"' + "x" * 100_000 + '"', "'''", "1_000", "0b1", "[1, 'a']", "a.b", '"é"')


def lines_changed(
    random: Random, text: str, odd: Sequence[str] = CELLS, separators: str = ",:\n"
) -> bytes:
    """A few cells replaced, lines removed, repeated, exchanged."""
    lines = text.split("\n")
    for _ in range(random.choice((1, 1, 2, 3))):
        at, other = random.randrange(len(lines)), random.randrange(len(lines))
        match random.randrange(7):
            case 0:
                del lines[at]
                lines = lines or [""]
            case 1:
                lines[at:at] = [lines[at]] * random.choice((1, 1, 100))
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines.insert(at, random.choice(odd))
            case _:
                separator = random.choice(separators)
                cells = lines[at].split(separator)
                cells[random.randrange(len(cells))] = random.choice(odd)
                lines[at] = separator.join(cells)
    ends = random.choice(("\n", "\n", "\n", "\r\n", "\r"))
    data = ends.join(lines).encode("utf-8", "surrogatepass")
    return bytes_changed(random, data) if random.random() < 0.2 else data
