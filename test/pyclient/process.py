"""Programs on terminals, spoken to as the original's SDK does: every receive of the
synchronous one gives up after ten silent seconds, and a missing exit frame is -1."""

import asyncio
import base64
import json
import threading

import websocket

SILENCE = 10  # seconds


def pty_url(base_url, sandbox_id, key):
    return base_url.replace("http", "ws", 1) + f"/sandboxes/{sandbox_id}/exec/pty?api_key={key}"


def init_frame(cmd, env, cwd, rows, cols, login_shell):
    if isinstance(cmd, str):
        cmd = ["bash", "-c", cmd]
    return json.dumps({"type": "init", "cmd": cmd, "env": env or {}, "cwd": cwd, "rows": rows, "cols": cols, "login_shell": login_shell})


def stdin_frame(data):
    return json.dumps({"type": "stdin", "data": base64.b64encode(data).decode()})


class Process:
    """A program; its output is collected by a thread."""

    def __init__(self, client, sandbox_id, cmd, env=None, cwd=None, rows=24, cols=80, login_shell=False):
        key = client.session.headers["X-API-Key"]
        self.socket = websocket.create_connection(pty_url(client.base_url, sandbox_id, key), timeout=SILENCE)
        self.output, self.code, self.fault, self.pid = b"", -1, None, None
        self.ready, self.printed = threading.Event(), threading.Condition()
        self.send(init_frame(cmd, env, cwd, rows, cols, login_shell))
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        if not self.ready.wait(SILENCE):
            raise TimeoutError("the program is not ready")

    def send(self, text):
        self.socket.send(text)

    def read(self):
        try:
            while True:
                text = self.socket.recv()
                if not text:
                    return
                self.take(json.loads(text))
        except websocket.WebSocketTimeoutException as err:
            self.fault = f"pty session error: {err}"
        except (websocket.WebSocketException, OSError):
            pass
        finally:
            self.ready.set()
            with self.printed:
                self.printed.notify_all()

    def take(self, frame):
        kind = frame["type"]
        if kind == "ready":
            self.pid = frame["pid"]
            self.ready.set()
        elif kind == "stdout":
            with self.printed:
                self.output += base64.b64decode(frame["data"])
                self.printed.notify_all()
        elif kind == "exit":
            self.code = frame["code"]
        elif kind == "error":
            self.fault = frame["message"]

    def write(self, data):
        self.send(stdin_frame(data))

    def kill(self, sig="KILL"):
        self.send(json.dumps({"type": "signal", "sig": sig}))

    def resize(self, rows, cols):
        self.send(json.dumps({"type": "resize", "rows": rows, "cols": cols}))

    def until(self, text, timeout=30):
        with self.printed:
            if not self.printed.wait_for(lambda: text in self.output, timeout):
                raise TimeoutError(f"{text!r} never came; {self.output[-200:]!r} {self.fault}")

    def wait(self, timeout=60):
        self.reader.join(timeout)
        if self.fault:
            raise RuntimeError(self.fault)
        return self.code

    def close(self):
        self.socket.close()


async def run_async(client, sandbox_id, cmd, **options):
    """Runs a program to its end with the asynchronous client; its code and output."""
    key = client.session.headers["X-API-Key"]
    options = {"env": None, "cwd": None, "rows": 24, "cols": 80, "login_shell": False} | options
    async with client.session.ws_connect(pty_url(client.base_url, sandbox_id, key), max_msg_size=4 << 20) as socket:
        await socket.send_str(init_frame(cmd, **options))
        first = await asyncio.wait_for(socket.receive_json(), SILENCE)
        if first["type"] != "ready":
            raise RuntimeError(first)
        code, output = -1, b""
        async for message in socket:
            frame = json.loads(message.data)
            if frame["type"] == "stdout":
                output += base64.b64decode(frame["data"])
            elif frame["type"] == "exit":
                code = frame["code"]
        return code, output
