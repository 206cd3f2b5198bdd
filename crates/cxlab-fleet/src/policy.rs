//! Policies that decide how much of a VM's memory is pool memory: their catalog.

use cxlab_engine::catalog::{Entry, read_params};
use cxlab_engine::choice;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::sensitivity::slowdown;

/// A VM that is to be placed.
#[derive(Clone, PartialEq, Debug)]
pub struct Vm {
    /// Arrival time, in seconds.
    pub start_s: u64,
    /// Departure time, in seconds.
    pub end_s: u64,
    /// Number of cores.
    pub cores: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Share of time lost at the reference latency.
    pub loss: f64,
    /// Share of its memory that the VM never touches.
    pub untouched: f64,
    /// Number of its sensitivity class.
    pub class: u8,
    /// Largest share of its memory that may be pool memory.
    pub most_pool: f64,
    /// Prediction errors for this VM, from a standard normal distribution: of `untouched`,
    /// and of the logarithm of `loss`.
    pub error: [f64; 2],
}

/// A host that the VM may be placed on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostView {
    /// Size of its local DRAM, in MiB.
    pub local_mib: u64,
    /// Free local DRAM, in MiB.
    pub local_free_mib: u64,
    /// Number of free slices of the devices that it reaches.
    pub pool_free: u32,
    /// Unloaded latency of pool memory, divided by local latency.
    pub ratio: f64,
}

/// Pool memory that a policy wants for a VM, in MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WantedPool {
    /// The amount if memory is plentiful.
    pub mib: u32,
    /// The largest amount if local DRAM is short.
    pub most_mib: u32,
}

/// Decides how a VM's memory is divided between local DRAM and pool.
pub trait PoolPolicy: std::fmt::Debug + Send + Sync {
    /// The pool memory that the policy wants for a VM on a host.
    fn wish(&self, vm: &Vm, host: &HostView) -> WantedPool;
}

/// Number of pool slices of a VM on a host: those wanted, fewer if the pool is short, and more if
/// local DRAM is short. The rest of its memory is local. `None` if the memory is not available.
#[inline]
pub fn split(vm: &Vm, host: &HostView, wish: WantedPool, slice_mib: u32) -> Option<u32> {
    let memory = vm.memory_mib;
    let allowed = (f64::from(memory) * vm.most_pool) as u32;
    let most = wish.most_mib.max(wish.mib).min(allowed).min(memory);
    let most = (most / slice_mib).min(host.pool_free);
    let free = u32::try_from(host.local_free_mib).unwrap_or(u32::MAX);
    let short = match memory.saturating_sub(free) {
        0 => 0,
        short => short.div_ceil(slice_mib),
    };
    let slices = (wish.mib / slice_mib).min(most).max(short);
    (slices <= most).then_some(slices)
}

const fn entry<P>(name: &'static str, summary: &'static str) -> Entry<Box<dyn PoolPolicy>>
where
    P: PoolPolicy + DeserializeOwned + JsonSchema + 'static,
{
    Entry {
        name,
        summary,
        schema: P::json_schema,
        build: |params| Ok(Box::new(read_params::<P>(params)?)),
    }
}

/// All pool policies, in the order of `cxlab list`.
pub static CATALOG: &[Entry<Box<dyn PoolPolicy>>] = &[
    entry::<AllLocal>("none", "all memory is local"),
    entry::<Static>(
        "static",
        "the same part of every VM's memory is pool memory (Pond, Fig. 3)",
    ),
    entry::<OnDemand>(
        "on-demand",
        "pool memory only for what does not fit into local DRAM",
    ),
    entry::<Watermark>(
        "watermark",
        "local memory up to a part of the host's local DRAM, pool memory above it",
    ),
    entry::<Untouched>(
        "untouched",
        "what the VM is predicted never to touch is pool memory (Pond, section 4.4)",
    ),
    entry::<Predicted>(
        "predicted",
        "all memory of VMs predicted to be insensitive, else what is predicted untouched (Pond)",
    ),
];

