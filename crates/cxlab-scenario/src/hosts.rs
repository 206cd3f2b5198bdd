//! Hosts: how they issue, the memory of their own, and what they run.

use cxlab_engine::units::{Bytes, Picos};
use cxlab_host::{Cluster, CoreParams, OsParams, ProcessorParams, RequesterParams};
use cxlab_workload::pattern::External;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::choice::{MediumChoice, WorkloadChoice};

/// How a host issues requests.
#[derive(Clone, Debug)]
pub enum HostKind {
    /// A requester of lines, without a program.
    Requester(RequesterParams),
    /// A core with private caches that runs the workload as a program.
    Core(CoreParams),
    /// A multi-core processor that runs the workload as threads, or as a program on each core.
    Processor(Box<ProcessorParams>),
}

/// Source of the requests of a host that runs no workload.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
enum IssuerKind {
    /// Another program: the host is a port of libcxlab.
    External,
}

/// Some equal hosts.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(from = "HostTable", into = "HostTable")]
pub struct HostGroup {
    /// Name of the host; with `count` over 1 the hosts are called name0, name1, ...
    pub name: String,
    /// Number of hosts, 1 to 4095.
    pub count: u32,
    /// How the hosts issue requests.
    pub kind: HostKind,
    /// Parameters of other kinds in the table, which `kind` excludes.
    others: Vec<HostKind>,
    /// Memory of a host with a core.
    pub local: Option<LocalMemoryParams>,
    /// NUMA nodes of a host with a processor.
    pub nodes: Vec<NodeGroup>,
    /// Operating system of a host with a processor; without one, addresses are physical.
    pub os: Option<OsParams>,
    /// Workload of the hosts.
    pub workload: WorkloadChoice,
    /// Whether the hosts are external ports: another program hands over their requests while the
    /// simulation runs. Then `workload` only stands for these requests.
    pub external: bool,
    /// Most requests that wait at an external port, if the table says so.
    pub depth: Option<u32>,
    /// Whether the program of an external port has caches above the port, which are snooped.
    pub snooped: bool,
    /// Whether the user wrote a `workload`, which external ports must not have.
    pub has_workload: bool,
    /// Most requests of each host; most steps of its program, or of the program of each core.
    pub requests: Option<u64>,
    /// The memory that patterns and traces on a processor address from 0 on.
    pub span: Option<SpanOf>,
    /// Workload of the last cores of a processor, which run no threads.
    pub beside: Option<BesideGroup>,
}

/// Some equal hosts.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HostGroup")]
struct HostTable {
    /// The host's name; with `count` over 1 the hosts are called name0, name1, ...
    name: String,
    /// How many. 1 to 4095. Default 1.
    #[serde(default = "crate::defaults::one")]
    #[schemars(range(min = 1, max = 4095))]
    count: u32,
    /// `"external"`: another program hands over the requests while the simulation runs, through libcxlab
    /// (`include/cxlab.h`). Each host is a port with the host's name. Default: the hosts run `workload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<IssuerKind>,
    /// With `kind = "external"`: most requests that wait at the port until `issue` allows them, 1 to 1048576.
    /// Default 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1048576))]
    depth: Option<u32>,
    /// With `kind = "external"`: the program has caches above the port. The program is asked to
    /// give up lines before back-invalidation snoops are answered and before lines leave
    /// `issue.cache`, which has all lines that the program's caches have. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    snooped: bool,
    /// How the hosts issue requests, if they have neither `core` nor `processor`.
    #[serde(default)]
    issue: RequesterParams,
    /// A core with private caches that runs the workload as a program. Default: none, the host
    /// issues lines as `issue` says.
    #[serde(default)]
    core: Option<CoreParams>,
    /// Memory of the host's own, with `core`. Default: none.
    #[serde(default)]
    local: Option<LocalMemoryParams>,
    /// A multi-core processor that runs the workload, as threads or as a program on each core, and
    /// keeps its own memory coherent with its accelerators, instead of `core`. Default: none.
    #[serde(default)]
    processor: Option<ProcessorParams>,
    /// Memory of the host's own, with `processor`: a controller on each NUMA node. Their addresses
    /// follow one another from 2^51 on, in this order.
    #[serde(default)]
    nodes: Vec<NodeGroup>,
    /// An operating system, with `processor`: threads use virtual addresses, which cores and
    /// accelerators translate; pages are placed when they are touched, and move. Default: none,
    /// addresses are physical.
    #[serde(default)]
    os: Option<OsParams>,
    /// The workload of the hosts. Required, except with `kind = "external"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload: Option<WorkloadChoice>,
    /// Most requests that each host issues; with `core`, most steps of its program, and with
    /// `processor`, of the program of each core. Default: as many as the workload has.
    #[serde(default)]
    #[schemars(range(min = 1))]
    requests: Option<u64>,
    /// With `processor`: the memory that patterns and traces address from 0 on. Default: `cxl` where
    /// the host reaches any, else `local`.
    #[serde(default)]
    span: Option<SpanOf>,
    /// With `processor` and a workload of threads: the workload of its last cores, which run no threads. Default: none.
    #[serde(default)]
    beside: Option<BesideGroup>,
}

