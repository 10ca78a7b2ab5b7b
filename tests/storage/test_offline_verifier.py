"""storage/verify.py: one file that shares no code with the writer, and comes to the same answers."""

import ast
import base64
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage import CanonicalError, Event, EventError, Ledger, NoteError, Signer, TlogProof, hashing, tree, verify
from storage.notes.note import Note

LOG = Signer("droveway.example/ledger", bytes(range(32)))
WITNESS = Signer("w1.example", bytes(range(32, 64)), 4)
SECOND = Signer("w2.example", bytes(range(1, 33)), 4)
LOG_KEY, WITNESS_KEY, SECOND_KEY = (verify.parse_key(str(key.verifier)) for key in (LOG, WITNESS, SECOND))
EVENT = Event(producer="fleet-1", effect=b"\0\xff\x10", kind="note.text", sequence=0, tick=120)


@pytest.fixture(scope="module")
def proofs(tmp_path_factory):
    """Events of a small ledger and the bytes of their proof files, cosigned by one witness."""
    folder = tmp_path_factory.mktemp("proofs")
    events = [EVENT] + [
        Event(producer="fleet-1", effect=bytes(n), kind="note.text", sequence=n, tick=120 + n) for n in range(1, 7)
    ]
    with Ledger.open(folder / "run", sync="os") as ledger:
        ledger.append_many(events)
        text = Note.decode(ledger.checkpoint(LOG)).text
        note = Note.decode(ledger.add_signatures(7, [WITNESS.sign(text, time_s=1_700_000_000)]))
        files = [TlogProof(rank, tuple(ledger.prove(rank)), note).encode() for rank in range(7)]
    return list(zip((event.encode() for event in events), files, strict=True))


def source(repository):
    return (repository / "storage" / "verify.py").read_text()


def test_it_has_at_most_300_lines_and_imports_nothing_of_ours(repository):
    text = source(repository)
    assert len(text.splitlines()) <= 300
    tops = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            tops |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None
            tops.add(node.module.split(".")[0])
    assert tops - set(sys.stdlib_module_names) == {"blake3", "cryptography"}
    assert not re.search(r"\b(__import__|import_module|exec|eval|open_code)\b", text)


@pytest.fixture
def alone(repository, tmp_path, proofs):
    """alone(*arguments): the file copied to a folder of its own and run there, isolated from our packages."""
    folder = tmp_path / "auditor"
    folder.mkdir()
    shutil.copy(repository / "storage" / "verify.py", folder / "verify.py")
    event, proof = proofs[2]
    (folder / "event").write_bytes(event)
    (folder / "proof").write_bytes(proof)
    start = (
        "import runpy, sys; sys.modules.update(dict.fromkeys(['storage', 'droveway', 'coord', 'tensor', 'rocksdict']));"
        "sys.argv[0] = 'verify.py'; runpy.run_path('verify.py', run_name='__main__')"
    )

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "-I", "-c", start, *map(str, arguments)], cwd=folder, capture_output=True, text=True,
            check=False, env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return folder, run


def test_it_runs_alone_with_the_answer_in_its_exit_code(alone, proofs):
    folder, run = alone
    given_files = ("proof", "--event", "event", "--key", LOG.verifier)
    code, out, err = run(*given_files, "--witness", WITNESS.verifier)
    identity = hashing.event_id(proofs[2][0]).hex()
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"verified: event {identity} of {len(proofs[2][0])} bytes is at rank 2"
    assert out.splitlines()[1].startswith("log droveway.example/ledger: 7 events, root ")
    assert out.splitlines()[2] == "witnesses: w1.example"
    assert run(*given_files)[1].splitlines()[2] == "witnesses: none asked for"

    both = ("--witness", WITNESS.verifier, "--witness", SECOND.verifier)
    assert run(*given_files, *both) == (1, "NOT VERIFIED: 1 witnesses cosigned, needed are 2\n", "")
    assert run(*given_files, *both, "--quorum", 1)[0] == 0

    (folder / "other").write_bytes(proofs[1][0])
    code, out, _ = run("proof", "--event", "other", "--key", LOG.verifier)
    assert (code, out) == (1, "NOT VERIFIED: the proof does not lead from the event to the root of the checkpoint\n")


