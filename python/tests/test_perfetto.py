"""Traces for Perfetto, read by Perfetto's own message definitions.

The query of the guide runs in the trace processor, a program that the package `perfetto` downloads.
Where the program cannot be had, the same sums are made from the messages alone. `make test-site`
runs the query in the trace processor as WebAssembly.
"""

from collections import defaultdict

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from cxlab._command import main


@pytest.fixture(scope="module")
def run(root, tmp_path_factory):
    """A run with a request log and a trace."""
    folder = tmp_path_factory.mktemp("perfetto")
    trace = folder / "t.pftrace"
    scenario = root / "scenarios" / "spine-leaf-16.toml"
    arguments = [
        *("--set", "measure.requests=2000", "--quiet", "--requests", "--out", str(folder)),
        *("--perfetto", str(trace), "--perfetto-requests", "300"),
    ]
    assert main(["run", str(scenario), *arguments]) == 0
    return folder


@pytest.fixture(scope="module")
def packets(run):
    trace = Trace()
    trace.ParseFromString((run / "t.pftrace").read_bytes())
    return trace.packet


def slices(packets):
    """Category, arguments, track, begin and end of every slice, in nanoseconds."""
    open_slices = defaultdict(list)
    found = []
    for packet in packets:
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        stack = open_slices[event.track_uuid]
        if event.type == event.TYPE_SLICE_BEGIN:
            args = {one.name: one.uint_value for one in event.debug_annotations}
            stack.append((event.categories[0], args, event.track_uuid, packet.timestamp))
        elif event.type == event.TYPE_SLICE_END:
            found.append((*stack.pop(), packet.timestamp))
    assert not any(open_slices.values())
    return found


def test_every_request_has_its_stages_to_the_picosecond(run, packets):
    import pyarrow.parquet as parquet

    rows = parquet.read_table(run / "requests.parquet").to_pylist()
    latency = {(row["issued_ps"], row["completed_ps"]) for row in rows}
    whole, stages = {}, defaultdict(int)
    for category, args, _, begin, end in slices(packets):
        assert begin == args["begin_ps"] // 1000
        assert end == (args["begin_ps"] + args["duration_ps"]) // 1000
        if category == "request":
            whole[args["request"]] = args
        elif category == "stage":
            stages[args["request"]] += args["duration_ps"]
    assert sorted(whole) == list(range(1, 301))
    assert {number: args["duration_ps"] for number, args in whole.items()} == stages
    for args in whole.values():
        assert (args["begin_ps"], args["begin_ps"] + args["duration_ps"]) in latency


def test_tracks_are_described_and_counters_have_values(packets):
    tracks = {}
    for packet in packets:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
    names = {track.name for track in tracks.values()}
    assert {"requests", "wire", "queue length", "credits M2S Req"} <= names
    counters = {uuid for uuid, track in tracks.items() if track.HasField("counter")}
    events = [packet.track_event for packet in packets if packet.HasField("track_event")]
    assert all(event.track_uuid in tracks for event in events)
    counts = [event for event in events if event.type == event.TYPE_COUNTER]
    assert {event.track_uuid for event in counts} == counters
    assert all(event.counter_value >= 0 for event in counts)
    flows = [event.flow_ids[0] for event in events if event.flow_ids]
    assert set(flows) == set(range(1, 301))


def test_the_query_of_the_guide_finds_every_request(root, run):
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    guide = (root / "docs" / "guide" / "why-is-it-slow.md").read_text()
    query = guide.split("```sql\n")[1].split("```")[0]
    try:
        config = TraceProcessorConfig(load_timeout=20)
        processor = TraceProcessor(trace=str(run / "t.pftrace"), config=config)
    except Exception as error:
        pytest.skip(f"the trace processor cannot be had: {error}")
    with processor:
        rows = list(processor.query(query))
        whole = processor.query(
            "SELECT EXTRACT_ARG(arg_set_id, 'debug.request') AS request, "
            "EXTRACT_ARG(arg_set_id, 'debug.duration_ps') AS latency_ps "
            "FROM slice WHERE category = 'request'"
        )
        assert {row.request: row.latency_ps for row in rows} == {
            row.request: row.latency_ps for row in whole
        }
        assert len(rows) == 300
