//! A PCIe device has no CXL.cache. Workloads that need it are refused, and DMA
//! works as on a CXL device.
#![allow(clippy::unwrap_used)]

use cxlab_system::run::RunError;
use cxlab_tests::script::{self, Script};
use cxlab_tests::{problems, report, scenario, shipped, try_run};
use cxlab_workload::LOCAL_BASE;
use cxlab_workload::thread::{Bases, ExecutionPlace, Thread, ThreadOp};

const PCIE: &str = "accelerators[0].device.kind=\"pcie\"";

/// Paths and messages of the refused settings.
fn refused(set: &[&str]) -> Vec<(String, String)> {
    let found = problems(&shipped("cohet-fpga"), &[set, &[PCIE]].concat());
    let found = found.into_iter();
    found.map(|one| (one.path, one.message)).collect()
}

#[test]
fn workloads_that_load_host_memory_are_refused_on_a_pcie_device() {
    for (workload, field) in [
        ("kind = \"load-store-unit\"", "kind"),
        ("kind = \"circus-tent\"", "interface"),
        ("kind = \"axpy\"", "model"),
        ("kind = \"rpc\", method = \"nc-p\"", "method"),
        (
            "kind = \"rpc\", direction = \"serialize\", method = \"cxl-cache\"",
            "method",
        ),
    ] {
        let set = format!("hosts[0].workload={{ {workload} }}");
        let found = refused(&[&set]);
        assert_eq!(found.len(), 1, "{workload}: {found:?}");
        assert_eq!(found[0].0, format!("hosts[0].workload.{field}"));
        assert!(found[0].1.contains("allowed"), "{}", found[0].1);
        let of_type_1 = problems(&shipped("cohet-fpga"), &[&set]);
        assert!(of_type_1.is_empty(), "{workload}: {of_type_1:?}");
    }
}

#[test]
fn parameters_that_mean_nothing_to_a_pcie_device_are_refused() {
    let dma = "hosts[0].workload={ kind = \"dma-transfers\" }";
    assert_eq!(refused(&[dma]), []);
    let memory = refused(&[dma, "accelerators[0].memory.capacity=\"1 GiB\""]);
    assert_eq!(memory[0].0, "accelerators[0].memory");
    let prefetch = "accelerators[0].device.cache.prefetch={ kind = \"stride\" }";
    let refused = refused(&[dma, prefetch]);
    assert_eq!(refused[0].0, "accelerators[0].device.cache.prefetch");
}

#[test]
fn what_uses_dma_runs_on_a_pcie_device_as_on_one_of_type_1() {
    for workload in [
        "kind = \"dma-transfers\", messages = 100",
        "kind = \"circus-tent\", interface = \"pcie\", iterations = 200",
        "kind = \"rpc\"",
        "kind = \"rpc\", direction = \"serialize\"",
        "kind = \"axpy\", model = \"explicit\", elements = 4096",
        "kind = \"axpy\", model = \"unified\", elements = 4096",
    ] {
        let set = format!("hosts[0].workload={{ {workload} }}");
        let text = shipped("cohet-fpga");
        // The same framing as on the PCIe device's link.
        let link = "fabric.link.sync_header_bypass=false";
        let [type1, pcie] =
            [vec![&set[..], link], vec![&set[..], link, PCIE]].map(|set| report(&text, &set));
        assert_eq!(
            type1.provenance.digest, pcie.provenance.digest,
            "{workload}"
        );
    }
}

/// A kernel with a single operation on the accelerator, which is not known before the run.
#[derive(Clone)]
struct One(ThreadOp);

impl Script for One {
    fn threads(&self, _: Bases, place: ExecutionPlace) -> Vec<Thread> {
        let op = self.0;
        match place {
            ExecutionPlace::Element { .. } => vec![Thread::new(move |t| async move {
                t.issue(op).await;
            })],
            ExecutionPlace::Core { .. } => Vec::new(),
        }
    }
}

#[test]
fn a_kernel_that_loads_all_the_same_ends_the_run_with_an_error() {
    let addr = LOCAL_BASE.0 + 128;
    for op in [
        ThreadOp::Load { addr, size: 8 },
        ThreadOp::Await {
            addr,
            size: 8,
            value: 0,
        },
        ThreadOp::Push { addr, bytes: 64 },
        ThreadOp::Flush { addr },
        ThreadOp::Prefetch { addr },
    ] {
        let workload = "hosts[0].workload={ kind = \"external\", name = \"script\" }";
        let scenario = scenario(&shipped("cohet-fpga"), &[workload, PCIE]);
        let plan = script::plan_of(scenario, One(op));
        let Err(RunError::Problems(problems)) = try_run(&plan, 1) else {
            panic!("{op:?} was done")
        };
        assert_eq!(problems[0].path, "accelerators[0].device.kind");
        let says = &problems[0].message;
        for part in ["`fpga`", "needs CXL.cache"] {
            assert!(says.contains(part), "{says}");
        }
    }
}
