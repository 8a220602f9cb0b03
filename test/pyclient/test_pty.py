"""Terminals, as the original's clients see them; see test_service.py for the environment."""

import asyncio
import hashlib
import unittest

import websocket

from client import AsyncClient, Client
from process import Process, pty_url, run_async
from test_service import IMAGE


class Pty(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = Client()
        cls.box = cls.client.create(IMAGE)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def start(self, cmd, **options):
        process = Process(self.client, self.box.id, cmd, **options)
        self.addCleanup(process.close)
        return process

    def test_forms(self):
        for cmd, options, code, output in (
            ("tty >/dev/null && echo yes; exit 3", {}, 3, b"yes\r\n"),
            (["stty", "size"], {"rows": 33, "cols": 99}, 0, b"33 99\r\n"),
            ("echo $TERM $A; pwd", {"env": {"A": "b"}, "cwd": "/nowhere"}, 0, b"xterm-256color b\r\n/\r\n"),
            (["no-such"], {}, 127, b"pty_runner: command not found: no-such\r\n"),
            ("shopt -q login_shell; echo $-", {"login_shell": True}, 0, None),
        ):
            with self.subTest(cmd=cmd):
                process = self.start(cmd, **options)
                self.assertEqual(process.wait(), code)
                if output is not None:
                    self.assertEqual(process.output, output)

    def test_conversation(self):
        process = self.start(["bash", "--norc"])
        process.write(b"echo $((40 + 2))\n")
        process.until(b"42\r\n")
        process.resize(40, 111)
        process.write(b"stty size\n")
        process.until(b"40 111\r\n")
        process.write(b"exit 5\n")
        self.assertEqual(process.wait(), 5)

    def test_silence(self):
        """Longer than the client waits for a word: pings keep it."""
        process = self.start("sleep 15; echo done")
        self.assertEqual((process.wait(), process.output), (0, b"done\r\n"))

    def test_tail(self):
        for _ in range(60):
            process = self.start("head -c 50000 /dev/zero | tr '\\0' x; printf END")
            self.assertEqual((process.wait(), len(process.output), process.output[-3:]), (0, 50003, b"END"))

    def test_paste(self):
        paste = b"0123456789\n" * 20000
        process = self.start("stty raw -echo; echo go; head -c 220000 | sha256sum")
        process.until(b"go")
        process.write(paste)
        process.until(hashlib.sha256(paste).hexdigest().encode())
        self.assertEqual(process.wait(), 0)

    def test_kill(self):
        process = self.start("echo go; sleep 600")
        process.until(b"go")
        process.kill()
        self.assertEqual(process.wait(), -9)
        process = self.start("echo go; sleep 601 & sleep 602; echo no")
        process.until(b"go")
        process.close()
        job = self.box.exec("n=0; while pgrep -f 'sleep 60[12]$' && [ $n -lt 500 ]; do sleep 0.02; n=$((n+1)); done; pgrep -f 'sleep 60[12]$'")
        self.assertEqual(job.exit_code, 1)

    def test_refusals(self):
        for path, key, status in ((self.box.id, "wrong", 403), (self.box.id, "", 401), ("nosuch", self.client.session.headers["X-API-Key"], 404)):
            with self.subTest(path=path, key=key), self.assertRaises(websocket.WebSocketBadStatusException) as caught:
                websocket.create_connection(pty_url(self.client.base_url, path, key), timeout=10)
            self.assertEqual(caught.exception.status_code, status)


class AsyncPty(unittest.IsolatedAsyncioTestCase):
    async def test_many(self):
        async with AsyncClient() as client:
            box = await client.create(IMAGE)
            ends = await asyncio.gather(*(run_async(client, box.id, f"echo {n}; exit {n}") for n in range(16)))
            self.assertEqual(ends, [(n, f"{n}\r\n".encode()) for n in range(16)])
            code, output = await run_async(client, box.id, "kill -9 $$")
            self.assertEqual((code, output), (-9, b""))


if __name__ == "__main__":
    unittest.main()