def test_usage_and_files_that_are_none_have_exit_codes_of_their_own(alone):
    folder, run = alone
    (folder / "empty").write_bytes(b"")
    assert run("proof", "--event", "event")[0] == 2
    for key in ("x", str(LOG.verifier).replace("ac2ad056", "ac2ad057"), LOG.text()):
        assert run("proof", "--event", "event", "--key", key)[0] == 2
    code, _, err = run("proof", "--event", "event", "--key", LOG.verifier, "--quorum", 1)
    assert code == 2
    assert err.endswith("--quorum must be at least 1 and at most the number of --witness keys\n")
    code, out, err = run("none", "--event", "event", "--key", LOG.verifier)
    assert (code, out, err) == (3, "", "error: [Errno 2] No such file or directory: 'none'\n")
    code, out, err = run("empty", "--event", "event", "--key", LOG.verifier)
    assert (code, out) == (3, "")
    assert err == (
        "error: empty: expected the line c2sp.org/tlog-proof@v1, the proof, an empty line and a checkpoint\n"
    )
    code, out, _ = run("proof", "--event", "empty", "--key", LOG.verifier)
    assert (code, out) == (1, "NOT VERIFIED: the event bytes are no canonical event\n")


def test_every_event_of_a_ledger_is_proved_and_none_by_the_proof_of_another(proofs):
    for rank, (event, _) in enumerate(proofs):
        for other, (_, proof) in enumerate(proofs):
            if other == rank:
                found = verify.check(proof, event, LOG_KEY, [WITNESS_KEY])
                assert (found.rank, found.size, found.witnesses) == (rank, 7, ["w1.example"])
                assert (found.id, found.length) == (hashing.event_id(event), len(event))
            else:
                with pytest.raises(verify.NotVerified):
                    verify.check(proof, event, LOG_KEY)


@pytest.mark.parametrize("keys", [[WITNESS_KEY], []], ids=["with the witness", "of the log alone"])
def test_every_flipped_bit_of_a_proof_file_is_refused_or_means_the_same(proofs, keys):
    event, proof = proofs[4]
    good = verify.check(proof, event, LOG_KEY, keys)
    # A line of a witness that is not asked for is nobody's: its bytes say nothing.
    free = len(proof) if keys else proof.rindex("—".encode())
    for at in range(len(proof)):
        for bit in range(8):
            changed = bytearray(proof)
            changed[at] ^= 1 << bit
            try:
                found = verify.check(bytes(changed), event, LOG_KEY, keys)
            except verify.NotVerified:
                continue
            assert at >= free and found == good, (at, bit)


@pytest.mark.parametrize("change", [lambda data, at: data[:at], lambda data, at: data[:at] + data[at + 1 :]])
def test_a_cut_proof_file_is_refused(proofs, change):
    event, proof = proofs[4]
    for at in range(len(proof)):
        with pytest.raises(verify.NotVerified):
            verify.check(change(proof, at), event, LOG_KEY, [WITNESS_KEY])


def test_every_flipped_bit_of_an_event_is_refused(proofs):
    event, proof = proofs[3]
    for at in range(len(event)):
        for bit in range(8):
            changed = bytearray(event)
            changed[at] ^= 1 << bit
            with pytest.raises(verify.NotVerified):
                verify.check(proof, bytes(changed), LOG_KEY)


def test_policy_names_are_no_second_witness_and_a_log_is_none(proofs):
    event, proof = proofs[0]
    alias = Signer("alias.example", WITNESS.seed, 4)
    parsed = TlogProof.decode(proof)
    note = parsed.note.with_signatures((alias.sign(parsed.note.text, time_s=1),))
    twice = TlogProof(0, parsed.hashes, note).encode()
    keys = [WITNESS_KEY, verify.parse_key(str(alias.verifier))]
    assert verify.check(twice, event, LOG_KEY, keys, 1).witnesses in (["w1.example"], ["alias.example"])
    with pytest.raises(verify.NotVerified, match=r"^1 witnesses cosigned, needed are 2$"):
        verify.check(twice, event, LOG_KEY, keys, 2)
    with pytest.raises(verify.Malformed, match=r"^expected a log's key of type 1 and witnesses' keys of type 4$"):
        verify.check(proof, event, LOG_KEY, [LOG_KEY])
    with pytest.raises(verify.NotVerified, match=r"^the checkpoint is not one that other.example \(\w+\) signed$"):
        verify.check(proof, event, verify.parse_key(str(Signer("other.example", bytes(32)).verifier)))


