"""The objects of cxlab for gem5's configurations."""

from m5.objects.AbstractMemory import AbstractMemory
from m5.params import Param, VectorParam, VectorResponsePort
from m5.SimObject import SimObject


class CxlabSystem(SimObject):
    """A CXL system: devices, fabric and hosts of one scenario, in gem5's time."""

    type = "CxlabSystem"
    cxx_header = "gem5/cxlab_system.hh"
    cxx_class = "gem5::CxlabSystem"

    scenario = Param.String("A scenario file with a host of kind external for each port")
    changes = VectorParam.String([], "Changes of the scenario, as for cxlab run --set")
    seed = Param.UInt64(1, "The seed of the scenario's random numbers")
    can_save = Param.Bool(True, "Checkpoints are possible")


class CxlabMemory(AbstractMemory):
    """Memory behind external hosts of a CxlabSystem. gem5 keeps the bytes, cxlab the time."""

    type = "CxlabMemory"
    cxx_header = "gem5/cxlab_memory.hh"
    cxx_class = "gem5::memory::CxlabMemory"

    port = VectorResponsePort("Take requests, each of the host of its number")
    cxlab = Param.CxlabSystem("The system; several memories may share it")
    hosts = VectorParam.String("A host of kind external for each port")
    coherent = Param.Bool(
        False, "Each port has one last-level cache, which is snooped: the hosts have `snooped`"
    )
    atomic_latency = Param.Latency(
        "250ns", "Latency in atomic mode, in which cxlab does not run (assumed)"
    )
