"""A Prometheus that has measured the same of each node, in every step."""

import json
import re

from telemetry_fake import FakePrometheus, series, vector

STEP = 300
NOW = 1000 * STEP + 100.0
_QUERY = re.compile(r"(\w+)_over_time\(\((\w+)\)\[299s:15s\]\)\[(\d+)s:300s\] @ (\d+)")


class Measured:
    """A Prometheus with a clock; nodes have 1000 millicores and 4000 bytes in each step."""

    def __init__(self, fake: FakePrometheus) -> None:
        self.now = NOW
        self.nodes = ["n", "ip-other"]
        self.most_steps = 1000
        self.asked: list[tuple[str, str, int, int]] = []
        """Function, query, number of the last step, and how many."""
        self.status = 200
        fake.answer = self.answer

    def answer(self, promql: str) -> tuple[int, bytes]:
        if self.status != 200:
            return self.status, b'{"status":"error","error":"ill"}'
        if promql == "vector(time())":
            return 200, vector(series(self.now, self.now))
        function, query, seconds, end = _QUERY.fullmatch(promql).groups()  # type: ignore[union-attr]
        count, last = (int(seconds) + 1) // STEP, int(end) // STEP
        self.asked.append((function, query, last, count))
        if count > self.most_steps:
            return 422, b'{"status":"error","error":"too many samples"}'
        value = {"avg": {"cpu": 1000, "memory": 4000}, "stddev": {"cpu": 10, "memory": 0}}
        times = range((last - count + 1) * STEP, (last + 1) * STEP, STEP)
        points = [[time, str(value[function][query])] for time in times]
        result = [{"metric": {"instance": it}, "values": points} for it in self.nodes]
        data = {"resultType": "matrix", "result": result}
        return 200, json.dumps({"status": "success", "data": data}).encode()
