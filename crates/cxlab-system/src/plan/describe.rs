//! The plan as data, for programs that show it.

use cxlab_protocol::PortId;
use serde_json::{Value, json};

use super::{End, Plan, PlannedHost};
use crate::picture;

impl Plan {
    /// The resolved system: names, links with their parameters, each host's address map in bytes,
    /// the proof that it has no deadlock, and where a picture has its components (`x` to the right and `y` downwards, in
    /// the order of hosts, devices, switches).
    pub fn describe(&self) -> Value {
        let links = self.links.iter().map(|link| {
            json!({
                "a": self.end_name(link.a),
                "b": self.end_name(link.b),
                "link_class": self.link_path(link),
                "params": link.params,
            })
        });
        let ends = (0..self.hosts.len())
            .map(|number| ("host", End::Host(number, 0)))
            .chain((0..self.devices.len()).map(|number| ("device", End::Device(number, 0))))
            .chain((0..self.graph.switches.len()).map(|number| ("switch", End::Switch(number, 0))));
        let positions = picture::positions(self);
        let nodes = ends.zip(positions).map(|((kind, end), (x, y))| {
            json!({ "name": self.end_name(end), "kind": kind, "x": x, "y": y })
        });
        let maps = self.hosts.iter().map(|host| self.address_map(host));
        let proof = self.tables.proof();
        json!({
            "plan_hash": self.hash,
            "scenario": self.scenario,
            "hosts": self.hosts.iter().map(|host| &host.name).collect::<Vec<_>>(),
            "devices": self.devices.iter().map(|device| &device.name).collect::<Vec<_>>(),
            "switches": self.graph.switches.iter().map(|switch| &switch.name).collect::<Vec<_>>(),
            "links": links.collect::<Vec<_>>(),
            "nodes": nodes.collect::<Vec<_>>(),
            "deadlock_proof": {
                "virtual_channels": proof.virtual_channels,
                "paths": self.tables.paths().name(),
                "channels": proof.channels,
                "dependencies": proof.dependencies,
            },
            "address_maps": maps.collect::<Vec<_>>(),
            "telemetry": self.telemetry(),
            "throttles": self.throttles(),
            "notes": self.notes,
        })
    }

    /// Devices that tell their load: what they serve at most, the requests inside that keep them just full, and from how
    /// many on they tell each load.
    fn telemetry(&self) -> Vec<Value> {
        let all = self.devices.iter().zip(&self.qos.devices);
        let told = all.filter_map(|(device, qos)| {
            let qos = qos.as_ref()?;
            let thresholds = qos.config.thresholds;
            Some(json!({
                "device": device.name,
                "bandwidth_gbps": qos.bandwidth.as_gb_per_s(),
                "limited_by": if qos.is_limited_by_ports { "ports" } else { "medium" },
                "full": qos.full,
                "optimal": thresholds.optimal,
                "moderate": thresholds.moderate,
                "severe": thresholds.severe,
            }))
        });
        told.collect()
    }

    /// Throttles of hosts, with the rates in force.
    fn throttles(&self) -> Vec<Value> {
        let all = self.hosts.iter().zip(&self.qos.throttles);
        let throttles = all.filter_map(|(host, throttle)| {
            let throttle = &throttle.as_ref()?.params;
            Some(json!({
                "host": host.name,
                "period_ns": throttle.period().0 as f64 / 1e3,
                "step_gbps": throttle.step().as_gb_per_s(),
                "least_gbps": throttle.least().as_gb_per_s(),
                "moderate_cut": throttle.moderate_cut,
                "severe_cut": throttle.severe_cut,
            }))
        });
        throttles.collect()
    }

    /// The windows of a host: its addresses, and whose memory they are.
    fn address_map(&self, host: &PlannedHost) -> Value {
        let device = |port: &PortId| &self.devices[usize::from(port.0) - self.hosts.len()].name;
        let windows = host.map.windows().iter().map(|window| {
            let targets = window.targets.iter().zip(&window.first);
            let targets =
                targets.map(|(port, first)| json!({ "device": device(port), "dpa": first.0 }));
            json!({
                "base": window.base.0,
                "bytes": window.size.0,
                "ways": window.targets.len(),
                "granularity": self.scenario.address_map.granularity,
                "xor_maps": self.scenario.address_map.xor_maps(),
                "targets": targets.collect::<Vec<_>>(),
            })
        });
        json!({ "host": host.name, "windows": windows.collect::<Vec<_>>() })
    }
}