def event_of(**fields):
    defaults = {"producer": "fleet-1", "effect": b"", "kind": "note.text", "sequence": 0, "tick": 0}
    return Event(**{**defaults, **fields})


U64 = st.integers(0, 2**64 - 1) | st.sampled_from([127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32])
EVENTS = st.builds(
    event_of,
    producer=st.text(min_size=1, max_size=16),
    effect=st.binary(max_size=40) | st.sampled_from([bytes(255), bytes(256), bytes(65535), bytes(65536)]),
    kind=st.text("abz09._-", min_size=1, max_size=64),
    parents=st.sets(st.binary(min_size=32, max_size=32), max_size=16).map(lambda ids: tuple(sorted(ids))),
    sequence=U64,
    schema=st.integers(0, 2**32 - 1),
    tick=U64,
    wall_ns=st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([-32, -33, -128, -129, -32769, -(2**31) - 1]),
)


@given(EVENTS)
@example(event_of(parents=tuple(bytes([i]) * 32 for i in range(16))))
def test_every_event_is_one_for_the_verifier_with_the_same_id_and_leaf(event):
    data = event.encode()
    leaf = tree.leaf_hash(tree.leaf(event.id, len(data)))
    assert verify.leaf_of(data) == (event.id, leaf)


@given(EVENTS, st.data())
def test_changed_bytes_are_an_event_for_both_or_for_neither(event, data):
    changed = bytearray(event.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(changed), 300) - 1))
        changed[at] = data.draw(st.integers(0, 255) | st.sampled_from([0x90, 0xC4, 0xCC, 0xCF, 0xD0, 0xD3, 0xD9, 0xDC]))
    if data.draw(st.booleans()):
        del changed[data.draw(st.integers(0, len(changed))) :]
    try:
        Event.decode(bytes(changed))
        good = True
    except (CanonicalError, EventError):
        good = False
    try:
        verify.leaf_of(bytes(changed))
    except verify.NotVerified:
        assert not good
    else:
        assert good


@pytest.mark.parametrize(
    "data",
    [b"", b"\x87", b"\x88", b"\x80", b"\x97", b"\xdf\xff\xff\xff\xff", b"\x91" * 100_000,
     b"\x87\xa1a\xdb\xff\xff\xff\xff", b"\x87\xa1a\xa1x\xa1e\xc6\xff\xff\xff\xff", b"\x87\xa1a\xdd\xff\xff\xff\xff",
     bytes(1000)],
)  # fmt: skip
def test_bytes_that_claim_much_are_no_event(data):
    with pytest.raises(verify.NotVerified, match=r"^the event bytes are no canonical event$"):
        verify.leaf_of(data)


def test_an_event_above_16_mib_is_refused_before_it_is_looked_at():
    with pytest.raises(verify.NotVerified, match=r"^the event has more than 16777216 bytes$"):
        verify.leaf_of(bytes((16 << 20) + 1))


@given(st.binary(max_size=300))
def test_bytes_of_strangers_are_no_proof(data):
    with pytest.raises(verify.Malformed):
        verify.check(data, EVENT.encode(), LOG_KEY)


