"""Media made of public simulators, from checkouts that environment variables name."""

import argparse
import importlib.util
import os
import sys
from pathlib import Path

import pytest

COMPARE = Path(__file__).parents[2] / "adapters/compare.py"


@pytest.fixture(scope="module")
def compare():
    spec = importlib.util.spec_from_file_location("compare", COMPARE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def bench(compare, tmp_path):
    def of(pair, **more):
        variable = "CXLAB_" + compare.PAIRS[pair].variable
        if variable not in os.environ:
            pytest.skip(f"{variable} names no checkout of the simulator")
        return compare.Bench(
            compare.PAIRS[pair],
            argparse.Namespace(
                cxlab=str(Path(sys.executable).with_name("cxlab")),
                out=tmp_path,
                requests=5000,
                checkout=Path(os.environ[variable]),
                library=None,
                **more,
            ),
        )

    return of


def test_a_checkout_that_is_none_is_one_clear_error(compare, tmp_path):
    bad = argparse.Namespace(
        cxlab="cxlab", out=tmp_path, requests=1, checkout=tmp_path / "none", library=tmp_path
    )
    with pytest.raises(compare.CheckError, match=r"none/ssdconfig.xml: found no such file"):
        compare.Bench(compare.PAIRS["mqsim"], bad)


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["dramsim3", "ramulator2-ddr4", "ramulator2-ddr5", "mqsim-plane"])
def test_our_medium_agrees_with_the_simulator(compare, bench, pair):
    bench = bench(pair)
    for traffic, bound in [
        (compare.Traffic("idle", "uniform", "1.0", 1), 0.05),
        (compare.Traffic("saturated", "uniform", "1.0", bench.pair.outstanding), 0.05),
    ]:
        own, theirs = bench.run("own", traffic), bench.run("theirs", traffic)
        assert own.latency_ns == pytest.approx(theirs.latency_ns, rel=bound), traffic.name
        assert own.gb_per_s == pytest.approx(theirs.gb_per_s, rel=bound), traffic.name
        assert bench.run("theirs", traffic) == theirs, "a second run has the same result"
