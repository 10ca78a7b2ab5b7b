"""Many producers, one writer at a time: requests queue here, and one of them commits for all that wait.

There is exactly one committer at any moment, but it need not be a thread of its own. A producer that finds nobody
committing leads: it commits the queue's first requests, its own among them, as one group with one sync, hands the lead
to the next that waits, and returns. A single producer so commits in its own thread; handing each append to another
thread and back would cost it more than the rest of the append (docs/decisions.md has the figures). Requests for which
nobody waits (`submit`) are led by a thread that starts with the first of them and ends at `close`.

Those that were acknowledged together come back together, a moment later. A leader that began at once would find half
of them and make the others wait for the sync after: so it waits until as many are there as were waiting when the last
group ended, but no longer than a part of what that group's commit took.

Each waits at a gate, and all gates of a group are opened at once, when the next may lead already.

The queue is bounded in bytes; above that producers wait before they enqueue.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from storage import _kernels
from storage.errors import ClosedError, LimitError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from storage.event import Event
    from storage.event_batch import Prepared
    from storage.receipt import Receipt

QUEUE_BYTES_MAX = 8 << 20
GROUP_BYTES_MAX = 8 << 20
GROUP_EVENTS_MAX = 1 << 16
PATIENCE = 0.25  # of the last commit's time a leader waits for those that it acknowledged
PATIENT_SECONDS_MIN = 0.001  # after shorter commits nobody is waited for

_native: Any = _kernels
Gate, open_gates = _native.Gate, _native.open_gates


class Request:
    """Encoded events of one caller on their way into a group commit, then what came of them."""

    __slots__ = ("durable", "error", "events", "future", "prepared", "receipts", "size_bytes", "told", "wake")

    def __init__(self, events: Sequence[Event], prepared: Prepared, durable: bool) -> None:
        self.events = events
        self.prepared = prepared
        self.durable = durable
        self.size_bytes = sum(map(len, prepared.rows))
        self.receipts: list[Receipt] | None = None
        self.error: BaseException | None = None
        self.future: Future[list[Receipt]] | None = None
        self.wake: Any = None  # the Gate at which a producer waits
        self.told: list[Any] = []  # after it led: the gates that are to be opened

    @property
    def done(self) -> bool:
        """Whether receipts or an error are there."""
        return self.receipts is not None or self.error is not None


class Committer:
    """The queue of one ledger. `commit` gives each request of a group its receipts or its error; it is never called
    by two threads at once.  `afterwards` is called by whoever led, when the next may lead already.
    """

    def __init__(self, commit: Callable[[list[Request]], None], afterwards: Callable[[], None]) -> None:
        self._commit = commit
        self._afterwards = afterwards
        self._lock = threading.Lock()
        self._watchers: list[threading.Lock] = []  # of threads that wait for room in the queue, or for the last leader
        self._queue: deque[Request] = deque()
        self._queue_bytes = 0
        self._leader: Request | None = None
        self._group: list[Request] = []  # being committed by the leader
        self._resolvable: deque[Request] = deque()
        self._closed: str | None = None
        # How many requests a leader waits for, until when, and the gate at which it stands.
        self._expected = 1
        self._patient_until = 0.0
        self._gate: threading.Lock | None = None
        self._thread: threading.Thread | None = None
        self._last: Callable[[], None] | None = None
        self._thread_wake = threading.Lock()

    def run(self, request: Request) -> list[Receipt]:
        """Commit a request and wait for it. Raises what the commit gave it, and ClosedError.

        An exception that breaks the waiting off (KeyboardInterrupt) leaves the request committed or not.
        """
        try:
            self._enqueue(request)
            if request.wake is not None:
                request.wake.wait()
            if not request.done:
                self._lead()
                self._afterwards()
        except BaseException:
            self._give_up(request)
            raise
        if request.error is not None:
            raise request.error
        assert request.receipts is not None
        return request.receipts

    def submit(self, request: Request) -> Future[list[Receipt]]:
        """Queue a request and return, at once unless the queue is full. Raises ClosedError."""
        from concurrent.futures import Future

        request.future = Future()
        request.future.set_running_or_notify_cancel()
        self._start_thread()
        self._enqueue(request)
        return request.future

    def _enqueue(self, request: Request) -> None:
        """Put a request into the queue, once it has room; it leads where nobody does."""
        while True:
            with self._lock:
                self._check_open()
                if not self._queue or self._queue_bytes + request.size_bytes <= QUEUE_BYTES_MAX:
                    self._join(request)
                    return
                self._open_gate()  # who could come into the group is here
                watcher = self._watch()
            watcher.acquire()

    def _join(self, request: Request) -> None:
        if self._leader is not None and request.future is None:
            request.wake = Gate()
        self._queue_bytes += request.size_bytes
        self._queue.append(request)
        if self._gate is not None and len(self._queue) >= self._expected:
            self._open_gate()
        if self._leader is None:
            self._leader = request
            if request.future is not None:
                self._wake_thread()

    def _watch(self) -> threading.Lock:
        """A lock to acquire, without the queue's lock, that is free when the queue has changed."""
        watcher = threading.Lock()
        watcher.acquire()
        self._watchers.append(watcher)
        return watcher

    def _tell_watchers(self) -> None:
        while self._watchers:
            _open(self._watchers[-1])
            self._watchers.pop()

    def _lead(self) -> None:
        """Commit one group, then pass the lead on. The caller leads."""
        self._gather()
        with self._lock:
            self._take()
        start = time.perf_counter()
        try:
            self._commit(self._group)
        except Exception as error:  # a bug of ours: whatever it is, nobody may wait for ever
            for request in self._group:
                if not request.done:
                    request.error = error
        seconds = time.perf_counter() - start
        with self._lock:
            self._expected = len(self._group) + len(self._queue)
            self._patient_until = start + seconds * (1 + PATIENCE) if seconds > PATIENT_SECONDS_MIN else 0.0
        self._pass_on()

    def _gather(self) -> None:
        """Wait for those that the last group acknowledged, for a part of the time that its commit took."""
        if self._patient_until == 0.0:
            return
        seconds = self._patient_until - time.perf_counter()
        if seconds <= 0:
            return
        with self._lock:
            if len(self._queue) >= self._expected or self._watchers:
                return
            self._gate = gate = threading.Lock()
            gate.acquire()
        gate.acquire(timeout=seconds)
        with self._lock:
            self._gate = None

    def _open_gate(self) -> None:
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.release()

    def _take(self) -> None:
        """Make the queue's first requests the group, within its bounds. The lock is held."""
        group, queue, size, events = self._group, self._queue, 0, 0
        while queue:
            request = queue[0]
            size += request.size_bytes
            events += len(request.prepared.ids)
            if group and (size > GROUP_BYTES_MAX or events > GROUP_EVENTS_MAX):
                break
            group.append(request)  # interrupted here it is in both
            self._queue_bytes -= request.size_bytes
            queue.popleft()
        if self._watchers:
            self._tell_watchers()

    def _pass_on(self) -> None:
        """Let the next in the queue lead, and tell the group. After an interruption it goes on where it stopped."""
        leader = self._leader
        assert leader is not None
        with self._lock:
            while self._group:
                request = self._group[-1]
                if request.done:
                    self._tell(request, leader)
                elif request is not leader and request not in self._queue:
                    self._queue_bytes += request.size_bytes
                    self._queue.appendleft(request)
                self._group.pop()
            self._appoint(leader)
        open_gates(leader.told)  # without the lock: who is woken may want it
        while self._resolvable:  # without lead and lock: callbacks may append
            _resolve(self._resolvable.popleft())

    def _tell(self, request: Request, leader: Request) -> None:
        if request.future is not None:
            self._resolvable.append(request)
        elif request.wake is not None and request is not leader:
            leader.told.append(request.wake)

    def _appoint(self, last: Request) -> None:
        """Give the lead to the first in the queue, or to nobody. The lock is held; `last` led until now."""
        self._gate = None
        self._leader = next_one = self._queue[0] if self._queue else None
        if next_one is not None and next_one.wake is not None:
            last.told.insert(0, next_one.wake)
        self._wake_leader()

    def _wake_leader(self) -> None:
        """Tell the leader that it leads, unless it waits at a gate."""
        if self._leader is None:
            self._tell_watchers()
        elif self._leader.future is not None:
            self._wake_thread()

    def _give_up(self, request: Request) -> None:
        """Take a request back whose producer waits no more; one that another commits stays in its group."""
        with self._lock:
            if request in self._queue:
                self._queue.remove(request)
                self._queue_bytes -= request.size_bytes
        if self._leader is request:
            self._pass_on()
        with self._lock:  # where the interruption came between appointing and waking
            self._wake_leader()
            leader = self._leader
        open_gates(request.told)
        if leader is not None and leader.wake is not None:
            open_gates((leader.wake,))

    def _start_thread(self) -> None:
        with self._lock:
            self._check_open()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="droveway-committer", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError as error:
                    self._thread = None  # the next one tries again
                    raise LimitError(f"submit: no thread can be started to commit: {error}") from error

    def _serve(self) -> None:
        """The thread: leads whenever a request for which nobody waits has the lead."""
        while True:
            leader = self._leader
            if leader is not None and leader.future is not None:
                self._lead()
                self._afterwards()
            elif leader is None and self._closed is not None:
                break
            else:
                self._thread_wake.acquire()
        if self._last is not None:
            self._last()

    def _wake_thread(self) -> None:
        _open(self._thread_wake)  # where it is awake already, it looks again before it sleeps

    def close(self, why: str) -> None:
        """Commit what is queued, end the thread; what comes later is refused with `why`. A second call does nothing."""
        mine = self._thread is threading.current_thread()  # a callback of a future closes the ledger
        while True:
            with self._lock:
                self._closed = self._closed or why
                self._tell_watchers()
                leader = self._leader
                if leader is None:
                    thread, self._thread = self._thread, None
                    break
                watcher = self._watch()
            if mine and leader.future is not None:
                self._lead()
            else:
                watcher.acquire()
        if thread is not None:
            self._wake_thread()
            if not mine:
                thread.join()

    def finish(self, last: Callable[[], None]) -> None:
        """End the thread, call `last`, take no lock: for a finalizer, which may run in any thread at any moment."""
        self._closed = self._closed or "the ledger was not closed"
        thread = self._thread
        if thread is None:
            last()
            return
        self._last = last
        self._wake_thread()
        if thread is not threading.current_thread():
            thread.join()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ClosedError(self._closed)


def _open(lock: threading.Lock) -> None:
    """Release a lock that somebody waits for; one that was released already, before an interruption, stays so."""
    with suppress(RuntimeError):
        lock.release()


def _resolve(request: Request) -> None:
    assert request.future is not None
    if request.error is not None:
        request.future.set_exception(request.error)
    else:
        assert request.receipts is not None
        request.future.set_result(request.receipts)