HOSTILE = {
    "64 hashes": lambda lines: [*lines[:2], *lines[2:3] * 64, *lines[lines.index("") :]],
    "a million empty lines": lambda lines: [*lines[:2], *[""] * 190_000],
    "an index above the size": lambda lines: [lines[0], "index 7", *lines[2:]],
    "an index of 2^64": lambda lines: [lines[0], f"index {2**64}", *lines[2:]],
    "an index of 5,000 digits": lambda lines: [lines[0], "index " + "1" * 5000, *lines[2:]],
    "a negative index": lambda lines: [lines[0], "index -1", *lines[2:]],
    "an index with a leading zero": lambda lines: [lines[0], "index 04", *lines[2:]],
    "no index": lambda lines: [lines[0], *lines[2:]],
    "another version": lambda lines: ["c2sp.org/tlog-proof@v2", *lines[1:]],
    "CR LF": lambda lines: [f"{line}\r" for line in lines],
    "extra twice": lambda lines: [lines[0], "extra AAAA", "extra AAAA", *lines[1:]],
    "extra without bytes": lambda lines: [lines[0], "extra ", *lines[1:]],
    "an extra of 65,538 bytes": lambda lines: [lines[0], "extra " + "A" * 87_384, *lines[1:]],
    "more than 196,608 bytes": lambda lines: [lines[0], "extra " + "A" * 196_608, *lines[1:]],
    "a hash of 31 bytes": lambda lines: [*lines[:2], base64.b64encode(bytes(31)).decode(), *lines[3:]],
    "17 signatures": lambda lines: [*lines[:-1], *["— x.example AAAAAP8="] * 15, ""],
    "a size of 2^64": lambda lines: [str(2**64) if line == "7" else line for line in lines],
    "an empty extension": lambda lines: [*lines[: lines.index("") + 4], "", *lines[lines.index("") + 4 :]],
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_proof_files_are_refused_by_both_readers(proofs, name):
    event, proof = proofs[4]
    changed = "\n".join(HOSTILE[name](proof.decode().split("\n"))).encode()
    assert changed != proof
    with pytest.raises(verify.NotVerified):
        verify.check(changed, event, LOG_KEY)
    with pytest.raises(NoteError):
        TlogProof.decode(changed)


def test_extra_bytes_are_read_and_prove_nothing(proofs):
    event, proof = proofs[4]
    with_extra = TlogProof(
        **{**{f: getattr(TlogProof.decode(proof), f) for f in ("index", "hashes", "note")}, "extra": b"x"}
    )
    assert b"\nextra eA==\nindex 4\n" in with_extra.encode()
    assert verify.check(with_extra.encode(), event, LOG_KEY) == verify.check(proof, event, LOG_KEY)


@pytest.mark.parametrize("kind", ["inclusion", "consistency"])
def test_the_published_cases_get_the_same_answer_from_verifier_and_library(data, kind):
    files = sorted(data(f"tlog/vectors/merkle/{kind}").rglob("*.json"))
    assert len(files) == 49
    passed = 0
    for file in files:
        case = {name: base64.b64decode(value) if isinstance(value, str) else value
                for name, value in json.loads(file.read_text()).items() if name != "desc"}  # fmt: skip
        proof = [base64.b64decode(each or "") for each in case["proof"] or []]
        if kind == "inclusion":
            given_case = (case["leafIdx"], case["treeSize"], case["leafHash"], proof, case["root"])
            answers = verify.inclusion(*given_case), tree.verify_inclusion(*given_case)
        else:
            given_case = (case["size1"], case["size2"], case["root1"], case["root2"], proof)
            answers = verify.consistency(*given_case), tree.verify_consistency(*given_case)
        assert answers == (not case["wantErr"],) * 2, file
        passed += answers[0]
    assert passed == {"inclusion": 3, "consistency": 4}[kind]


def test_a_text_that_is_no_key_is_told_what_one_looks_like(alone):
    _, run = alone
    code, out, err = run("proof", "--event", "event", "--key", "event")
    assert (code, out) == (2, "")
    wrong = "verifier key: expected NAME+ID+BASE64, of type 1 or 4, with the id of the key"
    assert err.splitlines()[-1] == f"verify.py: error: argument --key: {wrong}"


@pytest.mark.parametrize("package", ["blake3", "cryptography"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(alone, package):
    folder, _ = alone
    start = f"import runpy, sys; sys.modules['{package}'] = None; runpy.run_path('verify.py', run_name='__main__')"
    words = ("proof", "--event", "event", "--key", str(LOG.verifier))
    done = subprocess.run(
        [sys.executable, "-I", "-c", start, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr and done.stderr.endswith(": pip install blake3 cryptography\n")
