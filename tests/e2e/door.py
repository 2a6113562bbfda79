"""The deployed HTTP API, called through its door: signed requests, answered by API Gateway or by the function behind
it."""

import json
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from stack import Stack


class Door:
    """The API as somebody with these credentials meets it."""

    def __init__(self, stack: Stack, environment: dict[str, str]):
        self._credentials = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
        self._region = environment["AWS_DEFAULT_REGION"]
        # The output's host is one that only a name server of its own would know; the emulator takes the API's id in the
        # path.
        api = stack.outputs["ApiUrl"].split("://")[1].split(".")[0]
        self._url = f"{environment['AWS_ENDPOINT_URL']}/_aws/execute-api/{api}/{quote('$default')}"

    def call(self, method: str, path: str, body: dict | None = None, query: str = "", **headers) -> tuple[int, dict]:
        """The status and the body of the answer; `headers` beside those that every request has."""
        return self._ask(method, path, body, query, lambda *of: self._signed(*of) | headers)

    def call_unsigned(self, method: str, path: str) -> int:
        """The status, without a signature."""
        return self._ask(method, path, None, "", lambda *_: {})[0]

    def _ask(self, method, path, body, query, headers_of) -> tuple[int, dict]:
        url = f"{self._url}{path}" + (f"?{query}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        request = Request(url, data, headers_of(method, url, data), method=method)
        try:
            # A proxy of the machine's must not see requests to itself.
            with build_opener(ProxyHandler({})).open(request) as response:
                return response.status, json.load(response)
        except HTTPError as refused:
            return refused.code, json.loads(refused.read() or b"{}")

    def _signed(self, method: str, url: str, data: bytes | None) -> dict[str, str]:
        request = AWSRequest(method, url, {"Content-Type": "application/json"} if data else {}, data)
        SigV4Auth(self._credentials, "execute-api", self._region).add_auth(request)
        return dict(request.headers)
