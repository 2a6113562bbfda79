"""The bursts of `test_cookbook_stores.py` against real servers, for a person that has one:

    python tests/e2e/real_stores.py couchdb=http://127.0.0.1:5984 victoriametrics=http://127.0.0.1:8428

CouchDB or PouchDB Server must let anybody in; the database `scans` is made anew. VictoriaMetrics needs
`-retentionPeriod=100y`, as the samples are old; the series `parcel_kg` is deleted. A proxy turns away the first call,
and loses an answer.
"""

import json
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

from cookbook_stores import Answer, Couchdb, Store, Victoriametrics
from test_cookbook_stores import REFUSED, TASKS, name_of, run

VALIDATION = "function (doc) { if (typeof doc.scan.kg !== 'number') throw {forbidden: 'kg must be a number'}; }"


def call(method: str, url: str, body: bytes | None = None, headers: dict[str, str] = {}) -> tuple[int, str]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers}, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


class RealCouchdb(Couchdb):
    """CouchDB or PouchDB Server behind a proxy."""

    def __init__(self, url: str):
        super().__init__()
        self._real = url
        call("DELETE", f"{url}/scans")
        status, said = call("PUT", f"{url}/scans")
        assert status == 201, said
        design = json.dumps({"validate_doc_update": VALIDATION}).encode()
        status, said = call("PUT", f"{url}/scans/_design/scans", design)
        assert status == 201, said

    def carry_out(self, path, query, headers, body):
        status, said = call("POST", f"{self._real}{path}", body.encode())
        self.conflicts += said.count('"conflict"')
        return Answer(status, said, whole=status == 201 and '"error"' not in said)

    def held(self):
        _, said = call("GET", f"{self._real}/scans/_all_docs?include_docs=true")
        documents = [row["doc"] for row in json.loads(said)["rows"]]
        return [document["scan"]["parcel"] for document in documents if "scan" in document]


class RealVictoriametrics(Victoriametrics):
    """VictoriaMetrics behind a proxy."""

    SERIES = urlencode({"match[]": "parcel_kg"})

    def __init__(self, url: str):
        super().__init__()
        self._real = url
        call("POST", f"{url}/api/v1/admin/tsdb/delete_series?{self.SERIES}")

    def carry_out(self, path, query, headers, body):
        status, said = call("POST", f"{self._real}{path}", body.encode())
        return Answer(status, said or None, whole=status == 204)

    def held(self):
        call("GET", f"{self._real}/internal/force_flush")
        _, said = call("GET", f"{self._real}/api/v1/export?{self.SERIES}")
        times = [time for line in said.splitlines() for time in json.loads(line)["timestamps"]]
        return [str(time).removeprefix("1764000000") for time in times]


REAL: dict[str, type[Store]] = {"couchdb": RealCouchdb, "victoriametrics": RealVictoriametrics}


def check(name: str, store: Store, settled: dict[str, tuple[str, str | None]]) -> None:
    """Fails unless the page is true of the real server, too."""
    failed = {id: ended for id, ended in settled.items() if ended[0] != "succeeded" and id not in REFUSED}
    assert not failed, failed
    for id in [id for id in REFUSED if name_of(id) == name]:
        # PouchDB Server says so of an id that CouchDB calls `illegal_docid`.
        reasons = (REFUSED[id][1], "bad_request") if id == "_couchdb-reserved" else (REFUSED[id][1],)
        assert settled[id][0] == "failed" and settled[id][1] in reasons, settled[id]
    held = store.held()
    assert set(held) == {f"{number:03}" for number in range(TASKS)}, held
    if name == "couchdb":
        assert len(held) == TASKS and store.conflicts > 0
    else:
        assert len(held) > TASKS
    fates = [f"{call.fate} {call.status}" for call in store.calls]
    print(f"{name}: {TASKS} tasks, {len(held)} held, {len(fates)} calls: {', '.join(fates)}")


def main() -> None:
    if not sys.argv[1:]:
        sys.exit(__doc__)
    urls = dict(word.split("=", 1) for word in sys.argv[1:])
    stores = {name: REAL[name](url) for name, url in urls.items()}
    with tempfile.TemporaryDirectory(prefix="groupage-stores-") as folder:
        settled, _ = run(Path(folder), stores)
    for name, store in stores.items():
        check(name, store, settled)
        store.stop()


if __name__ == "__main__":
    main()