choice!(
    /// A pool policy from the catalog.
    PoolPolicyChoice,
    CATALOG,
    Box<dyn PoolPolicy>
);

impl PoolPolicyChoice {
    /// The policy of this name, without parameters.
    pub fn named(kind: &str) -> PoolPolicyChoice {
        PoolPolicyChoice {
            kind: kind.to_owned(),
            params: serde_json::Map::new(),
        }
    }
}

impl Default for PoolPolicyChoice {
    fn default() -> Self {
        PoolPolicyChoice::named("static")
    }
}

fn part_of(vm: &Vm, part: f64) -> u32 {
    (f64::from(vm.memory_mib) * part.clamp(0.0, 1.0)) as u32
}

/// All memory is local.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct AllLocal {}

impl PoolPolicy for AllLocal {
    fn wish(&self, _vm: &Vm, _host: &HostView) -> WantedPool {
        WantedPool {
            mib: 0,
            most_mib: 0,
        }
    }
}

/// The same share of every VM's memory is pool memory, in whole slices.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Static {
    /// Share that is pool memory. 0 to 1. Default 0.5.
    #[schemars(range(min = 0.0, max = 1.0))]
    fraction: f64,
}

impl Default for Static {
    fn default() -> Self {
        Static { fraction: 0.5 }
    }
}

impl PoolPolicy for Static {
    fn wish(&self, vm: &Vm, _host: &HostView) -> WantedPool {
        let mib = part_of(vm, self.fraction);
        WantedPool { mib, most_mib: mib }
    }
}

/// Pool memory only for the memory that does not fit into local DRAM.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct OnDemand {
    /// Largest share of a VM's memory that is pool memory. 0 to 1. Default 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    most: f64,
}

impl Default for OnDemand {
    fn default() -> Self {
        OnDemand { most: 1.0 }
    }
}

impl PoolPolicy for OnDemand {
    fn wish(&self, vm: &Vm, _host: &HostView) -> WantedPool {
        WantedPool {
            mib: 0,
            most_mib: part_of(vm, self.most),
        }
    }
}

/// Local memory up to a share of the host's local DRAM, and pool memory above it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Watermark {
    /// Share of local DRAM above which VMs get pool memory. 0 to 1. Default 0.7.
    #[schemars(range(min = 0.0, max = 1.0))]
    mark: f64,
    /// Largest share of a VM's memory that is pool memory. 0 to 1. Default 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    most: f64,
}

impl Default for Watermark {
    fn default() -> Self {
        Watermark {
            mark: 0.7,
            most: 1.0,
        }
    }
}

impl PoolPolicy for Watermark {
    fn wish(&self, vm: &Vm, host: &HostView) -> WantedPool {
        let mark = (host.local_mib as f64 * self.mark) as u64;
        let after = host.local_mib - host.local_free_mib + u64::from(vm.memory_mib);
        let most_mib = part_of(vm, self.most);
        WantedPool {
            mib: after.saturating_sub(mark).min(u64::from(most_mib)) as u32,
            most_mib,
        }
    }
}

/// The memory that is predicted to stay untouched is pool memory.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Untouched {
    /// Safety margin subtracted from the prediction, as a share of the VM's memory. 0
    /// to 1. Default 0.32: with `error` and the default of `fleet.untouched` it
    /// reproduces Pond's model, which finds 25 % of memory untouched and is wrong for 4
    /// % of VMs (section 6.4, recollected; a test).
    #[schemars(range(min = 0.0, max = 1.0))]
    margin: f64,
    /// Standard deviation of the prediction's error, as a share of the VM's memory. 0
    /// to 1. Default 0.18 (see `margin`).
    #[schemars(range(min = 0.0, max = 1.0))]
    error: f64,
    /// Largest share of a VM's memory that is pool memory if local DRAM is short, unless the
    /// prediction is larger. 0 to 1. Default 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    most: f64,
}

