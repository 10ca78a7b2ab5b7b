"""`droveway sweep`: the same words and files for any number of processes; refusals; Ctrl-C; memory."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from droveway.commands.sweep import parameters_of, seeds_of
from droveway.exits import UsageProblem

Ask = Callable[..., Any]
ARGUMENTS = ("--seeds", "0..1", "--set", "plan.planner=greedy,swap", "--ticks", 6)


def test_two_processes_print_and_write_what_one_does(ask_process: Ask, yard: Path, tmp_path: Path) -> None:
    told = [
        ask_process("sweep", yard, *ARGUMENTS, "--jobs", jobs, "-o", tmp_path / str(jobs), "--verify", 1, *more)
        for jobs, more in ((1, ()), (2, ()), (1, ("--json",)))
    ]
    assert [one.code for one in told] == [0, 0, 0]
    assert told[0].out.replace(f"{tmp_path}/1", f"{tmp_path}/2") == told[1].out
    results = [(tmp_path / jobs / "results.jsonl").read_bytes() for jobs in "12"]
    assert results[0] == results[1]
    heads = [
        [(run.name, (run / "HEAD").read_bytes()) for run in sorted((tmp_path / jobs / "runs").iterdir())]
        for jobs in "12"
    ]
    assert heads[0] == heads[1] and len(heads[0]) == 4
    answer = told[2].records[-1]
    assert (answer["cases"], answer["verified"], answer["interrupted"]) == (4, 1, False)
    assert f"digest   {answer['digest']}\n" in told[0].out
    assert told[2].err == f"{tmp_path}/1: 4 runs were there already\n"


def test_a_set_has_each_measure_over_its_seeds(ask: Ask, yard: Path) -> None:
    records = ask("sweep", yard, *ARGUMENTS, "--json").records
    assert [record["type"] for record in records] == ["set", "set", "answer"]
    assert [record["parameters"] for record in records[:2]] == [{"plan.planner": "greedy"}, {"plan.planner": "swap"}]
    services = records[0]["metrics"]["services"]
    assert list(services) == ["mean", "median", "least", "most", "seeds"]
    assert services["least"] <= services["median"] <= services["most"] and services["seeds"] == 2
    text = ask("sweep", yard, *ARGUMENTS).out
    row = next(line for line in text.splitlines() if line.split()[0] == "services")
    assert [float(cell) for cell in row.split()[1:]] == [
        float(f"{services[name]:.1f}") for name in ("mean", "median", "least", "most")
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--seeds", "3..1"), "--seeds: expected whole numbers below 2^64 in rising order, got '3..1'"),
        (("--seeds", "x"), "--seeds: expected A..B or A,B,…, got 'x'"),
        (("--seeds", "0..99999999"), "--seeds: expected at most 1000000 seeds, got more"),
        (("--seeds", "1", "--set", "plan.plannr=swap"), "plan.plannr: unknown key (nearest: plan.planner)"),
        (("--seeds", "1", "--set", "plan.w_idle=1,many"), "plan.w_idle: expected a number, got text 'many'"),
        (("--seeds", "1", "--set", "plan.w_idle"), "--set: expected KEY=VALUE,VALUE…, got 'plan.w_idle'"),
        (
            ("--seeds", "1", "--set", "tick_ns=1", "--set", "tick_ns=2"),
            "--set: expected each key once, got tick_ns twice",
        ),
        (("--seeds", "1,1"), "seeds: expected different seeds, got one twice"),
    ],
)
def test_what_is_asked_wrongly_is_told_before_anything_runs(
    arguments: tuple[str, ...], error: str, ask: Ask, yard: Path, tmp_path: Path
) -> None:
    told = ask("sweep", yard, *arguments, "-o", tmp_path / "out")
    assert (told.code, told.out, told.err) == (2, "", f"error: {error}\n")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_refused(ask: Ask, yard: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").touch()
    told = ask("sweep", yard, "--seeds", "1", "-o", tmp_path / "out")
    assert told.code == 2
    assert told.err == f"error: {tmp_path}/out: expected a new folder or one of this sweep, got one with notes.txt\n"
    told = ask("sweep", yard, "--seeds", "1", "-o", tmp_path / "no" / "out")
    assert (told.code, told.err.splitlines()[1]) == (2, f"hint: mkdir -p {tmp_path}/no")


def test_ctrl_c_ends_after_the_runs_at_hand_and_the_same_command_goes_on(yard: Path, tmp_path: Path, ask: Ask) -> None:
    line = [sys.executable, "-m", "droveway", "sweep", str(yard), "--seeds", "0..400", "--ticks", "20", "--jobs", "2",
            "-o", str(tmp_path / "out")]  # fmt: skip
    running = subprocess.Popen(
        line, cwd="/", text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    cases = tmp_path / "out" / "cases"
    for _ in range(600):
        if cases.is_dir() and len(list(cases.glob("0*.json"))) > 1:
            break
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # a terminal sends it to every process
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    there = len(list(cases.glob("0*.json")))
    assert f"runs     {there} (interrupted)\n" in out
    assert "Traceback" not in err
    assert err.splitlines()[-1] == f"{tmp_path}/out: holds {there} finished runs; the same command goes on"
    assert not (tmp_path / "out" / "results.jsonl").exists()
    assert 1 < there < 401
    told = ask("sweep", yard, "--seeds", "0..400", "--ticks", 21, "-o", tmp_path / "out")
    assert told.code == 2 and told.err.endswith("holds another sweep: ticks 20, not 21\n")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_the_parent_stays_small(yard: Path, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from droveway.main import run\n"
        "if __name__ == '__main__':\n"
        f"    code = run(['sweep', {str(yard)!r}, '--seeds', '0..3', '--ticks', '5', '--jobs', '2', '--json'])\n"
        "    status = Path('/proc/self/status').read_text()\n"
        "    print(code, status.split('VmHWM:')[1].split()[0])\n"
    )
    (tmp_path / "small.py").write_text(code)
    told = subprocess.run([sys.executable, str(tmp_path / "small.py")], capture_output=True, text=True, cwd="/",
                          env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=True)  # fmt: skip
    code_text, kilobytes = told.stdout.splitlines()[-1].split()
    assert code_text == "0"
    assert int(kilobytes) < 64 * 1024


def test_seeds_and_values_are_read_as_they_are_written() -> None:
    assert seeds_of("3") == [3] and seeds_of("2..4,9") == [2, 3, 4, 9]
    read = parameters_of(
        ["plan.planner=swap", 'name="a,b",c', "plan.w_idle=1,-2.5e3", "agents.box=[0,0,1,1],[0, 0, 2, 2]"]
    )
    assert read == {
        "plan.planner": ["swap"], "name": ["a,b", "c"], "plan.w_idle": [1, -2500.0],
        "agents.box": [[0, 0, 1, 1], [0, 0, 2, 2]],
    }  # fmt: skip
    assert parameters_of(["map.file=a\nb=1"])["map.file"] == ["a\nb=1"]
    with pytest.raises(UsageProblem, match=re.escape("--set: expected KEY=VALUE,VALUE…, got '=1'")):
        parameters_of(["=1"])
    assert json.loads(json.dumps(read)) == read
