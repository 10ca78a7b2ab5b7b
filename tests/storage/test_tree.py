"""RFC 6962 and RFC 9162: known answers, published cases, and proofs of every small tree."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import hash_ref, tree
from storage.tree import (
    EMPTY_ROOT,
    consistency_proof,
    frontier_at,
    frontier_extend,
    frontier_root,
    inclusion_proof,
    leaf_hash,
    node_hash,
    root_of_leaves,
    verify_consistency,
    verify_inclusion,
)

INPUTS = [
    bytes.fromhex(text)
    for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAVES = [leaf_hash(bytes([i])) for i in range(70)]


def plain_root(leaves):
    """The tree by its definition: split at the largest power of two below n."""
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return node_hash(plain_root(leaves[:k]), plain_root(leaves[k:]))


def hash_at(level, index):
    return plain_root(LEAVES[index << level : (index + 1) << level])


@pytest.mark.parametrize("n", range(1, 9))
def test_the_published_roots_are_reached(n):
    assert root_of_leaves(b"".join(leaf_hash(data) for data in INPUTS[:n])).hex() == ROOTS[n - 1]


def test_the_known_answers_of_empty_tree_leaf_and_node():
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert root_of_leaves(b"") == EMPTY_ROOT
    assert leaf_hash(b"L123456").hex() == "395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56"
    assert node_hash(b"N123", b"N456").hex() == "aa217fe888e47007fa15edab33c2b492a722cb106c64667fc2b044444de66bbb"


def test_the_worked_example_has_its_leaves_and_root():
    first = tree.leaf(bytes.fromhex("3f4f12e98d9da74286ec67ffd023cfa934a1752e6779ef564af25d8ee1510716"), 42)
    second = tree.leaf(bytes.fromhex("155790425dfd93753f5b887367539dd25fd041286f737ce004e713951f665f75"), 265)
    assert first.hex() == "013f4f12e98d9da74286ec67ffd023cfa934a1752e6779ef564af25d8ee1510716000000000000002a"
    assert second.hex() == "01155790425dfd93753f5b887367539dd25fd041286f737ce004e713951f665f750000000000000109"
    hashes = [leaf_hash(first), leaf_hash(second)]
    assert hashes[0].hex() == "7b81b06d71e138140a28339057a55431ebaa3011c4dbed33f4a05061db752864"
    assert hashes[1].hex() == "14e435237dc9194a6421bcd5330fc8c2a14504e4131f49d723502f7615e70b7d"
    root = root_of_leaves(b"".join(hashes))
    assert root.hex() == "8bbf1cbdf6e6da7820f1d8ccb323a012fbf96ee137918ba1bcb35ac3c87f7885"
    assert verify_inclusion(0, 2, hashes[0], [hashes[1]], root)


@pytest.mark.parametrize("n", [*range(34), 63, 64, 65, 70])
def test_the_frontier_gives_the_root_of_the_definition(n):
    grown = b""
    for size in range(n):
        grown = frontier_extend(size, grown, LEAVES[size])
    assert grown == frontier_extend(0, b"", b"".join(LEAVES[:n]))
    assert grown == frontier_at(n, hash_at)
    assert frontier_root(grown) == plain_root(LEAVES[:n])


@given(st.lists(st.integers(0, 9), max_size=12))
def test_how_appends_are_cut_into_batches_never_reaches_the_root(batches):
    size, frontier = 0, b""
    for n in batches:
        leaves = b"".join(LEAVES[(size + i) % 70] for i in range(n))
        assert frontier_extend(size, frontier, leaves) == hash_ref.frontier_extend(size, frontier, leaves)
        frontier = frontier_extend(size, frontier, leaves)
        size += n
    assert frontier == frontier_extend(0, b"", b"".join(LEAVES[i % 70] for i in range(size)))


@pytest.mark.parametrize("n", [*range(1, 18), 32, 33])
def test_every_inclusion_proof_verifies_and_no_other_index_does(n):
    root = plain_root(LEAVES[:n])
    for index in range(n):
        proof = inclusion_proof(index, n, hash_at)
        assert verify_inclusion(index, n, LEAVES[index], proof, root)
        for other in range(n):
            assert verify_inclusion(other, n, LEAVES[index], proof, root) == (other == index)
        assert not verify_inclusion(index, n, LEAVES[index], [*proof, root], root)
        assert not proof or not verify_inclusion(index, n, LEAVES[index], proof[:-1], root)


@pytest.mark.parametrize("n", [*range(1, 18), 32, 33])
def test_every_consistency_proof_verifies_and_no_changed_one_does(n):
    root = plain_root(LEAVES[:n])
    for m in range(1, n + 1):
        old, proof = plain_root(LEAVES[:m]), consistency_proof(m, n, hash_at)
        assert verify_consistency(m, n, old, root, proof)
        assert (m == n) == (proof == [])
        assert not verify_consistency(m, n, old, root, [*proof, root])
        for i in range(len(proof)):
            changed = [*proof]
            changed[i] = bytes([proof[i][0] ^ 1]) + proof[i][1:]
            assert not verify_consistency(m, n, old, root, changed)


def test_a_proof_with_a_hash_of_another_length_or_too_many_hashes_fails():
    root = plain_root(LEAVES[:2])
    assert verify_inclusion(0, 2, LEAVES[0], [LEAVES[1]], root)
    assert not verify_inclusion(0, 2, LEAVES[0], [LEAVES[1] + b"\0"], root)
    assert not verify_inclusion(0, 2, LEAVES[0][:31], [LEAVES[1]], root)
    assert not verify_inclusion(0, 2**64, LEAVES[0], [LEAVES[1]] * 64, root)
    assert not verify_consistency(1, 2, LEAVES[0], root, [LEAVES[1][:31]])
    assert not verify_consistency(0, 2, EMPTY_ROOT, root, [])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: inclusion_proof(2, 2, hash_at), "inclusion_proof: index must be in [0, 2), got 2"),
        (lambda: consistency_proof(0, 2, hash_at), "consistency_proof: sizes must satisfy 0 < m <= n, got 0 and 2"),
        (lambda: consistency_proof(3, 2, hash_at), "consistency_proof: sizes must satisfy 0 < m <= n, got 3 and 2"),
        (lambda: frontier_extend(3, bytes(32), b""), "frontier_extend: 3 leaves need 2 hashes, got 32 bytes"),
        (lambda: frontier_extend(0, b"", bytes(31)), "frontier_extend: leaves must be 32 bytes each, got 31 bytes"),
        (lambda: frontier_root(bytes(33)), "frontier_root: hashes have 32 bytes each, got 33 bytes"),
    ],
)
def test_arguments_that_fit_no_tree_are_refused(call, text):
    with pytest.raises(ValueError, match=r"^\w+: ") as caught:
        call()
    assert str(caught.value) == text


def published_cases(folder):
    files = sorted(folder.rglob("*.json"))
    return [(str(file.relative_to(folder)), json.loads(file.read_text())) for file in files]


def decoded(text):
    return base64.b64decode(text or "")


def test_the_published_inclusion_cases_agree(data):
    cases = published_cases(data("tlog/vectors/merkle/inclusion"))
    assert len(cases) == 49
    for name, case in cases:
        proof = [decoded(p) for p in case["proof"] or []]
        got = verify_inclusion(
            case["leafIdx"], case["treeSize"], decoded(case["leafHash"]), proof, decoded(case["root"])
        )
        assert got == (not case["wantErr"]), name


def test_the_published_consistency_cases_agree(data):
    cases = published_cases(data("tlog/vectors/merkle/consistency"))
    assert len(cases) == 49
    for name, case in cases:
        proof = [decoded(p) for p in case["proof"] or []]
        roots = decoded(case["root1"]), decoded(case["root2"])
        got = verify_consistency(case["size1"], case["size2"], *roots, proof)
        assert got == (not case["wantErr"]), name
