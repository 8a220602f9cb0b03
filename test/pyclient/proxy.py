"""A proxy for tests that cuts connections."""

import socket
import threading


class Cutter:
    """Forwards whole requests and then cuts both connections, `cuts` times; afterwards it
    forwards answers too. submissions counts the exec requests that went through."""

    def __init__(self, target, cuts):
        host, _, port = target.removeprefix("http://").partition(":")
        self.target, self.cuts, self.submissions = (host, int(port)), cuts, 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                down, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.forward, args=(down,), daemon=True).start()

    def forward(self, down):
        with down, socket.create_connection(self.target) as up:
            head, rest = b"", b""
            while b"\r\n\r\n" not in head:
                data = down.recv(65536)
                if not data:
                    return
                head += data
            head, _, rest = head.partition(b"\r\n\r\n")
            length = 0
            lines = head.split(b"\r\n")
            for line in lines:
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            while len(rest) < length:
                rest += down.recv(65536)
            lines = [line for line in lines if not line.lower().startswith(b"connection:")]
            up.sendall(b"\r\n".join(lines) + b"\r\nConnection: close\r\n\r\n" + rest)
            if not lines[0].startswith(b"POST ") or b"/exec " not in lines[0]:
                cut = False
            else:
                with self.lock:
                    self.submissions += 1
                    self.cuts -= 1
                    cut = self.cuts >= 0
            while not cut:
                data = up.recv(65536)
                if not data:
                    return
                down.sendall(data)

    def close(self):
        self.listener.close()