/// The memory that sources of lines on a processor address from 0 on.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum SpanOf {
    /// The CXL memory of the host.
    Cxl,
    /// The host's own memory: its NUMA nodes, or its process's heap.
    Local,
    /// CXL memory, followed by the host's own memory.
    All,
}

/// Operations or programs on cores of a processor whose other cores run threads.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct BesideGroup {
    /// Workload of each of the cores: a pattern, a trace, or a program.
    pub workload: WorkloadChoice,
    /// Number of cores that run the workload, the last ones of the processor. Default 1; at least one core is left.
    #[serde(default = "crate::defaults::one")]
    #[schemars(range(min = 1))]
    pub cores: u32,
    /// Most steps of each core. Default: as many as the workload has.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub requests: Option<u64>,
    /// The memory that patterns and traces address from 0 on. Default: as in the host group.
    #[serde(default)]
    pub span: Option<SpanOf>,
}

/// The workload of hosts whose table has none: operations that come from outside.
fn external_workload() -> WorkloadChoice {
    WorkloadChoice {
        kind: External::KIND.to_owned(),
        params: Map::new(),
    }
}

impl HostKind {
    /// The key of the kind in the table of a host.
    pub fn key(&self) -> &'static str {
        match self {
            HostKind::Requester(_) => "issue",
            HostKind::Core(_) => "core",
            HostKind::Processor(_) => "processor",
        }
    }
}

impl From<HostTable> for HostGroup {
    fn from(table: HostTable) -> HostGroup {
        let is_given = table.issue != RequesterParams::default();
        let processor = table.processor.map(Box::new).map(HostKind::Processor);
        let issue = is_given.then_some(HostKind::Requester(table.issue));
        let kinds = [processor, table.core.map(HostKind::Core), issue];
        let mut kinds = kinds.into_iter().flatten();
        let kind = kinds.next();
        HostGroup {
            name: table.name,
            count: table.count,
            kind: kind.unwrap_or_else(|| HostKind::Requester(RequesterParams::default())),
            others: kinds.collect(),
            local: table.local,
            nodes: table.nodes,
            os: table.os,
            has_workload: table.workload.is_some(),
            workload: table.workload.unwrap_or_else(external_workload),
            external: table.kind == Some(IssuerKind::External),
            depth: table.depth,
            snooped: table.snooped,
            requests: table.requests,
            span: table.span,
            beside: table.beside,
        }
    }
}

impl From<HostGroup> for HostTable {
    fn from(group: HostGroup) -> HostTable {
        let mut table = HostTable {
            name: group.name,
            count: group.count,
            kind: group.external.then_some(IssuerKind::External),
            depth: group.depth,
            snooped: group.snooped,
            issue: RequesterParams::default(),
            core: None,
            local: group.local,
            processor: None,
            nodes: group.nodes,
            os: group.os,
            workload: group.has_workload.then_some(group.workload),
            requests: group.requests,
            span: group.span,
            beside: group.beside,
        };
        for kind in group.others.into_iter().chain([group.kind]) {
            match kind {
                HostKind::Requester(params) => table.issue = params,
                HostKind::Core(params) => table.core = Some(params),
                HostKind::Processor(params) => table.processor = Some(*params),
            }
        }
        table
    }
}

