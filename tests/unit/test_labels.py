"""Files of labels as tools write them."""

from pathlib import Path

import pytest

from gles_delegate.model.labels import read_labels

FILES = {
    "plain": ("cat\ndog\n", ("cat", "dog")),
    "CRLF": ("cat\r\ndog\r\n\r\n", ("cat", "dog")),
    "no last line feed": ("cat\ndog", ("cat", "dog")),
    "a byte order mark": ("\ufeffcat\ndog\n", ("cat", "dog")),
    "no name for the background": ("\ncat\ndog\n", ("", "cat", "dog")),
    "no name in the middle": ("cat\n\ndog\n\n", ("cat", "", "dog")),
    "separators in names": ("a\x85b\nc\u2028d\ne\x0cf\n", ("a\x85b", "c\u2028d", "e\x0cf")),
    "separators at the ends": ("\x85a\x0c\n \tb\u2028 \t\n", ("\x85a\x0c", "b\u2028")),
    "numbers": ("0  cat\n1  big dog\n", ("cat", "big dog")),
    "numbers with one blank": ("0 cat\n1 dog\n", ("cat", "dog")),
    "numbers with a colon": ("1: cat\n2: dog\n", ("class 0", "cat", "dog")),
    "numbers with a tab, after a mark": ("\ufeff1\tcat\n", ("class 0", "cat")),
    "numbers with gaps": ("0  cat\n\n2  dog\n", ("cat", "class 1", "dog")),
    "numbers in another order": ("1  dog\n0  cat\n", ("cat", "dog")),
    "names that begin with numbers": ("1 euro\n2 euros\n", ("1 euro", "2 euros")),
    "a number that is twice there": ("0 of clubs\n0 of hearts\n", ("0 of clubs", "0 of hearts")),
    "some names with numbers": ("0  cat\ndog\n", ("0  cat", "dog")),
    "numbers alone": ("0\n1\n", ("0", "1")),
    "nothing": ("\n\n", ()),
}


@pytest.mark.parametrize("kind", FILES)
def test_labels(kind: str, tmp_path: Path) -> None:
    text, expected = FILES[kind]
    (tmp_path / "labels.txt").write_bytes(text.encode())
    assert read_labels(tmp_path / "labels.txt") == expected


def test_labels_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("cat\n", encoding="utf-16")
    with pytest.raises(ValueError, match=r"expected names in UTF-8, one per line, in .*labels"):
        read_labels(tmp_path / "labels.txt")
