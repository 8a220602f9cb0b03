"""What the service has beyond the original, in real sandboxes; see test_service.py."""

import base64
import io
import json
import tarfile
import time
import unittest

import requests

from client import Client
from test_service import IMAGE


class Extensions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = Client()
        cls.box = cls.client.create(IMAGE)
        cls.url = f"{cls.client.base_url}/sandboxes/{cls.box.id}"

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def test_ports(self):
        self.box.exec("mkdir -p /tmp/www && echo hello > /tmp/www/page; nohup python3 -m http.server -d /tmp/www 8123 >/dev/null 2>&1 &")
        port = self.client.request("POST", f"/sandboxes/{self.box.id}/ports", json={"port": 8123, "ttl_seconds": 60})
        deadline = time.monotonic() + 30
        while (page := requests.get(port["url"] + "page")).status_code == 502 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual((page.status_code, page.text), (200, "hello\n"))
        self.assertIn("sandbox", page.headers["Content-Security-Policy"])
        self.client.request("DELETE", f"/sandboxes/{self.box.id}/ports/{port['id']}")
        self.assertEqual(requests.get(port["url"] + "page").status_code, 410)

    def test_stream(self):
        command = {"command": "for i in 1 2 3; do echo $i; sleep 0.1; done; exit 3"}
        names, text = [], b""
        with self.client.session.post(self.url + "/exec?stream=1", json=command, stream=True) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
            for line in answer.iter_lines():
                if line.startswith(b"event: "):
                    names.append(line[7:].decode())
                elif line.startswith(b"data: "):
                    data = json.loads(line[6:])
                    if names[-1] == "stdout":
                        text += base64.b64decode(data["data"])
        self.assertEqual((names[0], names[-1], text, data["exit_code"]), ("job", "exit", b"1\n2\n3\n", 3))

    def test_tar(self):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for name in ("a", "deep/with space", "bad\udcff", "n" * 255):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode, entry.mtime = len(name.encode(errors="surrogateescape")), 0o640, 1000000000
                tar.addfile(entry, io.BytesIO(name.encode(errors="surrogateescape")))
        put = self.client.session.put(self.url + "/tar?path=/tmp/tree", data=packed.getvalue())
        self.assertEqual((put.status_code, put.json()["files"]), (200, 4), put.text)
        got = self.client.session.get(self.url + "/tar?path=/tmp/tree")
        with tarfile.open(fileobj=io.BytesIO(got.content)) as tar:
            entries = {entry.name: (entry.mode, entry.mtime) for entry in tar if entry.isfile()}
        self.assertEqual(entries, {name: (0o640, 1000000000) for name in ("a", "deep/with space", "bad\udcff", "n" * 255)})


if __name__ == "__main__":
    unittest.main()
