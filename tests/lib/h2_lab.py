"""The event loop in which scripted HTTP/2 peers live, and the condition on which tests wait.

Peers are driven by coroutines in one background thread; the test's own thread looks at what they
recorded. `Lab.wait` is the only way to wait: for a condition, with a deadline, never for a time.
"""
import asyncio
import os
import threading
import time

DEADLINE_S = float(os.environ.get("BATON_TEST_DEADLINE", "60"))


class Lab:
    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.changed = threading.Condition()
        self._pulse = None
        self._tasks = set()
        self.failures = []  # exceptions of scripts: a test that ends with some has failed
        self._thread = threading.Thread(target=self._main, name="lab", daemon=True)
        self._thread.start()

    def _main(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def run(self, coroutine, timeout=DEADLINE_S):
        """Runs a coroutine in the loop and returns its result to the test's thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout)

    def call(self, function, *args):
        """Calls a plain function in the loop's thread and returns its result."""
        async def once():
            return function(*args)
        return self.run(once())

    def spawn(self, coroutine):
        """Starts a script; only in the loop's thread."""
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task):
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() and not isinstance(task.exception(), Gone):
            self.failures.append(task.exception())
        self.notify()

    def notify(self):
        """Something was recorded: every waiter looks again. Only in the loop's thread."""
        if self._pulse is not None and not self._pulse.done():
            self._pulse.set_result(None)
        self._pulse = None
        with self.changed:
            self.changed.notify_all()

    async def until(self, predicate):
        """The waiting of scripts."""
        while not predicate():
            if self._pulse is None:
                self._pulse = self.loop.create_future()
            await asyncio.shield(self._pulse)

    def wait(self, predicate, what, timeout=DEADLINE_S):
        """The waiting of tests: returns the predicate's value, or fails saying what did not happen."""
        end = time.monotonic() + timeout
        while True:
            value = predicate()
            if value:
                return value
            left = end - time.monotonic()
            if left <= 0:
                raise AssertionError(f"did not happen within {timeout:g} s: {what}")
            with self.changed:
                # Things outside the loop (a process, a metric) do not notify: look at them regularly.
                self.changed.wait(min(left, 0.02))

    def close(self):
        """Ends all scripts and the thread."""
        async def cancel():
            for task in list(self._tasks):
                task.cancel()
        self.run(cancel())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(5)
        self.loop.close()


class Gone(Exception):
    """The stream or its connection ended while a script was using it; scripts may let it pass."""
