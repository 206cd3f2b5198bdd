// A memory of gem5 behind external hosts of a CXL system.
#ifndef CXLAB_GEM5_MEMORY_HH
#define CXLAB_GEM5_MEMORY_HH

#include <memory>
#include <string>
#include <vector>

#include "gem5/cxlab_port.hh"
#include "mem/abstract_mem.hh"
#include "params/CxlabMemory.hh"

namespace gem5
{

namespace memory
{

// Each port is one external host. All ports have the same bytes, which gem5 keeps.
class CxlabMemory : public AbstractMemory
{
  public:
    PARAMS(CxlabMemory);
    CxlabMemory(const Params &p);

    Port &getPort(const std::string &if_name, PortID idx = InvalidPortID) override;
    void init() override;
    DrainState drain() override;

    // Whether the CXL system snoops the caches at the ports.
    bool isCoherent() const { return coherent; }
    Tick atomicLatency() const { return latency; }
    RequestorID requestorId() const { return requestor; }
    // A functional access that came through a port: caches at other ports may have changed lines.
    void functional(PacketPtr pkt, CxlabPort &through);
    // Tells gem5 when nothing is outstanding any more, if it waits for that.
    void checkDrained();

  private:
    bool isIdle() const;

    const bool coherent;
    const Tick latency;
    RequestorID requestor = 0;
    std::vector<std::unique_ptr<CxlabPort>> ports;
};

} // namespace memory
} // namespace gem5

#endif
