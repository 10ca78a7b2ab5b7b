"""Signed notes, keys and checkpoints as texts: what is accepted, what is refused, and in which words."""

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import Checkpoint, NoteError, SignatureError, Signer, VerifierKey
from storage.notes.checkpoint import decode, opened, signed
from storage.notes.keys import verified
from storage.notes.note import Note, Signature
from storage.tree import EMPTY_ROOT

LOG = Signer("droveway.example/ledger", bytes(range(32)))
WITNESS = Signer("w1.example", bytes(range(32, 64)), 4)
ROOT = bytes.fromhex("8bbf1cbdf6e6da7820f1d8ccb323a012fbf96ee137918ba1bcb35ac3c87f7885")
NOTE = signed(Checkpoint(LOG.name, 2, ROOT), LOG)
LINE = NOTE.signatures[0].line()


def test_a_note_is_read_as_it_was_written():
    assert Note.decode(NOTE.encode()) == NOTE
    assert decode(NOTE.encode()) == (Checkpoint(LOG.name, 2, ROOT), NOTE)
    assert verified(NOTE, (LOG.verifier,)) == (LOG.verifier,)


def test_text_and_signatures_part_at_the_last_empty_line():
    text = "one\n\n— not.a.signature AAAAAP8=\n\n"
    note = Note(text, (LOG.sign(text),))
    assert Note.decode(note.encode()) == note
    assert verified(note, (LOG.verifier,)) == (LOG.verifier,)


def test_the_key_of_the_c2sp_text_has_the_id_that_the_rule_gives():
    key = VerifierKey.parse("example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k")
    assert (key.name, key.type, key.id.hex()) == ("example.com/foo", 1, "530d903a")
    assert key.public.hex() == "e932791ae6e7a840a46164c904786426d5e7821dd8b29a00d61cae72afdd4da4"


def test_the_poem_of_the_c2sp_text_is_a_note():
    line = "NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc="
    poem = (
        "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned è subito sera.\n\n"
        f"— quasimodo.example/salvatore {line}\n"
    )
    note = Note.decode(poem.encode())
    assert note.text.endswith("ed è subito sera.\n")
    assert [(one.name, len(one.data)) for one in note.signatures] == [("quasimodo.example/salvatore", 64)]
    assert note.encode() == poem.encode()


TEXT = NOTE.text
BAD_NOTES = {
    "no empty line": (TEXT, "note: expected a text, an empty line and signatures, got no empty line"),
    "no signature": (f"{TEXT}\n", "note: expected signature lines that end in a newline after the last empty line"),
    "cut": (f"{TEXT}\n{LINE}", "note: expected signature lines that end in a newline after the last empty line"),
    "17 signatures": (f"{TEXT}\n" + f"{LINE}\n" * 17, "note: at most 16 signatures, got 17"),
    "a hyphen": (f"{TEXT}\n- a AAAAAP8=\n", "note: expected a line '— NAME BASE64', got '- a AAAAAP8='"),
    "no name": (f"{TEXT}\n—  AAAAAP8=\n", "note: the name of a key must not be empty"),
    "a plus": (
        f"{TEXT}\n— a+b AAAAAP8=\n",
        "note: the name of a key has no spaces and no '+', got 'a+b'",
    ),
    "a wide space": (
        f"{TEXT}\n— a\u2003b AAAAAP8=\n",
        "note: the name of a key has no spaces and no '+', got 'a\\u2003b'",
    ),
    "two spaces": (f"{TEXT}\n— a  AAAAAP8=\n", "note: a signature: expected padded base64, got ' AAAAAP8='"),
    "no padding": (f"{TEXT}\n— a AAAAAP8\n", "note: a signature: expected padded base64, got 'AAAAAP8'"),
    "more padding": (f"{TEXT}\n— a AAAAAP8==\n", "note: a signature: expected padded base64, got 'AAAAAP8=='"),
    "spare bits": (f"{TEXT}\n— a AAAAAP9=\n", "note: a signature: expected padded base64, got 'AAAAAP9='"),
    "url base64": (f"{TEXT}\n— a AAAAAP-_AA==\n", "note: a signature: expected padded base64, got 'AAAAAP-_AA=='"),
    "no base64": (f"{TEXT}\n— a \n", "note: a signature: expected padded base64, got ''"),
    "an id alone": (f"{TEXT}\n— a AAAAAA==\n", "note: a signature has an id of 4 bytes and more, got 4 bytes"),
    "CR LF": (
        f"{TEXT}\n{LINE}\n".replace("\n", "\r\n"),
        "note: byte 23: expected no control character but newline, got 0x0d",
    ),
    "a tab": (f"\t{TEXT}\n{LINE}\n", "note: byte 0: expected no control character but newline, got 0x09"),
    "a trailing empty line": (
        f"{TEXT}\n{LINE}\n\n",
        "note: expected signature lines that end in a newline after the last empty line",
    ),
    "too long": ("a" * 65537, "note: at most 65536 bytes, got 65537"),
}


