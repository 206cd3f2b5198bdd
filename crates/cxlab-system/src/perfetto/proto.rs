//! A trace as Perfetto's protocol buffers: the few messages and fields of `perfetto/trace/trace_packet.proto` and
//! `perfetto/trace/track_event/*.proto` that a trace of track events needs.

use prost::Message;

use super::model::{Arg, Slice, Trace};

/// Every packet is of one sequence.
const SEQUENCE: u32 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED`: a sequence begins.
const CLEARED: u32 = 1;

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const COUNTER: i32 = 4;

#[derive(Message)]
struct Packets {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Message)]
struct TracePacket {
    /// Time of the packet in nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

#[derive(Message)]
struct CounterDescriptor {}

#[derive(Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
}

#[derive(Message)]
struct DebugAnnotation {
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

/// The identity of a track: 0 is a thread's, so numbers begin at 1.
fn uuid(track: usize) -> u64 {
    track as u64 + 1
}

impl Trace {
    /// The trace as a file for Perfetto.
    pub fn perfetto(&self) -> Vec<u8> {
        let mut packets = Vec::new();
        for (number, track) in self.tracks.iter().enumerate() {
            packets.push(TracePacket {
                trusted_packet_sequence_id: Some(SEQUENCE),
                sequence_flags: (number == 0).then_some(CLEARED),
                track_descriptor: Some(TrackDescriptor {
                    uuid: Some(uuid(number)),
                    name: Some(track.name.clone()),
                    parent_uuid: track.parent.map(uuid),
                    counter: track.is_counter.then_some(CounterDescriptor {}),
                }),
                ..TracePacket::default()
            });
        }
        for slice in &self.slices {
            add_slice(&mut packets, slice);
        }
        for count in &self.counts {
            let event = TrackEvent {
                r#type: Some(COUNTER),
                track_uuid: Some(uuid(count.track)),
                counter_value: i64::try_from(count.value).ok(),
                ..TrackEvent::default()
            };
            packets.push(packet(count.at_ps, event));
        }
        Packets { packet: packets }.encode_to_vec()
    }
}

fn packet(at_ps: u64, event: TrackEvent) -> TracePacket {
    TracePacket {
        timestamp: Some(at_ps / 1000),
        trusted_packet_sequence_id: Some(SEQUENCE),
        track_event: Some(event),
        ..TracePacket::default()
    }
}

/// Appends a slice and those inside of it. Events of one track at one time keep their order.
fn add_slice(packets: &mut Vec<TracePacket>, slice: &Slice) {
    let annotation = |(name, value): (&str, Arg)| {
        let (uint_value, string_value) = match value {
            Arg::Number(number) => (Some(number), None),
            Arg::Text(text) => (None, Some(text)),
        };
        DebugAnnotation {
            uint_value,
            string_value,
            name: Some(name.to_owned()),
        }
    };
    let request = [("request", Arg::Number(slice.request))].into_iter();
    let annotations = request.chain(slice.args.iter().cloned()).map(annotation);
    let begin = TrackEvent {
        debug_annotations: annotations.collect(),
        r#type: Some(SLICE_BEGIN),
        track_uuid: Some(uuid(slice.track)),
        categories: vec![slice.category.to_owned()],
        name: Some(slice.name.clone()),
        counter_value: None,
        flow_ids: slice.in_flow.then_some(slice.request).into_iter().collect(),
    };
    packets.push(packet(slice.begin_ps, begin));
    for inside in &slice.inside {
        add_slice(packets, inside);
    }
    let end = TrackEvent {
        r#type: Some(SLICE_END),
        track_uuid: Some(uuid(slice.track)),
        ..TrackEvent::default()
    };
    packets.push(packet(slice.end_ps, end));
}
