"""Other encodings as UTF-8: the same whatever stands beside a character and wherever the file is cut."""

from random import Random

import pytest

from sfumato.kernel.reading.formats.files import TextFile
from sfumato.schema.dialect import ENCODINGS


def read(path, encoding: str, size: int) -> bytes:
    found = b""
    with TextFile(path, encoding).opened() as file:
        while part := file.read(size):
            found += part
    return found


@pytest.mark.parametrize("encoding", [name for name in ENCODINGS if name != "utf-8"])
def test_text_is_what_python_makes_of_it(tmp_path, encoding):
    path, text = tmp_path / "t", "age;naïve\r\nÄ" if encoding not in ("cp1251", "koi8-r", "cp1250") else "age;б\r\n"
    text = (
        text if encoding in ("utf-16", "utf-16-le", "utf-16-be") else text.encode(encoding, "ignore").decode(encoding)
    )
    path.write_bytes(text.encode(encoding))
    for size in (1, 2, 3, 100):
        assert read(path, encoding, size).decode().removeprefix("\ufeff") == text


@pytest.mark.full
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le", "utf-16-be"])
def test_any_bytes_are_turned_piece_by_piece_as_they_are_as_a_whole(tmp_path, encoding):
    """Pieces that end with a line feed, as records do; 300 files of random bytes, cut anywhere."""
    random, path = Random(3), tmp_path / "t"
    end = "\n".encode(encoding)
    alphabet = [bytes([byte]) for byte in (0, 10, 34, 44, 65, 0x81, 0xD8, 0xDC, 0xFF, 0xFE)]
    width = len(end)
    for _ in range(300):
        pieces = [b"".join(random.choices(alphabet, k=width * random.randrange(6))) + end for _ in range(5)]
        turned = []
        for piece in pieces:
            path.write_bytes(piece)
            turned.append(read(path, encoding, 64))
        path.write_bytes(b"".join(pieces))
        assert read(path, encoding, random.choice((1, 2, 3, 5, 64))) == b"".join(turned)


def test_half_a_character_at_the_end_is_not_text_and_stops_nothing(tmp_path):
    path = tmp_path / "t"
    path.write_bytes("a\n".encode("utf-16-le") + b"b")
    assert read(path, "utf-16-le", 3) == b"a\n\xff"
    path.write_bytes("a\n".encode("utf-16-le") + b"\x00\xd8")
    with pytest.raises(UnicodeDecodeError):
        read(path, "utf-16-le", 3).decode()
