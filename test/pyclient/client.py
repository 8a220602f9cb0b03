"""A test client that behaves on the wire as the original service's Python SDK does.

It is written from a description of that SDK's traffic (the requests, retries, sleeps
and timeouts), so that the service can be tested against what such clients do, their
odd habits included. It is for tests only; programs in Go use internal/sandbox/httpclient.
"""

import asyncio
import atexit
import base64
import os
import random
import threading
import time
import uuid

import aiohttp
import requests

ATTEMPTS = 3  # of every request, in all
TERMINAL = ("succeeded", "failed")


def full_id(prefix, sandbox_id):
    """The id that the SDK asks for: prefixed once, or None to let the service choose."""
    if not prefix:
        return sandbox_id
    sandbox_id = sandbox_id or uuid.uuid4().hex[:8]
    return sandbox_id if sandbox_id.startswith(prefix + "-") else f"{prefix}-{sandbox_id}"


def create_body(image, sandbox_id, block_network, cpu, memory, timeout):
    return {
        "image": image,
        "block_network": block_network,
        "sandbox_id": sandbox_id,
        "cpu": cpu,
        "memory": memory,
        "timeout": timeout,
    }


def exec_body(command, timeout, cwd, env, login_shell, wait):
    body = {
        "command": command,
        "timeout_seconds": timeout,
        "cwd": cwd,
        "env": env,
        "login_shell": login_shell,
    }
    if wait:
        body["wait"] = True
    return body


class Job:
    """A command; the five fields without a default must be in every answer."""

    def __init__(self, answer):
        self.job_id = answer["job_id"]
        self.sandbox_id = answer["sandbox_id"]
        self.command = answer["command"]
        self.status = answer["status"]
        self.created_at = answer["created_at"]
        self.stdout = answer.get("stdout", "")
        self.stderr = answer.get("stderr", "")
        self.exit_code = answer.get("exit_code")
        self.error = answer.get("error")
        self.answer = answer


def retry_after(value):
    try:
        return float(value) + random.uniform(0, 2)
    except (TypeError, ValueError):
        return 5 + random.uniform(0, 2)


class Client:
    """The synchronous client, over requests."""

    def __init__(self, base_url=None, api_key=None, timeout=1200, prefix=None, auto_cleanup=True):
        self.base_url = (base_url or os.environ.get("SANDBOX_BASE_URL", "http://localhost:8000")).rstrip("/")
        self.prefix = prefix or os.environ.get("SANDBOX_PREFIX")
        self.timeout = timeout
        self.session = requests.Session()
        self.session.headers["X-API-Key"] = api_key or os.environ.get("SANDBOX_API_KEY", "")
        self.tracked = set()
        if auto_cleanup:
            atexit.register(self.close)

    def request(self, method, path, timeout=None, **kwargs):
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response = self.session.request(method, self.base_url + path, timeout=timeout or self.timeout, **kwargs)
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError):
                if attempt == ATTEMPTS:
                    raise
                time.sleep(attempt)
                continue
            if response.status_code == 503 and attempt < ATTEMPTS:
                time.sleep(retry_after(response.headers.get("Retry-After")))
                continue
            response.raise_for_status()
            return response.json()

    def create(self, image, sandbox_id=None, block_network=True, cpu=None, memory=None, timeout=None):
        body = create_body(image, full_id(self.prefix, sandbox_id), block_network, cpu, memory, timeout)
        made = self.request("POST", "/sandboxes", json=body)["sandbox_id"]
        self.tracked.add(made)
        self.wait_ready(made, timeout or 3600)
        return Sandbox(self, made)

    def wait_ready(self, sandbox_id, timeout):
        try:
            state = self.request("GET", f"/sandboxes/{sandbox_id}/wait", params={"timeout": timeout})
        except requests.HTTPError as err:
            if err.response.status_code == 408:
                self.delete(sandbox_id)
                raise TimeoutError(f"sandbox {sandbox_id} was not ready within {timeout}s") from err
            if err.response.status_code not in (404, 405):
                raise
            deadline = time.monotonic() + timeout
            while time.monotonic() < deadline:
                state = self.request("GET", f"/sandboxes/{sandbox_id}")
                if state["ready"] or state["status"] == "failed":
                    break
                time.sleep(random.uniform(1, 2))
        if not (state["ready"] or state["status"] == "ready"):
            raise RuntimeError(f"sandbox {sandbox_id}: {state['status']}: {state['status_message']}")

    def delete(self, sandbox_id):
        self.tracked.discard(sandbox_id)
        return self.request("DELETE", f"/sandboxes/{sandbox_id}", timeout=5)

    def close(self):
        for sandbox_id in list(self.tracked):
            try:
                self.delete(sandbox_id)
            except requests.RequestException:
                pass
        self.session.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Sandbox:
    """One sandbox of a Client."""

    def __init__(self, client, sandbox_id):
        self.client, self.id, self.path = client, sandbox_id, f"/sandboxes/{sandbox_id}"
        self.stop_beating = None

    def exec(self, command, timeout=None, cwd=None, env=None, login_shell=False):
        patience = timeout or 300
        http_timeout = patience + 60
        try:
            body = exec_body(command, timeout, cwd, env, login_shell, wait=True)
            answer = self.client.request("POST", self.path + "/exec", json=body, timeout=http_timeout)
        except Exception:  # the SDK takes whatever went wrong for a service without wait
            body = exec_body(command, timeout, cwd, env, login_shell, wait=False)
            answer = self.client.request("POST", self.path + "/exec", json=body, timeout=http_timeout)
        deadline = time.monotonic() + patience + 60
        while answer["status"] not in TERMINAL:
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {answer['job_id']} did not end")
            time.sleep(0.1)
            answer = self.client.request("GET", f"/jobs/{answer['job_id']}")
        return Job(answer)

    def submit(self, command, timeout=None):
        return self.client.request("POST", self.path + "/exec", json=exec_body(command, timeout, None, None, False, wait=False))["job_id"]

    def apply_patch(self, patch, timeout=30):
        return self.client.request("POST", self.path + "/apply_patch", json={"patch": patch, "timeout_seconds": timeout})

    def upload(self, path, content):
        body = {"path": path, "content": base64.b64encode(content).decode()}
        return self.client.request("POST", self.path + "/files", json=body)

    def download(self, path):
        return base64.b64decode(self.client.request("GET", self.path + "/files", params={"path": path})["content"])

    def list(self, path="/"):
        return self.client.request("GET", self.path + "/files/list", params={"path": path})["files"]

    def heartbeat(self):
        return self.client.request("POST", self.path + "/heartbeat")

    def start_heartbeat(self, interval=60):
        self.stop_beating = threading.Event()

        def beat():
            while not self.stop_beating.wait(interval):
                try:
                    self.heartbeat()
                except requests.RequestException:
                    pass

        threading.Thread(target=beat, daemon=True).start()

    def delete(self):
        if self.stop_beating:
            self.stop_beating.set()
        return self.client.delete(self.id)