impl Default for Untouched {
    fn default() -> Self {
        Untouched {
            margin: 0.32,
            error: 0.18,
            most: 0.0,
        }
    }
}

impl Untouched {
    fn mib(&self, vm: &Vm) -> u32 {
        part_of(vm, vm.untouched + self.error * vm.error[0] - self.margin)
    }
}

impl PoolPolicy for Untouched {
    fn wish(&self, vm: &Vm, _host: &HostView) -> WantedPool {
        let mib = self.mib(vm);
        WantedPool {
            mib,
            most_mib: part_of(vm, self.most).max(mib),
        }
    }
}

/// All memory of VMs that are predicted to lose little, and the
/// predicted untouched memory of the others.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Predicted {
    /// Largest predicted loss of time, with all memory in the pool, of a VM that counts as
    /// insensitive. 0 to 10. Default 0.01: with `loss_error` and the default classes it reproduces
    /// Pond's model, which finds 30 % of VMs insensitive at 182 % of local latency, of which 2 % of
    /// all VMs lose more than 5 % (section 6.4, recollected; a test).
    #[schemars(range(min = 0.0, max = 10.0))]
    bound: f64,
    /// Standard deviation of the error of the logarithm of the predicted loss. 0
    /// to 5. Default 1.5 (see `bound`).
    #[schemars(range(min = 0.0, max = 5.0))]
    loss_error: f64,
    /// Like `margin` of the policy `untouched`.
    #[schemars(range(min = 0.0, max = 1.0))]
    margin: f64,
    /// Like `error` of the policy `untouched`.
    #[schemars(range(min = 0.0, max = 1.0))]
    error: f64,
    /// Like `most` of the policy `untouched`.
    #[schemars(range(min = 0.0, max = 1.0))]
    most: f64,
}

impl Default for Predicted {
    fn default() -> Self {
        Predicted {
            bound: 0.01,
            loss_error: 1.5,
            margin: 0.32,
            error: 0.18,
            most: 0.0,
        }
    }
}

