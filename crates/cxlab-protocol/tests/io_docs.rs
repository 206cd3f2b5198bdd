//! `docs/reference/cxl-io.md` shows packets and accesses of the model. With `CXLAB_UPDATE_DOCS=1`
//! the test updates the document.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/shared/documents.rs"]
mod documents;

use cxlab_engine::units::{Bytes, Hpa};
use cxlab_protocol::io::enumerate::{Goal, Phase, Region, enumerate};
use cxlab_protocol::io::space::{DeviceType, FunctionSpec};
use cxlab_protocol::io::tlp::{Framing, Kind, Tlp};
use cxlab_protocol::io::tree::{ComponentBelow, RootComplex};

fn packets() -> String {
    let mut text = String::from(
        "| packet | class | payload | header, no flits | on the link | header, flits | on the link |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for kind in Kind::ALL {
        let tlp = Tlp::new(kind, 64);
        let sizes = [Framing::NonFlit, Framing::Flit].map(|framing| {
            let (header, wire) = (tlp.header_bytes(framing), tlp.wire_bytes(framing));
            format!("{header} | {wire}")
        });
        let (class, payload) = (kind.class(), tlp.payload_bytes());
        let [before, flits] = sizes;
        text += &format!("| `{kind:?}` | {class:?} | {payload} | {before} | {flits} |\n");
    }
    text
}

/// The accesses to a host bridge with two switches of four devices of 4 GiB, in one region.
fn accesses() -> String {
    let device = || ComponentBelow::endpoint(FunctionSpec::endpoint(DeviceType::Type3, 4 << 30));
    let switch = || ComponentBelow::switch((0..4).map(|_| device()));
    let mut bridge = RootComplex::one(Hpa(0xfe00_0000), [switch(), switch()]);
    let region = Region {
        base: Hpa(16 << 30),
        size: Bytes(32 << 30),
        granularity: Bytes(256),
        targets: vec![0, 4, 1, 5, 2, 6, 3, 7],
        host_only: true,
        lock: false,
    };
    let goal = Goal {
        mmio_base: Hpa(0x380_0000_0000),
        mmio_bytes: 256 << 20,
        max_read_request: 512,
        regions: vec![region],
    };
    let log = enumerate(&mut bridge, &goal).unwrap();
    assert_eq!(goal.mismatch(0, &bridge, 16), Ok(None));
    let mut text = String::from(
        "| phase | configuration reads | configuration writes | memory reads | memory writes |\n\
         |---|---|---|---|---|\n",
    );
    for phase in Phase::ALL {
        let [a, b, c, d] = log.count(phase);
        text += &format!("| {phase:?} | {a} | {b} | {c} | {d} |\n");
    }
    text
}

#[test]
fn the_document_has_the_packets_and_an_enumeration() {
    documents::compare(
        "reference/cxl-io.md",
        &[("packets", packets()), ("accesses", accesses())],
    );
}