class AsyncClient:
    """The asynchronous client, over aiohttp; use it as an async context."""

    def __init__(self, base_url=None, api_key=None, timeout=1200, prefix=None):
        self.base_url = (base_url or os.environ.get("SANDBOX_BASE_URL", "http://localhost:8000")).rstrip("/")
        self.prefix = prefix or os.environ.get("SANDBOX_PREFIX")
        self.timeout = timeout
        self.headers = {"X-API-Key": api_key or os.environ.get("SANDBOX_API_KEY", "")}
        self.tracked = set()
        self.session = None

    async def __aenter__(self):
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
        self.session = aiohttp.ClientSession(headers=self.headers, connector=connector)
        return self

    async def __aexit__(self, *_):
        for sandbox_id in list(self.tracked):
            try:
                await self.delete(sandbox_id)
            except (aiohttp.ClientError, asyncio.TimeoutError):
                pass
        await self.session.close()

    async def request(self, method, path, timeout=None, **kwargs):
        limit = aiohttp.ClientTimeout(total=timeout or self.timeout)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self.session.request(method, self.base_url + path, timeout=limit, **kwargs) as response:
                    if response.status != 503 or attempt == ATTEMPTS:
                        response.raise_for_status()
                        # Raises for any content type but application/json.
                        return await response.json()
                    pause = retry_after(response.headers.get("Retry-After"))
            except aiohttp.ClientResponseError:
                raise
            except (aiohttp.ClientError, asyncio.TimeoutError):
                if attempt == ATTEMPTS:
                    raise
                pause = attempt + random.uniform(0, 1)
            await asyncio.sleep(pause)

    async def create(self, image, sandbox_id=None, block_network=True, cpu=None, memory=None, timeout=None):
        body = create_body(image, full_id(self.prefix, sandbox_id), block_network, cpu, memory, timeout)
        made = (await self.request("POST", "/sandboxes", json=body))["sandbox_id"]
        self.tracked.add(made)
        try:
            state = await self.request("GET", f"/sandboxes/{made}/wait", params={"timeout": timeout or 3600})
        except aiohttp.ClientResponseError as err:
            if err.status != 408:
                raise
            await self.delete(made)
            raise TimeoutError(f"sandbox {made} was not ready") from err
        if not (state["ready"] or state["status"] == "ready"):
            raise RuntimeError(f"sandbox {made}: {state['status']}: {state['status_message']}")
        return AsyncSandbox(self, made)

    async def delete(self, sandbox_id):
        self.tracked.discard(sandbox_id)
        return await self.request("DELETE", f"/sandboxes/{sandbox_id}", timeout=5)


class AsyncSandbox:
    """One sandbox of an AsyncClient."""

    def __init__(self, client, sandbox_id):
        self.client, self.id, self.path = client, sandbox_id, f"/sandboxes/{sandbox_id}"

    async def exec(self, command, timeout=None, cwd=None, env=None, login_shell=False):
        patience = timeout or 300
        try:
            body = exec_body(command, timeout, cwd, env, login_shell, wait=True)
            answer = await self.client.request("POST", self.path + "/exec", json=body, timeout=patience + 60)
        except Exception:  # as in Sandbox.exec
            body = exec_body(command, timeout, cwd, env, login_shell, wait=False)
            answer = await self.client.request("POST", self.path + "/exec", json=body, timeout=patience + 60)
        deadline = time.monotonic() + patience + 60
        while answer["status"] not in TERMINAL:
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {answer['job_id']} did not end")
            await asyncio.sleep(0.1)
            answer = await self.client.request("GET", f"/jobs/{answer['job_id']}")
        return Job(answer)

    async def upload(self, path, content):
        body = {"path": path, "content": base64.b64encode(content).decode()}
        return await self.client.request("POST", self.path + "/files", json=body)

    async def download(self, path):
        answer = await self.client.request("GET", self.path + "/files", params={"path": path})
        return base64.b64decode(answer["content"])

    async def delete(self):
        return await self.client.delete(self.id)
