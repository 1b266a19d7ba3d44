# SPDX-License-Identifier: BSD-3-Clause
"""Labels that stand in kernels: text of at most 24 bytes, as the words in which it travels."""

LABEL_BYTES = 24


def label_words(label: str) -> tuple[int, ...]:
    """A label as three int64.

    Raises: ValueError (longer than 24 bytes in UTF-8).
    """
    text = label.encode()
    if len(text) > LABEL_BYTES:
        raise ValueError(
            f"the label {label!r} has {len(text)} bytes; there is room for {LABEL_BYTES}"
        )
    text = text.ljust(LABEL_BYTES, b"\0")
    return tuple(int.from_bytes(text[i : i + 8], "little", signed=True) for i in (0, 8, 16))
