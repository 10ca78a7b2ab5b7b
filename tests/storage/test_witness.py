"""A witness: every status code, its memory across restarts and kills, requests at the same time, and asking it."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from storage import Checkpoint, Head, IntegrityError, Ledger, Signer, Witness, WitnessError, cosign, tree, write_key
from storage.notes.checkpoint import decode, opened, signed
from storage.notes.keys import verified
from storage.notes.note import Note, Signature
from storage.tree import EMPTY_ROOT
from storage.witness import BODY_BYTES_MAX, Request
from storage.witness_server import WitnessServer
from storage.witnessing import ask

LOG = Signer("log.example", bytes(range(32)))
KEY = Signer("w.example", bytes(range(32, 64)), 4)
NOW = 1_700_000_000


def branch(name, n):
    """The leaf hashes of a log: the same for every branch below 4."""
    return [tree.leaf_hash(b"%d" % i if i < 4 else b"%s %d" % (name, i)) for i in range(n)]


LEAVES = {name: branch(name, 600) for name in (b"a", b"b")}


def root(size, name=b"a"):
    return tree.root_of_leaves(b"".join(LEAVES[name][:size]))


def note_of(size, name=b"a", signer=LOG, origin=None):
    return signed(Checkpoint(origin or signer.name, size, root(size, name)), signer)


def request(old, size, name=b"a", **changes):
    leaves = LEAVES[name]

    def hash_at(level, index):
        return tree.root_of_leaves(b"".join(leaves[index << level : (index + 1) << level]))

    proof = tree.consistency_proof(old, size, hash_at) if 0 < old < size else []
    return Request(old, changes.get("proof", proof), changes.get("note", note_of(size, name))).encode()


@pytest.fixture
def witness(tmp_path):
    return Witness(tmp_path / "memory", KEY, [LOG.verifier], now=lambda: NOW + 0.9)


def test_what_extends_what_was_seen_is_cosigned(witness):
    for old, size in ((0, 0), (0, 3), (3, 3), (3, 4), (4, 600)):
        answer = witness.add_checkpoint(request(old, size))
        assert (answer.status, answer.content_type) == (200, "text/plain; charset=utf-8"), answer
        line = Signature.parse(answer.body.decode().removesuffix("\n"))
        assert line == KEY.sign(note_of(size).text, time_s=NOW)
        assert verified(Note(note_of(size).text, (line,)), (KEY.verifier,)) == (KEY.verifier,)
        assert witness.seen("log.example") == Head(size, root(size))


OTHER = Signer("other.example", bytes(32))
EMPTY_WITH_ANOTHER_ROOT = signed(Checkpoint("log.example", 0, bytes(32)), LOG)
FORGED = Note(note_of(7).text, (Signature("log.example", LOG.verifier.id, bytes(64)),))
REFUSED = {  # after a checkpoint of 5 events was seen
    "no request": (b"", 400, "add-checkpoint: expected 'old N', a proof, an empty line, a note, got ''"),
    "no old": (request(5, 7).replace(b"old 5", b"new 5"), 400, "add-checkpoint: expected 'old N', a proof"),
    "a leading zero": (request(5, 7).replace(b"old 5", b"old 05"), 400, "add-checkpoint: old: expected a decimal"),
    "CR LF": (request(5, 7).replace(b"\n", b"\r\n"), 400, "add-checkpoint: byte 5: expected no control character"),
    "odd base64": (request(5, 7).replace(b"=\n", b"\n", 1), 400, "add-checkpoint: a hash: expected padded base64"),
    "a short hash": (request(5, 7, proof=[bytes(31)]), 400, "add-checkpoint: a hash: expected 32 bytes, got 31"),
    "64 hashes": (request(5, 7, proof=[bytes(32)] * 64), 400, "add-checkpoint: at most 63 hashes"),
    "no note": (request(5, 7).partition(b"\n\n")[0] + b"\n\nx\n", 400, "note: expected a text"),
    "17 signatures": (request(5, 7) + b"\xe2\x80\x94 x AAAAAP8=\n" * 16, 400, "note: at most 16 signatures, got 17"),
    "too long": (b"old 5\n\n" + b"a" * BODY_BYTES_MAX, 400, "add-checkpoint: at most 69632 bytes"),
    "old above the size": (request(5, 7).replace(b"old 5", b"old 8"), 400, "old is 8, above the size 7"),
    "another log": (request(0, 7, note=note_of(7, signer=OTHER)), 404, "no log 'other.example' is known here"),
    "nobody known signed": (
        request(5, 7, note=Note(note_of(7).text, (OTHER.sign(note_of(7).text),))),
        403,
        "expected a signature of log.example",
    ),
    "a signature that fails": (request(5, 7, note=FORGED), 403, "the signature of log.example"),
    "old is not what was seen": (request(3, 7), 409, "5"),
    "old is 0": (request(0, 7), 409, "5"),
    "another history": (request(5, 7, b"b"), 422, "the proof does not lead from size 5 to 7"),
    "no proof": (request(5, 7, proof=[]), 422, "the proof does not lead from size 5 to 7"),
    "a hash too many": (request(5, 5, proof=[bytes(32)]), 422, "the proof does not lead from size 5 to 5"),
    "the same size with another root": (request(5, 5, b"b"), 422, "another root at size 5 was seen before"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_extend_it_is_refused_and_changes_nothing(witness, name, tmp_path, directory_digest):
    body, status, text = REFUSED[name]
    assert witness.add_checkpoint(request(0, 5)).status == 200
    before = directory_digest(tmp_path)
    answer = witness.add_checkpoint(body)
    assert answer.status == status and answer.body.decode().startswith(text), answer
    assert answer.content_type == ("text/x.tlog.size" if status == 409 else "text/plain; charset=utf-8")
    assert status != 409 or answer.body == b"5\n"
    assert directory_digest(tmp_path) == before
    assert witness.add_checkpoint(request(5, 7)).status == 200


def test_of_no_log_nothing_was_seen_and_the_first_proof_is_empty(witness):
    assert witness.add_checkpoint(request(3, 7)).body == b"0\n"
    assert witness.add_checkpoint(request(0, 7, proof=[bytes(32)])).status == 422
    answer = witness.add_checkpoint(request(0, 0, note=EMPTY_WITH_ANOTHER_ROOT))
    assert (answer.status, answer.body) == (422, b"the root of no events is another\n")
    assert witness.seen("log.example") is None
    assert witness.add_checkpoint(request(0, 0)).status == 200
    assert witness.seen("log.example") == Head(0, EMPTY_ROOT)


def test_logs_are_apart_and_a_log_may_have_a_new_key(tmp_path):
    new = Signer("log.example", bytes(32))
    witness = Witness(tmp_path, KEY, [LOG.verifier, OTHER.verifier, new.verifier])
    assert witness.add_checkpoint(request(0, 5)).status == 200
    assert witness.add_checkpoint(request(0, 3, note=note_of(3, signer=OTHER))).status == 200
    assert witness.add_checkpoint(request(5, 7, note=note_of(7, signer=new))).status == 200
    assert witness.seen("other.example").size == 3 and witness.seen("log.example").size == 7


def test_keys_of_the_wrong_kind_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^Witness: expected a key of type 4 \(hint: droveway keygen --witness\)$"):
        Witness(tmp_path, LOG, [LOG.verifier])
    with pytest.raises(ValueError, match=r"^Witness: expected keys of logs, of type 1$"):
        Witness(tmp_path, KEY, [KEY.verifier])


def test_its_memory_is_there_after_a_restart(tmp_path, witness):
    witness.add_checkpoint(request(0, 5))
    again = Witness(tmp_path / "memory", KEY, [LOG.verifier])
    assert again.seen("log.example") == Head(5, root(5))
    assert again.add_checkpoint(request(0, 7, b"b")).status == 409
    assert again.add_checkpoint(request(5, 7)).status == 200


def test_a_damaged_memory_is_no_memory_and_cosigns_nothing(tmp_path, witness):
    witness.add_checkpoint(request(0, 5))
    (file,) = (path for path in (tmp_path / "memory").iterdir() if path.suffix == "")
    good = file.read_bytes()
    for at in range(0, len(good), 7):
        file.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(IntegrityError, match=r"the memory of log.example is damaged"):
            witness.add_checkpoint(request(5, 7))
    file.write_bytes(b"")
    with pytest.raises(IntegrityError, match=r"the memory of log.example is damaged"):
        witness.add_checkpoint(request(0, 7))


def test_what_is_cosigned_is_on_the_disk_before(witness, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (done.append("fsync"), fsync(descriptor))[1])
    monkeypatch.setattr("pathlib.Path.replace", lambda self, target: (done.append("replace"), replace(self, target))[1])
    assert witness.add_checkpoint(request(0, 5)).status == 200
    assert done == ["fsync", "replace", "fsync"]


def test_where_it_cannot_remember_it_does_not_cosign(witness, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Exception, match="No space left on device"):
        witness.add_checkpoint(request(0, 5))
    monkeypatch.undo()
    assert witness.seen("log.example") is None


@pytest.fixture
def server(witness):
    """A server in this process; closed at the end."""
    with WitnessServer(witness) as started:
        thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield started
        started.shutdown()
        thread.join()


def post(server, body, path="/add-checkpoint", method="POST", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, answer.headers["Content-Type"], text


def test_the_server_is_bound_to_this_machine_and_answers_over_http(server):
    assert server.address.startswith("http://127.0.0.1:")
    status, kind, body = post(server, request(0, 5))
    assert (status, kind) == (200, "text/plain; charset=utf-8") and body.startswith("— w.example ".encode())
    assert post(server, request(3, 7)) == (409, "text/x.tlog.size", b"5\n")
    assert post(server, request(5, 7, b"b"))[0] == 422
    assert post(server, b"nonsense")[0] == 400
    assert post(server, request(5, 7), "/elsewhere")[0] == 404
    assert post(server, None, method="GET")[0] == 404
    assert post(server, b"a" * (BODY_BYTES_MAX + 1))[0] == 413
    assert post(server, b"", headers={"Content-Length": "-1"})[0] == 411
    assert post(server, b"", headers={"Content-Length": "9" * 30})[0] == 411
    assert post(server, request(5, 7))[0] == 200


def test_one_connection_carries_many_requests(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    for old, size in ((0, 5), (5, 7), (7, 9)):
        connection.request("POST", "/add-checkpoint", request(old, size))
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
    connection.close()


def test_a_client_that_is_slow_or_goes_away_ends_only_itself(server, monkeypatch):
    monkeypatch.setattr("storage.witness_server.REQUEST_SECONDS_MAX", 0.3)
    slow = socket.create_connection(server.server_address)
    slow.sendall(b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 1000\r\n\r\n")
    begun = time.monotonic()
    with contextlib.suppress(OSError):  # it is hung up on while it drips
        while time.monotonic() < begun + 30:
            slow.sendall(b"a")
            time.sleep(0.05)
    assert time.monotonic() < begun + 30
    slow.close()
    gone = socket.create_connection(server.server_address)
    gone.sendall(b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 1000\r\n\r\nabc")
    gone.close()
    assert post(server, request(0, 5))[0] == 200


def test_at_most_64_connections_are_heard(server):
    idle = [socket.create_connection(server.server_address) for _ in range(64)]
    end = time.monotonic() + 8
    while server._free._value and time.monotonic() < end:
        time.sleep(0.01)
    with pytest.raises((OSError, http.client.HTTPException)):
        post(server, request(0, 5))
    for connection in idle:
        connection.close()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            assert post(server, request(0, 5))[0] in (200, 409)
            break
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
    else:
        pytest.fail("the connections that ended are still counted")


@pytest.fixture
def processes(tmp_path):
    """start(): a server in a process of its own over the same memory; its process and address. Killed at the end."""
    write_key(tmp_path / "w.key", KEY)
    started = []

    def start():
        line = [sys.executable, "-m", "storage.witness_server", "--key", tmp_path / "w.key", "--state",
                tmp_path / "memory", "--log", LOG.verifier]  # fmt: skip
        process = subprocess.Popen([str(word) for word in line], stdout=subprocess.PIPE, text=True)
        started.append(process)
        words = process.stdout.readline().split()
        assert words[:2] == ["listening", "on"]
        return process, words[2]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_of_two_histories_at_the_same_time_one_is_cosigned(tmp_path, processes):
    addresses = [processes()[1] for _ in range(2)]
    cosigned, refused = set(), set()
    failures = []

    def submit(name, address, size):
        old = 0
        for _ in range(3):
            body = Request.decode(request(old, size, name))
            try:
                (line,) = ask(address, body.note.encode(), old, body.proof)
            except WitnessError as error:
                if error.status != 409:
                    refused.add(error.status)
                    return
                old = error.size
                if old > size:
                    return
            else:
                verified(Note(body.note.text, (line,)), (KEY.verifier,))
                cosigned.add((size, name))
                return

    def press(name, address):
        try:
            for size in range(5, 30):
                submit(name, address, size)
        except Exception as error:
            failures.append(error)

    threads = [
        threading.Thread(target=press, args=(name, address)) for name in (b"a", b"b") for address in addresses * 2
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and refused == {422}
    assert len({name for _, name in cosigned}) == 1, "two histories were cosigned"
    (name,) = {name for _, name in cosigned}
    seen = Witness(tmp_path / "memory", KEY, [LOG.verifier]).seen("log.example")
    assert seen == Head(29, root(29, name))


def test_a_witness_that_is_killed_remembers_what_it_cosigned(tmp_path, processes):
    size = 0
    for trial in range(6):
        process, address = processes()
        remembered = Witness(tmp_path / "memory", KEY, [LOG.verifier]).seen("log.example")
        held = 0 if remembered is None else remembered.size
        assert held >= size, "a cosigned checkpoint was forgotten"
        size = held
        killer = threading.Timer(0.01 + 0.02 * trial, process.send_signal, (signal.SIGKILL,))
        killer.start()
        statuses = []
        while not statuses:
            body = Request.decode(request(size, size + 1))
            try:
                ask(address, body.note.encode(), size, body.proof, timeout_s=5)
                size += 1
            except WitnessError as error:
                statuses.append(error.status)
        assert statuses == [None], "it was killed, it did not refuse"
        killer.join()
        process.wait()
    assert size > 0


def test_sigterm_ends_the_server_with_zero(processes):
    process, _ = processes()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        (lambda line, folder: [*line, "--log", "nonsense"], 2, "verifier key: expected NAME+8 hexadecimal digits"),
        (lambda line, folder: [*line, "--log", str(KEY.verifier)], 2, "Witness: expected keys of logs, of type 1"),
        (lambda line, folder: [*line, "--key", str(folder / "none")], 3, "No such file or directory"),
        (lambda line, folder: [*line, "--key", str(folder / "log.key")], 2, "expected a key of type 4"),
        (lambda line, folder: [*line, "--key", str(folder / "loose.key")], 2, "only its owner can read"),
    ],
)
def test_the_server_says_what_it_cannot_start_with(tmp_path, change, code, text):
    write_key(tmp_path / "w.key", KEY)
    write_key(tmp_path / "log.key", LOG)
    write_key(tmp_path / "loose.key", KEY)
    (tmp_path / "loose.key").chmod(0o640)
    line = ["--key", str(tmp_path / "w.key"), "--state", str(tmp_path / "memory"), "--log", str(LOG.verifier)]
    done = subprocess.run(
        [sys.executable, "-m", "storage.witness_server", *change(line, tmp_path)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, "") and text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_ledger_gathers_cosignatures_and_keeps_them(server, run, make_event):
    witnesses = {server.address: KEY.verifier}
    with Ledger.open(run) as ledger:
        for i in range(3):
            ledger.append_many([make_event(10 * i + j) for j in range(i + 1)])
            cosigned = cosign(ledger, LOG, witnesses)
            assert cosigned.refusals == {}
            checkpoint, present = opened(cosigned.note, LOG.verifier, (KEY.verifier,))
            assert checkpoint.head() == ledger.head() and present == (KEY.verifier,)
            assert (run / "checkpoint").read_bytes() == cosigned.note == ledger.checkpoints()[-1]
        assert server.witness.seen("log.example") == ledger.head()


def test_a_witness_that_knows_more_or_another_history_is_told_and_ends_nothing(server, run, make_event):
    dead = "http://127.0.0.1:1"
    server.witness.add_checkpoint(request(0, 5))
    with Ledger.open(run) as ledger:
        ledger.append(make_event(0))
        cosigned = cosign(ledger, LOG, {server.address: KEY.verifier, dead: KEY.verifier})
        refused = cosigned.refusals[server.address]
        assert (refused.status, refused.size) == (409, 5)
        assert str(refused) == f"{server.address}: the witness refused with 409: it has seen 5 events"
        assert str(cosigned.refusals[dead]).startswith(f"{dead}: the witness can't be asked: ")
        ledger.append_many([make_event(i) for i in range(1, 9)])
        refused = cosign(ledger, LOG, {server.address: KEY.verifier}).refusals[server.address]
        assert refused.status == 422
        assert decode(ledger.checkpoints()[-1])[1].signatures[0].name == "log.example"
        other = Signer("w.example", bytes(32), 4)
        server.witness.add_checkpoint(request(5, 9))
        with pytest.raises(WitnessError, match=r"^ftp://x: expected the address of a witness, http:// or https://$"):
            ask("ftp://x", ledger.checkpoints()[-1], 0, [])
        assert len(cosign(ledger, LOG, {server.address: other.verifier}).refusals) == 1
