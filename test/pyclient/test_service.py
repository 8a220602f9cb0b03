"""The service, as the original's clients see it. The environment says where it is:
SANDBOX_BASE_URL, SANDBOX_API_KEY, and ORCHARD_TEST_IMAGE, an image it has."""

import asyncio
import os
import time
import unittest

import aiohttp
import requests

from client import AsyncClient, Client
from proxy import Cutter

IMAGE = os.environ.get("ORCHARD_TEST_IMAGE", "host")
PATCH = "--- a/p.txt\n+++ b/p.txt\n@@ -1 +1,2 @@\n l1\n+l2"


class Sync(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = Client()
        cls.box = cls.client.create(IMAGE)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def status(self, call, *args, **kwargs):
        with self.assertRaises(requests.HTTPError) as caught:
            call(*args, **kwargs)
        return caught.exception.response.status_code, caught.exception.response.json()["detail"]

    def test_exec(self):
        job = self.box.exec("echo o; echo e >&2; exit 3", env={"A": "1"})
        self.assertEqual((job.status, job.exit_code, job.stdout, job.stderr, job.error), ("failed", 3, "o\n", "e\n", None))
        self.assertEqual(job.sandbox_id, self.box.id)
        self.assertEqual(job.command, "echo o; echo e >&2; exit 3")
        self.assertAlmostEqual(job.created_at, time.time(), delta=600)

    def test_exec_forms(self):
        for command, options, stdout in (
            (["printf", "a b"], {}, "a"),  # joined without quotes
            ("pwd", {"cwd": "/tmp"}, "/tmp\n"),
            ("echo $WORD", {"env": {"WORD": "w"}}, "w\n"),
            ("cat; echo done", {}, "done\n"),
            (r"printf 'a\377\342\202z\000'", {}, b"a\xff\xe2\x82z\x00".decode(errors="replace")),
            ("printf 'a\\n\\n\\nb'", {}, "a\n\n\nb"),
            ("shopt -q login_shell && echo login", {"login_shell": True}, "login\n"),
            ("head -c 3000000 /dev/zero | tr '\\0' x", {}, "x" * 3000000),
        ):
            with self.subTest(command=command):
                self.assertEqual(self.box.exec(command, **options).stdout, stdout)

    def test_timeout(self):
        job = self.box.exec("echo partial; sleep 60", timeout=1)
        self.assertEqual((job.status, job.exit_code, job.stdout), ("failed", 124, "partial\n"))
        self.assertEqual(job.stderr, "\nCommand timed out after 1s and was killed")
        self.assertEqual(job.error, "Command timed out after 1s")
        self.assertEqual(self.box.exec("echo alive").stdout, "alive\n")

    def test_signal_and_own_124(self):
        self.assertEqual(self.box.exec("kill -9 $$").exit_code, -9)
        job = self.box.exec("exit 124")
        self.assertEqual((job.exit_code, job.error), (124, None))

    def test_background(self):
        job = self.box.exec("sleep 300 & echo started", timeout=60)
        self.assertEqual((job.exit_code, job.stdout), (0, "started\n"))

    def test_jobs(self):
        first = self.box.submit("sleep 0.5; echo first")
        second = self.box.submit("echo second")
        job = self.client.request("GET", f"/jobs/{second}/wait", params={"timeout": 60})
        self.assertEqual((job["status"], job["stdout"]), ("succeeded", "second\n"))
        self.assertEqual(self.client.request("GET", f"/jobs/{first}")["stdout"], "first\n")
        self.assertEqual(self.status(self.client.request, "GET", "/jobs/none"), (404, "Job none not found"))

    def test_files(self):
        for name, content in (("x", b""), ("deep/er/y", b"\x00\xff" * 1000), ("a é 报告 '\"#?%2F", b"odd")):
            with self.subTest(name=name):
                path = "/tmp/py/" + name
                answer = self.box.upload(path, content)
                self.assertEqual((answer["success"], answer["path"], answer["size"]), (True, path, len(content)))
                self.assertEqual(self.box.download(path), content)
        entries = {entry["name"]: entry for entry in self.box.list("/tmp/py")}
        self.assertEqual(entries["deep"]["type"], "directory")
        self.assertEqual((entries["x"]["type"], entries["x"]["size"]), ("file", 0))
        time.strptime(entries["x"]["modified"], "%Y-%m-%dT%H:%M:%S")
        self.assertIn("tmp", [entry["name"] for entry in self.box.list()])
        self.assertEqual(self.status(self.box.download, "/nope"), (404, "File not found: /nope"))
        self.assertEqual(self.status(self.box.list, "/nope"), (404, "Path not found: /nope"))

    def test_apply_patch(self):
        cwd = self.box.exec("pwd").stdout.strip()
        self.box.upload(cwd + "/p.txt", b"l1\n")
        answer = self.box.apply_patch(PATCH)
        self.assertTrue(answer["success"], answer)
        self.assertEqual(self.box.download(cwd + "/p.txt"), b"l1\nl2\n")
        answer = self.box.apply_patch(PATCH)
        self.assertEqual((answer["success"], answer["exit_code"]), (False, 1))
        self.assertIn("error: patch failed: p.txt:1", answer["stderr"])
        self.assertEqual(self.box.apply_patch("garbage")["exit_code"], 128)

    def test_lifecycle(self):
        box = Client(prefix="team").create(IMAGE, cpu="1", memory="512Mi")
        self.assertRegex(box.id, "^team-[0-9a-f]{8}$")
        answer = box.heartbeat()
        self.assertEqual((answer["status"], answer["sandbox_id"]), ("ok", box.id))
        state = self.client.request("GET", box.path)
        self.assertEqual((state["ready"], state["status"], state["cpu"], state["memory"]), (True, "ready", "1", "512Mi"))
        again = self.client.create(IMAGE, sandbox_id=box.id, cpu="1", memory="512Mi")
        self.assertEqual(again.id, box.id)
        self.assertEqual(self.status(self.client.create, "other", sandbox_id=box.id)[0], 409)
        for _ in range(2):
            self.assertEqual(box.delete(), {"status": "deleted", "sandbox_id": box.id})
        self.client.tracked.discard(box.id)
        self.assertEqual(self.status(self.client.request, "GET", box.path), (404, f"Sandbox {box.id} not found"))
        self.assertEqual(self.status(box.exec, "true"), (404, f"Sandbox {box.id} not found"))

    def test_heartbeats(self):
        box = self.client.create(IMAGE)
        box.start_heartbeat(interval=0.2)
        self.assertEqual(box.exec("sleep 1; echo still").stdout, "still\n")
        box.delete()

    def test_refusals(self):
        self.assertEqual(self.status(self.client.request, "POST", "/sandboxes", json={})[0], 422)
        self.assertEqual(self.status(self.client.create, IMAGE, sandbox_id="BAD")[0], 422)
        self.assertEqual(self.status(self.box.exec, "true", timeout=-1)[0], 422)
        self.assertEqual(self.status(Client(api_key="wrong").create, IMAGE), (403, "Invalid API key"))
        answer = requests.get(self.client.base_url + "/resources")
        self.assertEqual((answer.status_code, answer.json()["detail"]), (401, "Missing API key. Please provide X-API-Key header."))

    def test_resources(self):
        answer = self.client.request("GET", "/resources")
        self.assertEqual(answer["status"], "ok")
        for field in ("total_capacity", "total_allocatable", "total_requested", "available"):
            self.assertEqual(set(answer[field]), {"cpu", "memory_bytes"})

    def test_cut_connections(self):
        """Six submissions of one command, of which five lose their connection: it runs once."""
        proxy = Cutter(self.client.base_url, cuts=5)
        self.addCleanup(proxy.close)
        box = type(self.box)(Client(base_url=proxy.url), self.box.id)
        job = box.exec("echo x >> /tmp/cut; sleep 5; echo end", timeout=30)
        self.assertEqual((job.status, job.stdout, proxy.submissions), ("succeeded", "end\n", 6))
        self.assertEqual(self.box.exec("cat /tmp/cut").stdout, "x\n")
        # With its answer in hand the client may ask the same again, and means it.
        box.exec("echo x >> /tmp/cut; sleep 5; echo end", timeout=30)
        self.assertEqual(self.box.exec("cat /tmp/cut").stdout, "x\nx\n")

    def test_idle_connection(self):
        """A connection that was idle for a while is still good."""
        self.box.exec("true")
        time.sleep(6)
        self.assertEqual(self.box.exec("echo idle").stdout, "idle\n")


class Async(unittest.IsolatedAsyncioTestCase):
    async def test_session(self):
        async with AsyncClient() as client:
            box = await client.create(IMAGE)
            job = await box.exec("echo o; exit 2")
            self.assertEqual((job.status, job.exit_code, job.stdout), ("failed", 2, "o\n"))
            await box.upload("/tmp/f", b"\x00async")
            self.assertEqual(await box.download("/tmp/f"), b"\x00async")
            with self.assertRaises(aiohttp.ClientResponseError) as caught:
                await box.download("/nope")
            self.assertEqual(caught.exception.status, 404)
            with self.assertRaises(aiohttp.ClientResponseError) as caught:
                await client.create(IMAGE, sandbox_id="BAD")
            self.assertEqual(caught.exception.status, 422)

    async def test_many(self):
        async with AsyncClient() as client:
            boxes = await asyncio.gather(*(client.create(IMAGE, cpu="1", memory="256Mi") for _ in range(4)))
            self.assertEqual(len({box.id for box in boxes}), 4)
            jobs = await asyncio.gather(*(box.exec(f"echo {n}") for box in boxes for n in range(8)))
            self.assertEqual([job.stdout for job in jobs], [f"{n}\n" for _ in boxes for n in range(8)])

    async def test_cut_connections(self):
        async with AsyncClient() as client:
            box = await client.create(IMAGE)
            proxy = Cutter(client.base_url, cuts=5)
            self.addCleanup(proxy.close)
            async with AsyncClient(base_url=proxy.url) as broken:
                job = await type(box)(broken, box.id).exec("echo x >> /tmp/cut; sleep 5", timeout=30)
            self.assertEqual((job.status, proxy.submissions), ("succeeded", 6))
            self.assertEqual((await box.exec("cat /tmp/cut")).stdout, "x\n")


if __name__ == "__main__":
    unittest.main()