impl PoolPolicy for Predicted {
    fn wish(&self, vm: &Vm, host: &HostView) -> WantedPool {
        let guess = slowdown(vm.loss, host.ratio) * libm::exp(self.loss_error * vm.error[1]);
        let untouched = Untouched {
            margin: self.margin,
            error: self.error,
            most: self.most,
        };
        let mib = if guess <= self.bound {
            vm.memory_mib
        } else {
            untouched.mib(vm)
        };
        WantedPool {
            mib,
            most_mib: part_of(vm, self.most).max(mib),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(memory_mib: u32) -> Vm {
        Vm {
            start_s: 0,
            end_s: 1,
            cores: 2,
            memory_mib,
            loss: 0.1,
            untouched: 0.5,
            class: 0,
            most_pool: 1.0,
            error: [0.0; 2],
        }
    }

    /// Draws VMs with the default distributions and errors.
    fn drawn(count: usize) -> Vec<Vm> {
        let classes = crate::sensitivity::default_classes();
        let mut rng = cxlab_engine::rng::StreamRng::new(1, "calibration");
        let one = |_| {
            let loss = crate::sensitivity::draw(&classes, 1.0, &mut rng).1;
            let untouched = rng.unit();
            let error = [(); 2].map(|()| crate::demand::normal(&mut rng));
            Vm {
                loss,
                untouched,
                error,
                ..vm(1 << 20)
            }
        };
        (0..count).map(one).collect()
    }

    fn part(vms: &[Vm], of: impl Fn(&Vm) -> bool) -> f64 {
        vms.iter().filter(|vm| of(vm)).count() as f64 / vms.len() as f64
    }

    #[test]
    fn the_untouched_model_has_ponds_operating_point() {
        let vms = drawn(200_000);
        let model = Untouched::default();
        let mib: u64 = vms.iter().map(|vm| u64::from(model.mib(vm))).sum();
        let mean = mib as f64 / (vms.len() as f64 * f64::from(1 << 20));
        assert!((mean - 0.25).abs() < 0.005, "{mean}");
        let wrong = part(&vms, |vm| {
            f64::from(model.mib(vm)) > vm.untouched * f64::from(vm.memory_mib)
        });
        assert!((wrong - 0.04).abs() < 0.005, "{wrong}");
    }

    #[test]
    fn the_insensitivity_model_has_ponds_operating_point() {
        let vms = drawn(200_000);
        let all = |vm: &Vm| {
            let model = Predicted {
                margin: 1.0,
                error: 0.0,
                ..Predicted::default()
            };
            let view = HostView {
                ratio: crate::sensitivity::REFERENCE_RATIO,
                ..host(0, 0)
            };
            model.wish(vm, &view).mib == vm.memory_mib
        };
        let marked = part(&vms, all);
        assert!((marked - 0.30).abs() < 0.01, "{marked}");
        let wrong = part(&vms, |vm| all(vm) && vm.loss > 0.05);
        assert!((wrong - 0.02).abs() < 0.005, "{wrong}");
    }

    fn host(local_free_mib: u64, pool_free: u32) -> HostView {
        HostView {
            local_mib: 102_400,
            local_free_mib,
            pool_free,
            ratio: 1.82,
        }
    }

    fn slices(kind: &str, params: &str, vm: &Vm, host: &HostView) -> Option<u32> {
        let entry = CATALOG.iter().find(|entry| entry.name == kind).unwrap();
        let policy = (entry.build)(&serde_json::from_str(params).unwrap()).unwrap();
        split(vm, host, policy.wish(vm, host), 1024)
    }

    /// Where local memory is short, more comes from the pool only if the policy allows. Where the
    /// pool is short, local memory takes its place. Memory below a slice is local.
    #[test]
    fn policies_split_as_they_say() {
        let (eight, small) = (vm(8192), vm(1792));
        let capped = Vm {
            most_pool: 0.25,
            ..vm(8192)
        };
        let (wide, narrow) = (host(102_400, 100), host(2048, 100));
        let table = [
            ("none", "{}", &eight, wide, Some(0)),
            ("static", "{}", &eight, wide, Some(4)),
            ("static", r#"{"fraction": 0.3}"#, &eight, wide, Some(2)),
            ("on-demand", "{}", &eight, wide, Some(0)),
            ("watermark", "{}", &eight, wide, Some(0)),
            ("watermark", r#"{"mark": 0.05}"#, &eight, wide, Some(3)),
            ("untouched", "{}", &eight, wide, Some(1)),
            ("untouched", r#"{"margin": 0.0}"#, &eight, wide, Some(4)),
            ("predicted", "{}", &eight, wide, Some(1)),
            ("predicted", r#"{"bound": 0.2}"#, &eight, wide, Some(8)),
            ("none", "{}", &eight, narrow, None),
            ("static", "{}", &eight, narrow, None),
            ("on-demand", "{}", &eight, narrow, Some(6)),
            ("predicted", "{}", &eight, narrow, None),
            ("predicted", r#"{"most": 0.9}"#, &eight, narrow, Some(6)),
            ("on-demand", r#"{"most": 0.5}"#, &eight, narrow, None),
            ("static", "{}", &eight, host(102_400, 1), Some(1)),
            ("static", "{}", &eight, host(4096, 3), None),
            ("static", "{}", &capped, wide, Some(2)),
            (
                "static",
                r#"{"fraction": 1.0}"#,
                &small,
                host(102_400, 9),
                Some(1),
            ),
            ("static", "{}", &small, host(102_400, 9), Some(0)),
            ("on-demand", "{}", &small, host(0, 9), None),
        ];
        for (kind, params, vm, host, expected) in table {
            let found = slices(kind, params, vm, &host);
            assert_eq!(found, expected, "{kind} {params} {vm:?} {host:?}");
        }
    }
}
