"""The doctor finds what is wrong with an installation, and says so in a table and in JSON."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from droveway import buildcheck, doctor
from droveway.main import run


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_this_installation_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["doctor", "--json"])
    records = told(capsys)
    assert [record for record in records if record["state"] == "wrong"] == []
    assert code == 0
    assert all(list(record) == ["check", "state", "detail"] for record in records)
    assert records[-1] == {"check": "answer", "state": "ok", "detail": "all is well"}
    checks = {record["check"] for record in records}
    assert {"machine", "build", "files", "foreign", "kernels", "dependencies"} <= checks
    assert {"tensor", "vector", "splat", "storage", "coord"} <= checks
    assert {"disk", "locks"} <= checks


def test_each_kernel_of_each_path_is_compared_with_the_recorded_digests() -> None:
    golden = doctor.golden_digests()
    assert {name.split(".")[0] for name in golden} == set(doctor.kernel_paths())
    tested = [finding for finding in doctor.findings() if finding.check == "kernels"]
    assert all(finding.state in ("ok", "note") for finding in tested)
    assert any("digests as recorded" in finding.detail for finding in tested)


def test_a_kernel_with_another_result_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = doctor.golden_digests()
    name = min(golden)
    monkeypatch.setattr(doctor, "golden_digests", lambda: {**golden, name: "0" * 16})
    assert run(["doctor", "--json"]) == 1
    wrong = [record["detail"] for record in told(capsys) if record["check"] == "kernels" and record["state"] == "wrong"]
    assert wrong and all(f"{name} v" in text or f"{name} neon" in text for text in wrong)
    assert all(f"expected {'0' * 16}, got {golden[name]}" in text for text in wrong)


def test_a_digest_that_no_kernel_answers_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    golden = doctor.golden_digests()
    monkeypatch.setattr(doctor, "golden_digests", lambda: {**golden, "tensor.lost": "0" * 16})
    wrong = [finding for finding in doctor.findings() if finding.state == "wrong"]
    assert [finding.detail for finding in wrong] == ["golden digests that no kernel answers for: tensor.lost"]


def test_a_foreign_package_is_a_finding_not_a_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(buildcheck, "misfits", lambda: [buildcheck.Misfit("tensor", "is not ours", "some-arrays")])
    assert run(["doctor"]) == 1
    out, _ = capsys.readouterr()
    assert "WRONG  build         package 'tensor' (from the distribution 'some-arrays'): is not ours" in out
    assert out.endswith("\n1 wrong\n")


def test_a_check_that_fails_itself_is_a_finding_and_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> dict[str, str]:
        raise OSError("golden.toml is unreadable")

    monkeypatch.setattr(doctor, "golden_digests", broken)
    found = list(doctor.findings())
    (wrong,) = [finding for finding in found if finding.state == "wrong"]
    assert wrong == doctor.Finding("kernels", "wrong", "the check itself failed: OSError: golden.toml is unreadable")
    assert found[-1].check == "locks"


def test_a_changed_file_and_a_missing_file_differ_from_their_record(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"ours")
    recorded = "M0pxRVbHIiLO5Pu0VZ28NRBtqRyGqJEjr3wQz6E-Hkc"
    assert doctor._file_problem(file, "sha256", recorded).startswith(f"expected sha256 {recorded}, got ")
    found = doctor._file_problem(file, "sha256", recorded).rsplit(" ", 1)[1]
    assert doctor._file_problem(file, "sha256", found) == ""
    file.unlink()
    assert doctor._file_problem(file, "sha256", found) == "expected to read it, got: no such file or directory"


@pytest.mark.parametrize(
    ("found", "bounds", "fits"),
    [
        ("2.4.6", ">=2.0", True),
        ("1.26.4", ">=2.0", False),
        ("0.3.29", ">=0.3.29,<0.4", True),
        ("0.4", ">=0.3.29,<0.4", False),
        ("0.4.0rc1", "<0.4", False),
        ("10", ">=10.0.0", True),
        ("1.0.1", "==1.0.1", True),
        ("1.0.1", "!=1.0.1", False),
        ("3", ">2,<=3", True),
        ("1", "", True),
    ],
)
def test_versions_are_compared_by_number(found: str, bounds: str, fits: bool) -> None:
    assert doctor._within(found, bounds) is fits


def test_an_old_dependency_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    monkeypatch.setattr(metadata, "version", lambda name: "0.1")
    wrong = [finding.detail for finding in doctor.findings() if finding.check == "dependency"]
    assert "numpy: expected >=2.0, got 0.1" in wrong


def test_a_full_disk_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**20))
    states = {finding.state for finding in doctor.findings() if finding.check == "disk"}
    assert states == {"wrong"}