@pytest.mark.parametrize("name", BAD_NOTES)
def test_what_is_no_note_is_refused(name):
    text, message = BAD_NOTES[name]
    with pytest.raises(NoteError) as caught:
        Note.decode(text.encode())
    assert str(caught.value) == message


def test_bytes_that_are_no_utf8_are_refused():
    with pytest.raises(NoteError, match=r"^note: byte 3: expected UTF-8, got 0xff$"):
        Note.decode(b"abc\xff\n\n")


def test_sixteen_signatures_are_accepted_also_the_longest_kind():
    others = tuple(Signature(f"w{i}.example", bytes([0, 0, 0, i]), bytes(2428)) for i in range(15))
    note = NOTE.with_signatures(others)
    assert len(Note.decode(note.encode()).signatures) == 16
    assert verified(note, (LOG.verifier,)) == (LOG.verifier,)


DECIMAL = "checkpoint: line 2: size: expected a decimal below 2^64 without leading zeros, got "
BAD_CHECKPOINTS = {
    "a leading zero": ("a\n02\n{root}\n", DECIMAL + "'02'"),
    "a sign": ("a\n+2\n{root}\n", DECIMAL + "'+2'"),
    "digits of another script": ("a\n٢\n{root}\n", DECIMAL + "'\\u0662'"),
    "2^64": (
        "a\n18446744073709551616\n{root}\n",
        DECIMAL + "'18446744073709551616'",
    ),
    "a huge number": (
        "a\n" + "9" * 5000 + "\n{root}\n",
        DECIMAL + f"'{'9' * 40}\\u2026'",
    ),
    "no origin": ("\n2\n{root}\n", "checkpoint: line 1 must not be empty"),
    "an empty extension": ("a\n2\n{root}\n\nb\n", "checkpoint: line 4 must not be empty"),
    "no root": ("a\n2\n", "checkpoint: expected the lines origin, size and root, got 'a\\n2\\n'"),
    "a short root": ("a\n2\nAAAA\n", "checkpoint: line 3: root: expected 32 bytes, got 3"),
    "a root in hexadecimal": (
        "a\n2\n" + "0a" * 32 + "\n",
        "checkpoint: line 3: root: expected 32 bytes, got 48",
    ),
    "CR LF": ("a\r\n2\r\n{root}\r\n", "checkpoint: byte 1: expected no control character but newline, got 0x0d"),
}


@pytest.mark.parametrize("name", BAD_CHECKPOINTS)
def test_what_is_no_checkpoint_is_refused(name):
    text, message = BAD_CHECKPOINTS[name]
    with pytest.raises(NoteError) as caught:
        Checkpoint.parse(text.format(root=base64.b64encode(ROOT).decode()))
    assert str(caught.value) == message


def test_no_events_have_one_root():
    assert decode(signed(Checkpoint(LOG.name, 0, EMPTY_ROOT), LOG).encode())[0].size == 0
    with pytest.raises(NoteError, match=r"^checkpoint: the root of no events is e3b0c4\w+, got 8bbf\w+$"):
        decode(signed(Checkpoint(LOG.name, 0, ROOT), LOG).encode())


def test_extension_lines_are_read_and_signed():
    checkpoint = Checkpoint(LOG.name, 2, ROOT, ("more", "and more"))
    assert opened(signed(checkpoint, LOG).encode(), LOG.verifier) == (checkpoint, ())


def test_signatures_of_unknown_keys_are_ignored_also_where_name_or_id_is_known():
    other = Signer(LOG.name, bytes(32))
    same_id = Signature("another.example", LOG.verifier.id, bytes(64))
    note = Note(TEXT, (other.sign(TEXT), same_id, LOG.sign(TEXT)))
    assert verified(note, (LOG.verifier,)) == (LOG.verifier,)
    with pytest.raises(SignatureError) as caught:
        verified(Note(TEXT, (other.sign(TEXT), same_id)), (LOG.verifier,))
    assert str(caught.value) == (
        f"expected a signature of droveway.example/ledger (ac2ad056), got those of droveway.example/ledger "
        f"({other.verifier.id.hex()}), another.example (ac2ad056)"
    )


@given(st.integers(0, 63), st.integers(0, 7))
def test_a_known_key_that_fails_rejects_the_whole_note(byte, bit):
    good = LOG.sign(TEXT)
    data = bytearray(good.data)
    data[byte] ^= 1 << bit
    note = Note(TEXT, (WITNESS.sign(TEXT, time_s=1), Signature(LOG.name, LOG.verifier.id, bytes(data))))
    with pytest.raises(SignatureError) as caught:
        verified(note, (WITNESS.verifier, LOG.verifier))
    assert str(caught.value) == "the signature of droveway.example/ledger (ac2ad056) is not one over this text"