/// Most requests that wait at an external port, if the scenario does not say so (*assumed*).
const DEFAULT_DEPTH: u32 = 1024;

impl HostGroup {
    /// Most requests that wait at an external port until the host issues them.
    pub fn port_depth(&self) -> u32 {
        self.depth.unwrap_or(DEFAULT_DEPTH)
    }

    /// All kinds of issuing in the table: the kind in force, then the kinds that it excludes.
    pub fn kinds(&self) -> impl Iterator<Item = &HostKind> {
        std::iter::once(&self.kind).chain(&self.others)
    }

    /// Keys of the table that another key excludes, each with that key. The group is of the kind of
    /// the last key of `issue`, `core` and `processor` that the table has.
    pub fn excluded(&self) -> Vec<[&'static str; 2]> {
        let keys: Vec<&str> = self.kinds().map(HostKind::key).collect();
        let mut pairs = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            pairs.extend(keys[at + 1..].iter().map(|other| [*other, *key]));
        }
        if self.local.is_some() && self.processor().is_some() {
            pairs.push(["local", "processor"]);
        }
        pairs
    }

    /// Parameters of a requester; `None` for a host of another kind.
    pub fn requester(&self) -> Option<&RequesterParams> {
        match &self.kind {
            HostKind::Requester(issue) => Some(issue),
            HostKind::Core(_) | HostKind::Processor(_) => None,
        }
    }

    /// Parameters of a processor; `None` for a host of another kind.
    pub fn processor(&self) -> Option<&ProcessorParams> {
        match &self.kind {
            HostKind::Processor(processor) => Some(processor),
            HostKind::Requester(_) | HostKind::Core(_) => None,
        }
    }

    /// Number of cores beside those of the processor, which run no threads.
    pub fn cores_beside(&self) -> u32 {
        self.beside.as_ref().map_or(0, |beside| beside.cores)
    }

    /// Constant time of a host before its links.
    pub fn egress(&self) -> Picos {
        match &self.kind {
            HostKind::Requester(issue) => issue.egress(),
            HostKind::Core(core) => core.egress(),
            HostKind::Processor(processor) => processor.root_port_time,
        }
    }

    /// Constant time of a host after its links.
    pub fn ingress(&self) -> Picos {
        match &self.kind {
            HostKind::Processor(processor) => processor.root_port_time,
            HostKind::Requester(_) | HostKind::Core(_) => Picos::ZERO,
        }
    }

    /// Capacity of a host's own memory.
    pub fn own_memory(&self) -> Bytes {
        let nodes = self.nodes.iter().map(|node| node.capacity.0);
        let local = self.local.as_ref().map_or(0, |local| local.capacity.0);
        Bytes(nodes.fold(local, u64::saturating_add))
    }
}

/// Memory of a host's own, below its memory controller.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct LocalMemoryParams {
    /// Capacity: a multiple of 4 KiB. Its addresses begin at 2^51.
    pub capacity: Bytes,
    /// One way between the last private cache and the memory controller. Default 39 ns: an idle load takes
    /// 130 ns, as on the host of Vistara (Meta, ISCA 2026, Table VI).
    #[serde(default = "default_local_latency")]
    pub latency: Picos,
    /// The medium. Default: `{ kind = "fixed" }`.
    #[serde(default)]
    pub memory: MediumChoice,
}

fn default_local_latency() -> Picos {
    Picos::from_nanos(39)
}

/// A NUMA node: a memory controller with its medium, in a cluster of the processor.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct NodeGroup {
    /// Capacity: a multiple of 4 KiB.
    pub capacity: Bytes,
    /// Position of the node's memory controller. Default socket 0, column 0, row 0.
    #[serde(default)]
    pub at: Cluster,
    /// One way through the memory controller. Default 5 ns (*assumed*).
    #[serde(default = "default_node_latency")]
    pub latency: Picos,
    /// The medium. Default: `{ kind = "fixed" }`.
    #[serde(default)]
    pub memory: MediumChoice,
}

fn default_node_latency() -> Picos {
    Picos::from_nanos(5)
}