def test_a_quorum_counts_keys_and_never_lines():
    second = Signer("w2.example", bytes(32), 4)
    keys = (WITNESS.verifier, second.verifier)
    twice = NOTE.with_signatures((WITNESS.sign(TEXT, time_s=1),))
    twice = Note(TEXT, (*twice.signatures, WITNESS.sign(TEXT, time_s=2)))
    assert opened(twice.encode(), LOG.verifier, keys, 1)[1] == (WITNESS.verifier,)
    with pytest.raises(SignatureError, match=r"^expected cosignatures of 2 witnesses, got 1 of 2$"):
        opened(twice.encode(), LOG.verifier, keys)
    both = twice.with_signatures((second.sign(TEXT, time_s=0),))
    assert opened(both.encode(), LOG.verifier, keys)[1] == keys


def test_a_checkpoint_needs_the_log_whose_name_it_has():
    with pytest.raises(
        SignatureError, match=r"^expected a signature of the log \S+ \(ac2ad056\), got witnesses' only$"
    ):
        opened(Note(TEXT, (WITNESS.sign(TEXT, time_s=1),)).encode(), LOG.verifier, (WITNESS.verifier,))
    other = Checkpoint("other.example", 2, ROOT).text()
    with pytest.raises(SignatureError) as caught:
        opened(Note(other, (LOG.sign(other),)).encode(), LOG.verifier)
    assert str(caught.value) == "expected a checkpoint of droveway.example/ledger, got one of 'other.example'"
    with pytest.raises(ValueError, match=r"^checkpoint: the origin is the key's name 'w1.example', got 'a'$"):
        signed(Checkpoint("a", 2, ROOT), WITNESS)


def test_a_cosignature_of_a_time_above_2_63_or_of_another_length_fails():
    good = WITNESS.sign(TEXT, time_s=2**63 - 1)
    assert WITNESS.verifier.verifies(good, TEXT)
    for data in (b"\x80" + good.data[1:], good.data[:-1], good.data + b"\0", good.data[8:]):
        assert not WITNESS.verifier.verifies(Signature(good.name, good.key_id, data), TEXT)
    with pytest.raises(ValueError, match=r"^cosignature: the time must be in \[0, 2\*\*63\), got 9223372036854775808$"):
        WITNESS.sign(TEXT, time_s=2**63)


def test_a_log_signs_without_a_time_and_a_witness_with_one():
    with pytest.raises(ValueError, match=r"^Signer.sign: type 4 needs a time_s$"):
        WITNESS.sign(TEXT)
    with pytest.raises(ValueError, match=r"^Signer.sign: type 1 takes no time_s$"):
        LOG.sign(TEXT, time_s=1)


@given(st.binary(max_size=200))
def test_bytes_of_strangers_are_a_note_or_refused(data):
    with contextlib.suppress(NoteError):
        assert Note.decode(data).encode() == data


@given(st.integers(0, len(NOTE.encode()) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_another_name_that_nobody_knows(at, flip):
    data = bytearray(NOTE.encode())
    data[at] ^= flip
    with pytest.raises((NoteError, SignatureError)):
        opened(bytes(data), LOG.verifier)


BAD_KEYS = {
    "droveway.example/ledger": "verifier key: expected NAME+8 hexadecimal digits+BASE64, got 'droveway.example/ledger'",
    "a+AC2AD056+AAAA": "verifier key: expected NAME+8 hexadecimal digits+BASE64, got 'a+AC2AD056+AAAA'",
    "+ac2ad056+AAAA": "note: the name of a key must not be empty",
    "a b+ac2ad056+AAAA": "note: the name of a key has no spaces and no '+', got 'a b'",
    "a+ac2ad056+AQ": "verifier key: expected padded base64, got 'AQ'",
    "a+ac2ad056+Bg==": "verifier key: expected a key of type 1 (Ed25519) or 4 (its cosignatures), got type 6",
    "a+ac2ad056+AQA=": "verifier key: expected a type and 32 bytes, got 2 bytes",
    "a+ac2ad056+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4": (
        "verifier key: the id of the key of a is 606ca4ab, the text names ac2ad056"
    ),
}


@pytest.mark.parametrize("text", BAD_KEYS)
def test_what_is_no_verifier_key_is_refused(text):
    with pytest.raises(NoteError) as caught:
        VerifierKey.parse(text)
    assert str(caught.value) == BAD_KEYS[text]


def test_a_private_key_never_shows_in_words():
    assert LOG.seed.hex() not in repr(LOG) and repr(LOG.seed) not in repr(LOG)
    assert Signer.parse(LOG.text()) == LOG
    secret = LOG.text().rpartition("+")[2]
    for text in (LOG.text()[:-1], LOG.text().replace("ac2ad056", "ac2ad057"), LOG.text() + "=", LOG.text()[12:]):
        with pytest.raises(NoteError) as caught:
            Signer.parse(text)
        assert secret[:8] not in str(caught.value)


def test_a_key_without_a_name_gets_one_of_its_own():
    first, second = Signer.generate(), Signer.generate()
    assert first.name.startswith("droveway/log-") and first.name != second.name
    assert Signer.generate(witness=True).name.startswith("droveway/witness-")
